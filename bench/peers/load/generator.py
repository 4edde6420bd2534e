"""Runs the generator: opened connections and ready-made requests in, figures out."""

from __future__ import annotations

import json
import socket
import struct
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from .build import build

_U32 = struct.Struct("=I")
_PATCH = struct.Struct("=III")
MARKS = {b"NNNNNNNNNNNNNNNN": "d", b"XXXXXXXXXXXXXXXX": "x", b"TTTTTTTTTTTTT": "t"}
"""Bytes of a request that are filled in when it is sent: its number, in decimal or in hex, or the time in ms."""


class Shape(NamedTuple):
    """A number of connections, each with a number of requests in flight."""

    connections: int
    window: int

    def __str__(self) -> str:
        return f"{self.connections}x{self.window}"

    @classmethod
    def of(cls, text: str) -> Shape:
        """Read `64x1`."""
        connections, _, window = text.partition("x")
        return cls(int(connections), int(window))


class Pace(NamedTuple):
    """How long a load runs, and at what rate; 0 is as fast as the server answers."""

    seconds: float
    warm_up: float = 0.5
    rate: float = 0.0
    once: bool = False
    """Whether each request is sent once, as fast as the server answers; `seconds` is the most that this may take."""


Ring = Sequence[bytes]
"""The requests that one slot sends in turn, with `MARKS` where something is to be filled in."""


class Load(NamedTuple):
    """What to send: for every connection a socket, and for each of its slots a ring of requests."""

    protocol: str
    sockets: list[socket.socket]
    rings: Sequence[Sequence[Ring]]

    @property
    def window(self) -> int:
        return len(self.rings[0])


class Figures(NamedTuple):
    """The result of one run. Times of answers are in milliseconds, CPU times in seconds."""

    seconds: float
    messages: int
    answers: int
    received: int
    """Bytes that the servers sent."""
    unanswered: int
    """Requests without an answer two seconds after the end, and those that were due at a fixed rate but not sent."""
    p50_ms: float
    p99_ms: float
    p999_ms: float
    max_ms: float
    server_cpu: float
    generator_cpu: float
    neighbours: float
    """Cores that neither the servers nor the generator used, but something else did."""

    @property
    def rate(self) -> float:
        """Messages a second."""
        return self.messages / self.seconds

    @property
    def cpu(self) -> float:
        """CPU seconds of the servers for a million messages, which is microseconds for one."""
        return self.server_cpu / max(self.messages, 1) * 1e6

    def as_json(self) -> dict[str, Any]:
        """Return all figures."""
        known = {"rate": self.rate, "cpu_per_million": self.cpu}
        return {name: round(value, 4) for name, value in {**self._asdict(), **known}.items()}


def run(load: Load, pace: Pace, pids: Sequence[int]) -> Figures:
    """Run a load against servers with these process ids; raise RuntimeError if an answer was not a success."""
    with running(load, pace, pids) as generator:
        return generator.figures()


class Generator:
    """A load that runs."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def wait_until_warm(self) -> None:
        """Return when counting begins."""
        assert self._process.stdout is not None
        self._process.stdout.readline()

    def end(self) -> None:
        """End the run now; its figures are those until now."""
        self._process.terminate()

    def figures(self) -> Figures:
        """Wait for the end of the run; raise RuntimeError if an answer was not a success."""
        out, errors = self._process.communicate()
        if self._process.returncode:
            raise RuntimeError(errors.decode(errors="replace").strip())
        found = json.loads(out.splitlines()[-1])
        if found["errors"]:
            raise RuntimeError(f"{found['errors']} answers were errors; the first: {found['first_error']}")
        return _figures(found)


@contextmanager
def running(load: Load, pace: Pace, pids: Sequence[int]) -> Iterator[Generator]:
    """Start a load against servers with these process ids."""
    descriptors = [connection.fileno() for connection in load.sockets]
    rate = "once" if pace.once else str(pace.rate)
    command = [build(), load.protocol, load.window, pace.warm_up, pace.seconds, rate, ",".join(map(str, pids))]
    with tempfile.TemporaryFile() as requests:
        requests.writelines(_packed(load))
        requests.seek(0)
        process = subprocess.Popen(
            [str(word) for word in (*command, *descriptors)], stdin=requests, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, pass_fds=descriptors, start_new_session=True,
        )  # fmt: skip
    try:
        yield Generator(process)
    finally:
        process.kill()
        process.wait()


def _figures(found: dict[str, Any]) -> Figures:
    took = found["seconds"]
    others = (found["machine_cpu"] - found["servers_cpu"] - found["own_cpu"]) / took
    return Figures(
        took, found["messages"], found["answers"], found["received"], found["unanswered"], found["p50_us"] / 1000,
        found["p99_us"] / 1000, found["p999_us"] / 1000, found["max_us"] / 1000, found["servers_cpu"],
        found["own_cpu"], max(others, 0.0),
    )  # fmt: skip


def _packed(load: Load) -> Iterator[bytes]:
    for slots in load.rings:
        for ring in slots:
            yield _U32.pack(len(ring))
            for request in ring:
                patches = _patches(request)
                yield _U32.pack(len(request)) + _U32.pack(len(patches)) + b"".join(patches) + request


def _patches(request: bytes) -> list[bytes]:
    places = ((request.find(mark), len(mark), kind) for mark, kind in MARKS.items())
    return [_PATCH.pack(at, width, ord(kind)) for at, width, kind in places if at >= 0]


@contextmanager
def connected(address: tuple[str, int], count: int) -> Iterator[list[socket.socket]]:
    """Open connections; they are closed at the end of the `with` block."""
    opened: list[socket.socket] = []
    try:
        for _ in range(count):
            connection = socket.create_connection(address, timeout=30)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            opened.append(connection)
        yield opened
    finally:
        for connection in opened:
            connection.close()


def receive(connection: socket.socket, size: int) -> bytes:
    """Read exactly so many bytes."""
    parts = bytearray()
    while len(parts) < size:
        part = connection.recv(size - len(parts))
        if not part:
            raise RuntimeError("the server closed the connection")
        parts += part
    return bytes(parts)
