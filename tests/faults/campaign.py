"""Shared by the campaigns: a broker process, a load that records every acknowledgement, and the final comparison."""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from msgspec import Struct, field, structs

from pyromq import Message, Producer, PyroMQError
from pyromq.client.consume.start_from import plain_pull
from pyromq.client.net.calls.answers import PullStatus
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.errors import NoRoute
from pyromq.protocol.headers.pull import PullMessageRequestHeader
from pyromq.protocol.messages.record import decode_messages
from pyromq.protocol.names import TOOLS_CONSUMER_GROUP

# Like eatmydata, for machines without it: every call that makes bytes durable returns at once.
LYING = """
import os
from pyromq.store.files import OsFiles
for name in ("fdatasync", "sync_file_system", "sync_directory"):
    setattr(OsFiles, name, lambda self, *rest: None)
os.fsync = os.fdatasync = lambda descriptor: None
os.sync = lambda: None
from pyromq.cli.main import main
main()
"""

Place = tuple[str, int, int]


class Server:
    """`pyromq up` in a separate process."""

    def __init__(
        self,
        data: Path,
        log: Path,
        *,
        flush: str = "SYNC_FLUSH",
        lying: bool = False,
        ports: tuple[int, int] = (0, 0),
        settings: Sequence[str] = (),
    ) -> None:
        eatmydata = shutil.which("eatmydata") if lying else None
        start = ["-c", LYING] if lying and not eatmydata else ["-m", "pyromq.cli.main"]
        listen = ["--namesrv-port", str(ports[0]), "--port", str(ports[1]), "--console-port", "0"]
        command = [sys.executable, *start, "up", "--data", str(data), *listen, "--set", f"flushDiskType={flush}"]
        for setting in settings:
            command += ["--set", setting]
        if eatmydata:
            command = [eatmydata, *command]
        with log.open("a") as errors:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        assert self._process.stdout is not None
        words = self._process.stdout.readline().split()
        if "namesrv" not in words:
            self._process.wait()
            raise RuntimeError(f"the broker did not start:\n{log.read_text()[-4000:]}")
        self.namesrv = words[words.index("namesrv") + 1]

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    def kill(self) -> None:
        """Kill it."""
        self.end(signal.SIGKILL)

    def send_signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def end(self, how: signal.Signals) -> None:
        """Send a signal and wait until it has exited."""
        self.send_signal(how)
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


def free_ports() -> tuple[int, int]:
    """Return two free ports, for a name server and a broker that return to the same addresses.

    They are below those that the system gives to connections: while the server is away, a client's connection could
    otherwise take its port. A broker also listens on the port two below its own.
    """
    chance = random.SystemRandom()
    while True:
        port = chance.randrange(20_000, 32_000)
        with ExitStack() as stack:
            try:
                for number in range(port - 2, port + 3):
                    stack.enter_context(socket.socket()).bind(("127.0.0.1", number))
            except OSError:
                continue
            return port + 2, port


class History(Struct):
    """What was sent, and where it was acknowledged."""

    acknowledged: dict[Place, bytes] = field(default_factory=dict)
    sent: set[bytes] = field(default_factory=set)
    topics: set[str] = field(default_factory=set)


class Verdict(Struct):
    """What the reads after the cuts found."""

    cuts: int = 0
    acknowledged: int = 0
    lost: int = 0
    wrong: int = 0
    invented: int = 0
    forgotten_topics: int = 0

    @property
    def good(self) -> bool:
        return not (self.lost or self.wrong or self.invented or self.forgotten_topics)


async def load(namesrv: str, history: History, topics: list[str], cut: asyncio.Event, tasks: int = 32) -> None:
    """Send until the power is cut, and record every acknowledgement."""
    async with Producer(group="power", namesrv=namesrv, send_timeout=2.0, retries=0) as producer:

        async def send_on(number: int) -> None:
            while not cut.is_set():
                topic = random.choice(topics)
                body = os.urandom(random.choice((20, 200, 1000, 5000)))
                history.sent.add(digest(body))
                try:
                    result = await producer.send(Message(topic=topic, body=body, tags=f"t{number}"))
                except PyroMQError:
                    continue  # unknown or refused: both are allowed
                history.topics.add(topic)
                history.acknowledged[topic, result.queue.queue_id, result.queue_offset] = digest(body)

        await asyncio.gather(*(send_on(number) for number in range(tasks)))


def digest(body: bytes) -> bytes:
    """Return a short substitute for a body."""
    return hashlib.blake2b(body, digest_size=16).digest()


async def read_everything(namesrv: str, topics: set[str]) -> tuple[dict[Place, bytes], set[str]]:
    """Return every message of the topics by its place, and the topics without a route."""
    found: dict[Place, bytes] = {}
    forgotten: set[str] = set()
    async with await BrokerApi.connect(namesrv) as api:
        for topic in topics:
            try:
                route = await api.route(topic)
            except NoRoute:
                forgotten.add(topic)
                continue
            address = route.broker_datas[0].broker_addrs[0]
            for queue_id in range(route.queue_datas[0].read_queue_nums):
                await _read_queue(api, address, topic, queue_id, found)
    return found, forgotten


async def _read_queue(api: BrokerApi, address: str, topic: str, queue_id: int, found: dict[Place, bytes]) -> None:
    offset = await api.min_offset(address, topic, queue_id)
    end = await api.max_offset(address, topic, queue_id)
    while offset < end:
        answer = await api.pull(address, pull_header(topic, queue_id, offset), timeout=10)
        if answer.status is PullStatus.FOUND:
            for message in decode_messages(answer.body):
                found[topic, queue_id, message.queue_offset] = digest(message.body)
        offset = max(answer.next_offset, offset + 1)


def pull_header(topic: str, queue_id: int, offset: int) -> PullMessageRequestHeader:
    """Return a pull of many messages that needs no subscription."""
    header = plain_pull(TOOLS_CONSUMER_GROUP, topic, queue_id, offset, most=1000)
    return structs.replace(header, pyromq_max_bytes=4 << 20)


def check(history: History, found: dict[Place, bytes], forgotten: set[str]) -> Verdict:
    """Compare what is there with everything that was acknowledged."""
    promised = history.acknowledged
    return Verdict(
        acknowledged=len(promised),
        lost=sum(place not in found for place in promised),
        wrong=sum(found.get(place, digest) != digest for place, digest in promised.items()),
        invented=sum(digest not in history.sent for digest in found.values()),
        forgotten_topics=len(forgotten),
    )
