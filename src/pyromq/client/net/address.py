"""Addresses: of name servers, of this machine, and the id by which brokers know a client."""

from __future__ import annotations

import itertools
import os
import secrets
import socket
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from pyromq.errors import ClientError

DEFAULT_NAMESRV = "127.0.0.1:9876"

_NOWHERE = ("192.0.2.1", 9)  # reserved for documentation: only the route to it is looked up, nothing is sent
# Containers may share address and process id, and programs seed `random`.
_instances = itertools.count(secrets.randbits(40))


def discovery_url(namesrv: str | Sequence[str]) -> str | None:
    """Return `namesrv` if it is a URL that lists addresses, such as `http://host:8080/rocketmq/nsaddr`, else None.

    `http://host:port` without a path is an address, as for Java's clients.
    """
    if not isinstance(namesrv, str) or not namesrv.startswith(("http://", "https://")):
        return None
    return namesrv if urlsplit(namesrv).path.strip("/") else None


def chosen_namesrv(given: str | Sequence[str] | None) -> str | Sequence[str]:
    """Return the name servers of a client: those given, else those in NAMESRV_ADDR, else this machine's.

    Raises ClientError, with the right form, if they cannot be addresses.
    """
    namesrv = (os.environ.get("NAMESRV_ADDR") or DEFAULT_NAMESRV) if given is None else given
    if isinstance(namesrv, Mapping):
        raise ClientError("the second argument is namesrv=, the name servers; write subscriptions={...} by its name")
    if isinstance(namesrv, bytes) or not isinstance(namesrv, Sequence) or not all(isinstance(n, str) for n in namesrv):
        raise ClientError(f"namesrv= takes 'host:port', several separated by ';', or a list of them: not {namesrv!r}")
    if discovery_url(namesrv) is None:
        parse_addresses(namesrv)
    return namesrv


def parse_addresses(namesrv: str | Sequence[str]) -> tuple[str, ...]:
    """Return the addresses in `host:port;host:port` or in a list; raise ClientError if one is not an address."""
    texts = namesrv.split(";") if isinstance(namesrv, str) else namesrv
    addresses = tuple(dict.fromkeys(_checked(text) for text in texts if text.strip()))
    if not addresses:
        raise ClientError("no name server was given; expected host:port, or several separated by ';'")
    return addresses


def _checked(text: str) -> str:
    address = text.strip().rpartition("/")[2]  # as Java's clients, which accept http://host:port
    host, _, port = address.rpartition(":")
    if "," in host or any(map(str.isspace, host)):
        raise ClientError(f"not a name server's address: {text.strip()!r}; separate several by ';'")
    if not host or not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise ClientError(f"not a name server's address: {text.strip()!r}; expected host:port")
    return address


def local_address() -> str:
    """Return the address that this machine sends from, or the loopback address if it has no other."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_NOWHERE)
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"


def new_client_id(instance_name: str | None = None) -> str:
    """Return `ip@name`; without a name it is `pid#counter`, unique in this process."""
    return f"{local_address()}@{instance_name or f'{os.getpid()}#{next(_instances)}'}"
