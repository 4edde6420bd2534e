from __future__ import annotations

import asyncio
import importlib
import socket
import sys
from collections.abc import Iterator
from typing import Any, cast

import pytest
import uvloop

from pyromq.remoting import loop


async def on_uvloop() -> bool:
    return isinstance(asyncio.get_running_loop(), uvloop.Loop)


def test_run_uses_uvloop_and_returns_the_result() -> None:
    assert loop.run(on_uvloop()) is True


def test_run_falls_back_to_asyncio_where_uvloop_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "uvloop", None)
        importlib.reload(loop)
        assert loop.run(on_uvloop()) is False
    importlib.reload(loop)


# --- writes that go past the loop


class FakeTransport:
    """Keeps what it is given, over a real socket."""

    def __init__(self, sock: socket.socket | None, *, is_encrypted: bool = False) -> None:
        self._info = {"socket": sock, "ssl_object": object() if is_encrypted else None}
        self.kept = b""

    def get_extra_info(self, name: str) -> Any:
        return self._info[name]

    def get_write_buffer_size(self) -> int:
        return len(self.kept)

    def write(self, data: bytes) -> None:
        assert isinstance(data, bytes), "it may keep what it is given"
        self.kept += data


@pytest.fixture(name="ends")
def both_ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    one, other = socket.socketpair()
    with one, other:
        one.setblocking(False)
        other.setblocking(False)
        yield one, other


def writer(transport: FakeTransport) -> Any:
    return loop.writer_of(cast(asyncio.Transport, transport))


def received(sock: socket.socket) -> bytes:
    found = b""
    while True:
        try:
            piece = sock.recv(1 << 16)
        except BlockingIOError:
            return found
        if not piece:
            return found
        found += piece


def test_what_the_socket_takes_never_sees_the_transport(ends: tuple[socket.socket, socket.socket]) -> None:
    transport = FakeTransport(ends[0])
    write = writer(transport)
    scratch = bytearray(b"and more")
    assert write(b"bytes ")
    assert write(memoryview(scratch))
    scratch[:] = b"????????"
    assert received(ends[1]) == b"bytes and more"
    assert transport.kept == b""


@pytest.mark.parametrize("kind", [bytes, memoryview])
def test_the_transport_sends_what_does_not_fit(ends: tuple[socket.socket, socket.socket], kind: Any) -> None:
    ends[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8192)
    transport = FakeTransport(ends[0])
    write = writer(transport)
    data = bytes(range(256)) * 4000
    assert not write(kind(data))
    assert 0 < len(transport.kept) < len(data)
    assert not write(b"the next"), "nothing may overtake the rest"
    assert received(ends[1]) + transport.kept == data + b"the next"


def test_errors_are_the_transports_to_meet(ends: tuple[socket.socket, socket.socket]) -> None:
    transport = FakeTransport(ends[0])
    write = writer(transport)
    ends[1].close()
    assert not write(b"lost")
    assert transport.kept == b"lost"


def test_encrypted_ones_and_those_without_a_socket_go_through_the_transport(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    for transport in (FakeTransport(ends[0], is_encrypted=True), FakeTransport(None)):
        assert not writer(transport)(memoryview(b"plain"))
        assert transport.kept == b"plain"
    assert received(ends[1]) == b""
