"""Addresses in stored records and message ids: 4 or 16 bytes of IP, then the port as a 32-bit number."""

from __future__ import annotations

import struct
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address

from pyromq.errors import LocalProtocolError, MalformedHeader

IPV4_HOST_LENGTH = 8
IPV6_HOST_LENGTH = 20

_PORT = struct.Struct(">i")


def encode_ip(address: str) -> bytes:
    """Return the 4 or 16 bytes of a numeric address; an IPv4-mapped IPv6 address is written as IPv4."""
    try:
        ip = ip_address(address.partition("%")[0])
    except ValueError:
        raise LocalProtocolError(f"not a numeric IP address: {address!r}") from None
    if isinstance(ip, IPv6Address) and ip.ipv4_mapped is not None:
        return ip.ipv4_mapped.packed
    return ip.packed


def encode_host(address: str, port: int) -> bytes:
    """Return the 8 or 20 bytes of a numeric address and a port."""
    if not 0 <= port <= 65535:
        raise LocalProtocolError(f"not a port: {port}")
    return encode_ip(address) + _PORT.pack(port)


@lru_cache(maxsize=1024)
def decode_host(host: bytes) -> str:
    """Return `ip:port`, or `[ip]:port` for IPv6."""
    if len(host) == IPV4_HOST_LENGTH:
        return f"{IPv4Address(host[:4])}:{_PORT.unpack_from(host, 4)[0]}"
    if len(host) == IPV6_HOST_LENGTH:
        return f"[{IPv6Address(host[:16])}]:{_PORT.unpack_from(host, 16)[0]}"
    raise MalformedHeader(f"a host has {IPV4_HOST_LENGTH} or {IPV6_HOST_LENGTH} bytes, not {len(host)}")
