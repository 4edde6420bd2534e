"""Which address a broker gives to clients, and whether it can be of use to them."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Iterable

from pyromq.errors import ConfigError

_ELSEWHERE = ("192.0.2.1", 9)  # reserved for documentation: nothing is sent, the system only chooses a way there


def join_address(host: str, port: int) -> str:
    """Write `host:port`, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def split_address(address: str) -> tuple[str, int]:
    """Read `host:port`."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def machine_host() -> str:
    """Return the address by which this machine reaches others; its loopback if it has no other."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_ELSEWHERE)
        except OSError:
            return "127.0.0.1"
        return str(probe.getsockname()[0])


async def resolve(host: str, key: str) -> str:
    """Return the numeric address of a host; raise ConfigError that names the key if it has none."""
    found = await _lookup(host)
    if not found:
        raise ConfigError(f"{key}: the host name {host} is not known")
    return found[0]


async def refuse_hidden_loopback(host: str, name_servers: Iterable[str]) -> None:
    """Raise ConfigError if clients elsewhere would be told an address that is each machine's own."""
    if not _is_loopback(await resolve(host, "brokerIP1")):
        return
    for server in name_servers:
        found = await _lookup(split_address(server)[0])
        if found and not _is_loopback(found[0]):
            raise ConfigError(
                f"brokerIP1: name server {server} is not on this machine's loopback, and would send clients to {host},"
                " which nobody else can reach; set brokerIP1 to this machine's address"
            )


async def _lookup(host: str) -> list[str]:
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return []
    # IPv4 first: a stored message's address is four bytes then, which every client can read.
    return sorted((str(entry[4][0]) for entry in found), key=lambda address: ":" in address)


def _is_loopback(address: str) -> bool:
    return ipaddress.ip_address(address.partition("%")[0]).is_loopback
