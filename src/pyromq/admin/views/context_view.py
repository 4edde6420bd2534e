"""The JSON of contexts; secrets are never shown."""

from __future__ import annotations

from typing import Any

from pyromq.admin.contexts import ClusterContext


def context_fields(name: str, context: ClusterContext, *, is_current: bool) -> dict[str, Any]:
    """Return a context without its secret."""
    return {
        "context": name,
        "current": is_current,
        "namesrv": context.namesrv,
        "access_key": context.access_key or None,
        "has_secret": bool(context.secret_key),
        "tls": None if context.tls is None else {"ca_file": context.tls.ca_file, "cert_file": context.tls.cert_file},
        "colour": context.colour or None,
        "confirm": context.confirm,
    }
