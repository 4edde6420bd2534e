"""A disk that is really full: sends are refused, reads continue, and sends are accepted again when there is room."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pyromq.clock import SystemClock
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import RemotingCommand, request
from pyromq.protocol.headers.send import SendMessageResponseHeader
from pyromq.protocol.messages.record import decode_messages
from pyromq.remoting.client import RemotingClient
from tests.broker.helpers import pull_header, send_header
from tests.faults.power_cut import Disk, unavailable

TMPFS_SIZE = 12 << 20
EXT4_SIZE = 64 << 20
# The limits by ratio would refuse sends much earlier; here the disk itself must.
SETTINGS = {"diskSpaceWarningLevelRatio": "1", "diskSpaceCleanForciblyRatio": "1", "diskMaxUsedSpaceRatio": "95"}
Acknowledged = dict[tuple[str, int], bytes]

pytestmark = pytest.mark.skipif(bool(unavailable()), reason=unavailable() or "none")


@contextmanager
def small_disk(kind: str, place: Path) -> Iterator[Path]:
    """Mount a disk of a few megabytes."""
    if kind == "ext4":
        with Disk(place, EXT4_SIZE).mounted() as disk:
            yield disk.root
        return
    root = place / "mount"
    root.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={TMPFS_SIZE}", "tmpfs", str(root)], check=True)
    try:
        yield root
    finally:
        subprocess.run(["umount", str(root)], check=True)


class Server:
    """`pyromq up` in a separate process: a SIGBUS would end it, not the test."""

    def __init__(self, data: Path, log: Path, flush: str) -> None:
        settings = SETTINGS | {"flushDiskType": flush}
        command = [sys.executable, "-m", "pyromq.cli.main", "up", "--data", str(data)]
        command += [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
        command += ["--namesrv-port", "0", "--port", "0", "--console-port", "0"]
        with log.open("a") as errors:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        assert self.process.stdout is not None
        found = re.search(r"broker (\S+) console (\S+)", self.process.stdout.readline())
        assert found, log.read_text()[-3000:]
        self.address, self.console = found[1], found[2]

    def page(self, path: str) -> tuple[int, str]:
        """Return status and text of a page for machines."""
        try:
            with urllib.request.urlopen(self.console + path, timeout=30) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def stop(self, number: int) -> int:
        """End it by a signal; return its exit code."""
        self.process.send_signal(number)
        code = self.process.wait(60)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code


class Client:
    """Sends and reads over one connection."""

    def __init__(self, server: Server) -> None:
        self._address = server.address
        self._remoting = RemotingClient(SystemClock())

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._remoting.close()

    async def send(self, topic: str, body: bytes) -> RemotingCommand:
        command = request(RequestCode.SEND_MESSAGE_V2, send_header(topic, default_topic_queue_nums=1), body)
        return await self._remoting.request(self._address, command, 30)

    async def fill(self, acknowledged: Acknowledged, topics: list[str], most: int) -> RemotingCommand | None:
        """Send until a send is refused, at most this many times; return the refusal."""
        for number in range(most):
            topic, body = topics[number % len(topics)], os.urandom(20_000)
            answer = await self.send(topic, body)
            if answer.code != ResponseCode.SUCCESS:
                return answer
            acknowledged[topic, answer.header(SendMessageResponseHeader).queue_offset] = body
        return None

    async def read(self, topics: list[str]) -> Acknowledged:
        found: Acknowledged = {}
        for topic in topics:
            offset = 0
            while True:
                command = request(RequestCode.PULL_MESSAGE, pull_header(topic, queue_offset=offset))
                answer = await self._remoting.request(self._address, command, 30)
                if answer.code != ResponseCode.SUCCESS:
                    break
                messages = decode_messages(answer.body)
                found |= {(topic, message.queue_offset): message.body for message in messages}
                offset = messages[-1].queue_offset + 1
        return found


def take_all_but(root: Path, left: int) -> Path:
    """Fill the disk, except for this many bytes; return the file that does it."""
    filler = root / "filler"
    usage = os.statvfs(root)
    with filler.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, usage.f_bavail * usage.f_frsize - left)
    return filler


@pytest.mark.parametrize(("kind", "flush"), [("tmpfs", "ASYNC_FLUSH"), ("ext4", "SYNC_FLUSH")])
def test_a_full_disk_refuses_sends_serves_reads_and_is_forgotten_when_there_is_room(
    tmp_path: Path, kind: str, flush: str
) -> None:
    topics = ["orders", "others", "third"]
    acknowledged: Acknowledged = {}
    with small_disk(kind, tmp_path) as root:
        server = Server(root / "data", tmp_path / "log", flush)

        async def live() -> None:
            async with Client(server) as client:
                assert await client.fill(acknowledged, topics, 30) is None
                filler = take_all_but(root, 1 << 20)
                refusal = await client.fill(acknowledged, topics, 20_000)
                assert refusal is not None
                assert refusal.code == ResponseCode.SERVICE_NOT_AVAILABLE
                assert refusal.remark == "not stored: no space left on device"
                assert (await client.send("brand-new", b"x" * 20_000)).code == ResponseCode.SERVICE_NOT_AVAILABLE
                assert await client.read(topics) == acknowledged
                status, reason = await asyncio.to_thread(server.page, "/readyz")
                assert (status, "No space left on device" in reason) == (503, True)
                assert 'cause="disk_full"} 1' in (await asyncio.to_thread(server.page, "/metrics"))[1]
                filler.unlink()
                assert await client.fill(acknowledged, topics, 200) is None
                assert await client.read(topics) == acknowledged
                assert (await asyncio.to_thread(server.page, "/readyz"))[0] == 200
                assert 'cause="disk_full"} 0' in (await asyncio.to_thread(server.page, "/metrics"))[1]

        try:
            asyncio.run(live())
        finally:
            code = server.stop(signal.SIGTERM)
        assert code == 0, (tmp_path / "log").read_text()[-3000:]
        said = [line for line in (tmp_path / "log").read_text().splitlines() if "disk_full" in line]
        assert ["problem over" in line for line in said] == [False, True]
        check_after_restart(root, tmp_path / "log", topics, acknowledged)


@pytest.mark.parametrize("kind", ["tmpfs", "ext4"])
def test_a_broker_that_died_on_a_full_disk_starts_there_and_serves_what_it_has(tmp_path: Path, kind: str) -> None:
    topics = ["orders", "others"]
    acknowledged: Acknowledged = {}
    with small_disk(kind, tmp_path) as root:
        server = Server(root / "data", tmp_path / "log", "ASYNC_FLUSH")

        async def live() -> None:
            async with Client(server) as client:
                assert await client.fill(acknowledged, topics, 30) is None
                take_all_but(root, 1 << 20)
                assert await client.fill(acknowledged, topics, 20_000) is not None

        try:
            asyncio.run(live())
        finally:
            server.stop(signal.SIGKILL)
        check_after_restart(root, tmp_path / "log", topics, acknowledged)
        (root / "filler").unlink()
        check_after_restart(root, tmp_path / "log", topics, acknowledged)


def check_after_restart(root: Path, log: Path, topics: list[str], acknowledged: Acknowledged) -> None:
    """Start again, and read everything that was acknowledged."""
    server = Server(root / "data", log, "ASYNC_FLUSH")

    async def read() -> Acknowledged:
        async with Client(server) as client:
            return await client.read(topics)

    try:
        assert asyncio.run(read()).items() >= acknowledged.items()
    finally:
        server.stop(signal.SIGKILL)
