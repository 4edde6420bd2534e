"""Where etcd is, as the settings say: `failover=etcd://host:port,host:port`, an account and certificates."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from pyromq.errors import ConfigError

_SCHEME: Final = "etcd://"
_DEFAULT_PORT: Final = 2379


class EtcdAddress(Struct, frozen=True, kw_only=True):
    """Endpoints, and what etcd wants to see from those who ask."""

    endpoints: tuple[str, ...]
    user: str = ""
    password: str = ""
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""

    @property
    def scheme(self) -> str:
        """Whether TLS is spoken: where a file of certificates is given."""
        return "https" if self.ca_file or self.cert_file else "http"

    @property
    def account(self) -> dict[str, str]:
        """The account, as a request for a token names it; empty if there is none."""
        return {"name": self.user, "password": self.password} if self.user else {}


def parse_endpoints(text: str) -> tuple[str, ...]:
    """Return the endpoints of `etcd://host:port,…`; raise ConfigError for anything else."""
    if not text.startswith(_SCHEME):
        raise ConfigError(f"failover: {text} is not of the form etcd://host:port[,host:port…]")
    endpoints = [one.strip() for one in text.removeprefix(_SCHEME).rstrip("/").split(",")]
    return tuple(map(_endpoint, endpoints))


def _endpoint(text: str) -> str:
    host, _, port = text.rpartition(":") if ":" in text.rpartition("]")[2] else (text, "", str(_DEFAULT_PORT))
    if not host or "/" in text or "@" in text or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise ConfigError(f"failover: {text or 'nothing'} is no address of etcd: host:port")
    return f"{host}:{port}"
