"""The JSON of accounts; secrets are never shown."""

from __future__ import annotations

from typing import Any

from pyromq.admin.maintenance.accounts import AccountRights


def account_fields(account: AccountRights) -> dict[str, Any]:
    """Return an account without its secret."""
    return {
        "access_key": account.access_key,
        "admin": account.admin,
        "default_topic": account.default_topic,
        "default_group": account.default_group,
        "topics": dict(account.topics),
        "groups": dict(account.groups),
        "white_address": account.white_address or None,
        "brokers": list(account.brokers),
    }
