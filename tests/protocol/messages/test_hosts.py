"""Addresses as records and ids hold them."""

from __future__ import annotations

import pytest

from pyromq.errors import LocalProtocolError, MalformedHeader
from pyromq.protocol.messages.hosts import decode_host, encode_host, encode_ip


def test_hosts_are_written_in_their_family() -> None:
    assert encode_host("10.0.0.9", 50123).hex() == "0a0000090000c3cb"
    assert len(encode_host("fe80::1%eth0", 1)) == 20
    assert encode_ip("::ffff:10.0.0.9") == encode_ip("10.0.0.9")
    assert decode_host(encode_host("2001:db8::1", 10911)) == "[2001:db8::1]:10911"


@pytest.mark.parametrize(
    ("address", "port"), [("localhost", 1), ("", 1), ("1.2.3", 1), ("1.2.3.4", 65536), ("::1", -1)]
)
def test_what_is_no_numeric_address_is_our_mistake(address: str, port: int) -> None:
    with pytest.raises(LocalProtocolError, match="not a"):
        encode_host(address, port)


def test_a_host_of_another_length_is_malformed() -> None:
    with pytest.raises(MalformedHeader, match="not 9"):
        decode_host(bytes(9))
