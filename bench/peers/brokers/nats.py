"""NATS JetStream: published with a reply subject, acknowledged when the stream has the message in its file."""

from __future__ import annotations

import json
import secrets
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from interop.servers import HOST, Server, free_port
from interop.toolkit import Missing

from ..load.generator import Load, Shape, connected
from ..load.rocketmq import QUEUES, TAG
from .peer import Peer
from .work import Setting

_STREAM = "bench"
_HELLO = b'CONNECT {"verbose":false,"pedantic":false,"headers":true,"lang":"c","version":"1"}\r\n'


class JetStream(Peer):
    """One server with one stream in files; every queue is a subject. Consumers are pushed to, so pulls are left out."""

    can_pull = False

    def __init__(self, server: Server, port: int, about: dict[str, str]) -> None:
        super().__init__([server], about)
        self._address = HOST, port
        with connected(self._address, 1) as (connection,):
            inbox = _greet(connection)
            config = json.dumps({"name": _STREAM, "subjects": [f"{_STREAM}.*"], "storage": "file", "num_replicas": 1})
            connection.sendall(_publish(f"$JS.API.STREAM.CREATE.{_STREAM}", f"{inbox}.0", config.encode()))
            said = _until(connection, b"}\r\n")
            if b'"error"' in said:
                raise RuntimeError(f"no stream: {said!r}")

    @contextmanager
    def sends(self, shape: Shape, size: int) -> Iterator[Load]:
        body = secrets.token_hex(size // 2 + 1)[:size].encode()
        with connected(self._address, shape.connections) as sockets:
            rings = []
            for number, connection in enumerate(sockets):
                inbox = _greet(connection)
                subjects = [f"{_STREAM}.{(number + slot) % QUEUES}" for slot in range(shape.window)]
                rings.append([[_with_headers(of, f"{inbox}.{slot}", body)] for slot, of in enumerate(subjects)])
            yield Load("nats", sockets, rings)

    def tidy(self) -> None:
        with connected(self._address, 1) as (connection,):
            inbox = _greet(connection)
            connection.sendall(_publish(f"$JS.API.STREAM.PURGE.{_STREAM}", f"{inbox}.0", b""))
            _until(connection, b"}\r\n")


def _greet(connection: socket.socket) -> str:
    """Say hello, subscribe to an inbox of its own, and return its name."""
    inbox = f"_INBOX.{secrets.token_hex(6)}"
    connection.sendall(_HELLO + f"SUB {inbox}.* 1\r\nPING\r\n".encode())
    _until(connection, b"PONG\r\n")
    return inbox


def _until(connection: socket.socket, end: bytes) -> bytes:
    said = b""
    while not said.endswith(end):
        part = connection.recv(1 << 16)
        if not part:
            raise RuntimeError(f"NATS closed the connection: {said!r}")
        said += part
    return said


def _publish(subject: str, reply: str, body: bytes) -> bytes:
    return f"PUB {subject} {reply} {len(body)}\r\n".encode() + body + b"\r\n"


def _with_headers(subject: str, reply: str, body: bytes) -> bytes:
    head = f"NATS/1.0\r\nkey: kNNNNNNNNNNNNNNNN\r\ntag: {TAG}\r\n\r\n".encode()
    return f"HPUB {subject} {reply} {len(head)} {len(head) + len(body)}\r\n".encode() + head + body + b"\r\n"


def start_nats(setting: Setting, directory: Path, stack: ExitStack) -> JetStream:
    """Start NATS; raise Missing."""
    program = shutil.which("nats-server")
    if program is None:
        raise Missing("no nats-server on the PATH")
    if setting is not Setting.ASYNC:
        raise Missing("not comparable: this version has no flush before the answer, and one server has no slave")
    directory.mkdir(parents=True)
    port = free_port()
    config = directory / "nats.conf"
    config.write_text(f'listen: "{HOST}:{port}"\njetstream {{ store_dir: "{directory}", max_file_store: 64GB }}\n')
    command = [program, "-c", str(config)]
    server = stack.enter_context(Server(command, directory / "nats.log", "Server is ready", own_session=True))
    version = subprocess.run([program, "--version"], capture_output=True, text=True).stdout.split()[-1]
    return JetStream(server, port, {"version": version, "settings": "storage file, defaults"})
