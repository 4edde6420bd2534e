"""Redis Streams: XADD, and XRANGE of 32 entries; every queue is a stream."""

from __future__ import annotations

import secrets
import shutil
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from interop.servers import HOST, Server, free_port
from interop.toolkit import Missing

from ..load.generator import MARKS, Load, Shape, connected
from ..load.rocketmq import QUEUES, TAG
from .peer import TO_PULL, Peer
from .work import Setting

_FSYNC = {Setting.ASYNC: "everysec", Setting.SYNC: "always"}
_SENT, _PULLED = "bench", "bench-pulled"
_NUMBER = next(iter(MARKS))
_BATCH, _PART, _RING = 32, 1_000, 256


class RedisStreams(Peer):
    """Redis with an append-only file; all messages are also in its memory."""

    def __init__(self, server: Server, port: int, about: dict[str, str]) -> None:
        super().__init__([server], about)
        self._address = HOST, port

    @contextmanager
    def sends(self, shape: Shape, size: int) -> Iterator[Load]:
        body = _body(size)
        adds = [[_add(f"{_SENT}-{queue}", b"*", b"k" + _NUMBER, body)] for queue in range(QUEUES)]
        with connected(self._address, shape.connections) as sockets:
            rings = [
                [adds[(number + slot) % QUEUES] for slot in range(shape.window)] for number in range(shape.connections)
            ]
            yield Load("redis", sockets, rings)

    @contextmanager
    def pulls(self, shape: Shape) -> Iterator[Load]:
        with connected(self._address, shape.connections) as sockets:
            rings = [
                [_reads(number * shape.window + slot) for slot in range(shape.window)]
                for number in range(shape.connections)
            ]
            yield Load("redis", sockets, rings)

    def fill(self) -> None:
        body = _body(1024)
        with connected(self._address, 1) as (connection,):
            for first in range(0, TO_PULL // QUEUES, _PART):
                added = [
                    _add(f"{_PULLED}-{queue}", b"%d-1" % (number + 1), b"k%016d" % number, body)
                    for number in range(first, first + _PART)
                    for queue in range(QUEUES)
                ]
                connection.sendall(b"".join(added))
                _skip_lines(connection, 2 * len(added))

    def tidy(self) -> None:
        with connected(self._address, 1) as (connection,):
            connection.sendall(_command(b"UNLINK", *(f"{_SENT}-{queue}".encode() for queue in range(QUEUES))))
            _skip_lines(connection, 1)


def _command(*words: bytes) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)


def _add(stream: str, entry: bytes, key: bytes, body: bytes) -> bytes:
    return _command(b"XADD", stream.encode(), entry, b"key", key, b"tag", TAG.encode(), b"body", body)


def _reads(rank: int) -> list[bytes]:
    """Return reads of one stream; each slot begins at another place."""
    last = TO_PULL // QUEUES - _BATCH
    offsets = [(rank * 7919 + at) * _BATCH % last for at in range(_RING)]
    stream = f"{_PULLED}-{rank % QUEUES}".encode()
    return [_command(b"XRANGE", stream, b"%d-1" % (offset + 1), b"+", b"COUNT", b"%d" % _BATCH) for offset in offsets]


def _body(size: int) -> bytes:
    return secrets.token_hex(size // 2 + 1)[:size].encode()


def _skip_lines(connection: socket.socket, lines: int) -> None:
    while lines > 0:
        lines -= connection.recv(1 << 16).count(b"\r\n")


def start_redis(setting: Setting, directory: Path, stack: ExitStack) -> RedisStreams:
    """Start Redis; raise Missing."""
    program = shutil.which("redis-server")
    if program is None:
        raise Missing("no redis-server on the PATH")
    if setting not in _FSYNC:
        raise Missing("not comparable: replication is asynchronous, requests are not signed")
    directory.mkdir(parents=True)
    port = free_port()
    options = [
        "--port", str(port), "--bind", HOST, "--save", "", "--appendonly", "yes", "--appendfsync", _FSYNC[setting],
        "--auto-aof-rewrite-percentage", "0",
    ]  # fmt: skip
    command = [program, "--dir", str(directory), *options]
    server = stack.enter_context(Server(command, directory / "redis.log", "Ready to accept", own_session=True))
    said = server.said().partition("Redis version=")[2].partition(",")[0]
    return RedisStreams(server, port, {"version": said, "settings": " ".join(options[4:])})
