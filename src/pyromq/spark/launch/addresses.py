"""Addresses of Spark: `spark://host:port,host:port` (standalone cluster) and `sc://host:port/;key=value` (Connect)."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

from pyromq.errors import ConfigError

_DEFAULT_PORTS = {"spark": 7077, "sc": 15002}
_TIMEOUT = 5.0


def check_reachable(address: str) -> None:
    """Raise ConfigError if nothing listens at a spark:// or sc:// address; Spark itself would retry for minutes."""
    scheme, separator, rest = address.partition("://")
    if not separator or scheme not in _DEFAULT_PORTS:
        return
    failures = []
    for place in rest.partition("/")[0].split(","):
        try:
            _connect(place, _DEFAULT_PORTS[scheme])
            return
        except (OSError, ValueError) as error:
            failures.append(f"{place}: {getattr(error, 'strerror', None) or error}")
    kind = "Spark Connect server" if scheme == "sc" else "Spark master"
    raise ConfigError(f"no {kind} answers at {'; '.join(failures).lower()}. Is one running there?")


def _connect(place: str, default_port: int) -> None:
    where = urlsplit(f"//{place}")
    socket.create_connection((where.hostname or "", where.port or default_port), _TIMEOUT).close()
