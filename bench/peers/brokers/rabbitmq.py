"""RabbitMQ (AMQP 0-9-1): persistent messages with publisher confirms, into a stream or a quorum queue."""

from __future__ import annotations

import secrets
import shutil
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from interop.servers import HOST, Server, free_port
from interop.toolkit import Missing

from ..load.generator import MARKS, Load, Ring, Shape, connected, receive
from ..load.rocketmq import QUEUES, TAG
from .peer import Peer
from .work import Setting

_KINDS = {Setting.ASYNC: "stream", Setting.SYNC: "quorum"}
_METHOD, _HEADER, _BODY, _END = 1, 2, 3, b"\xce"
_START, _TUNE, _OPENED = (10, 10), (10, 30), (10, 41)
_CHANNEL, _CONFIRMS, _DECLARED, _DELETED = (20, 11), (85, 11), (50, 11), (50, 41)
_KEY = b"k" + next(iter(MARKS))
_DEBIAN = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
"""The one on the PATH wants to be root and to change into its own user."""


class RabbitMq(Peer):
    """One node; every queue is a queue. Consumers are pushed to, so pulls are left out."""

    can_pull = False

    def __init__(self, server: Server, port: int, kind: str, about: dict[str, str]) -> None:
        super().__init__([server], about)
        self._address, self._kind = (HOST, port), kind
        self._declare()

    @contextmanager
    def sends(self, shape: Shape, size: int) -> Iterator[Load]:
        body = secrets.token_hex(size // 2 + 1)[:size].encode()
        publishes: list[Ring] = [[_publish(f"bench-{queue}", body)] for queue in range(QUEUES)]
        with connected(self._address, shape.connections) as sockets:
            for connection in sockets:
                _greet(connection)
            rings = [
                [publishes[(number + slot) % QUEUES] for slot in range(shape.window)]
                for number in range(shape.connections)
            ]
            yield Load("amqp", sockets, rings)

    def tidy(self) -> None:
        with connected(self._address, 1) as (connection,):
            _greet(connection)
            for queue in range(QUEUES):
                _call(connection, (50, 40), b"\0\0" + _short(f"bench-{queue}") + b"\0", _DELETED)
        self._declare()

    def _declare(self) -> None:
        arguments = _short("x-queue-type") + b"S" + struct.pack(">I", len(self._kind)) + self._kind.encode()
        table = struct.pack(">I", len(arguments)) + arguments
        with connected(self._address, 1) as (connection,):
            _greet(connection)
            for queue in range(QUEUES):
                durable = b"\x02"
                _call(connection, (50, 10), b"\0\0" + _short(f"bench-{queue}") + durable + table, _DECLARED)


def _short(text: str | bytes) -> bytes:
    data = text.encode() if isinstance(text, str) else text
    return bytes([len(data)]) + data


def _frame(kind: int, channel: int, payload: bytes) -> bytes:
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + _END


def _call(connection: socket.socket, method: tuple[int, int], arguments: bytes, wanted: tuple[int, int]) -> bytes:
    """Call a method and return the arguments of the answer."""
    channel = 0 if method[0] == 10 else 1
    connection.sendall(_frame(_METHOD, channel, struct.pack(">HH", *method) + arguments))
    return _wait_for(connection, wanted)


def _wait_for(connection: socket.socket, wanted: tuple[int, int]) -> bytes:
    _, _, size = struct.unpack(">BHI", receive(connection, 7))
    payload = receive(connection, size + 1)[:-1]
    if struct.unpack_from(">HH", payload) != wanted:
        raise RuntimeError(f"RabbitMQ answered {payload!r}, not {wanted}")
    return payload[4:]


def _greet(connection: socket.socket) -> None:
    """Open a connection and a channel with confirms, as the account that every fresh node has."""
    connection.sendall(b"AMQP\0\0\x09\x01")
    _wait_for(connection, _START)
    secret = b"\0guest\0guest"
    account = struct.pack(">I", 0) + _short("PLAIN") + struct.pack(">I", len(secret)) + secret + _short("en_US")
    tune = _call(connection, (10, 11), account, _TUNE)
    connection.sendall(_frame(_METHOD, 0, struct.pack(">HH", 10, 31) + tune[:6] + b"\0\0"))  # no heartbeats
    _call(connection, (10, 40), _short("/") + b"\0\0", _OPENED)
    _call(connection, (20, 10), b"\0", _CHANNEL)
    _call(connection, (85, 10), b"\0", _CONFIRMS)


def _publish(queue: str, body: bytes) -> bytes:
    persistent, flags = b"\x02", 0x1000 | 0x0080 | 0x0020  # delivery mode, message id, type
    header = struct.pack(">HHQH", 60, 0, len(body), flags) + persistent + _short(_KEY) + _short(TAG)
    method = struct.pack(">HHH", 60, 40, 0) + _short("") + _short(queue) + b"\0"
    return _frame(_METHOD, 1, method) + _frame(_HEADER, 1, header) + _frame(_BODY, 1, body)


def start_rabbitmq(setting: Setting, directory: Path, stack: ExitStack) -> RabbitMq:
    """Start RabbitMQ; raise Missing."""
    program = str(_DEBIAN) if _DEBIAN.exists() else shutil.which("rabbitmq-server")
    epmd = shutil.which("epmd")
    if program is None or epmd is None:
        raise Missing("no rabbitmq-server, or no Erlang, on the PATH")
    if setting not in _KINDS:
        raise Missing("not comparable: a quorum needs three nodes, requests are not signed")
    directory.mkdir(parents=True)
    port, names_port = free_port(), free_port()
    (directory / "rabbitmq.conf").write_text(f"listeners.tcp.1 = {HOST}:{port}\nlog.console = true\n")
    (directory / "enabled_plugins").write_text("[].\n")
    own = {
        "HOME": str(directory), "RABBITMQ_NODENAME": "bench@localhost", "RABBITMQ_MNESIA_BASE": str(directory),
        "RABBITMQ_LOG_BASE": str(directory), "RABBITMQ_CONFIG_FILE": str(directory / "rabbitmq"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(directory / "enabled_plugins"), "RABBITMQ_DIST_PORT": str(free_port()),
        "ERL_EPMD_ADDRESS": HOST, "ERL_EPMD_PORT": str(names_port),
    }  # fmt: skip
    names = [epmd, "-d", "-address", HOST, "-port", str(names_port)]
    stack.enter_context(Server(names, directory / "epmd.log", "epmd running", own_session=True))
    server = stack.enter_context(Server([program], directory / "rabbitmq.log", "completed with", own, own_session=True))
    version = server.said().partition("RabbitMQ ")[2].split()[0]
    return RabbitMq(server, port, _KINDS[setting], {"version": version, "settings": f"{_KINDS[setting]} queues"})
