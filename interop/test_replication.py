"""Master and slave of either kind: the slave's log is that of its master, byte for byte."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from interop.servers import HOST, Broker, Kind, NameServer, free_port
from interop.toolkit import Toolkit
from pyromq import Message, Producer, SendStatus
from pyromq.testing import wait_until

FILE_SIZE = 1 << 20
FILES = 5


class Replicas:
    """A master and a slave of given kinds, started and stopped by the test."""

    def __init__(self, toolkit: Toolkit, directory: Path, namesrv: str, master: Kind, slave: Kind) -> None:
        self.namesrv = namesrv
        self._toolkit = toolkit
        self._directory = directory
        self._kinds: dict[str, Kind] = {"master": master, "slave": slave}
        self._ports = {"master": free_port(), "slave": free_port()}
        self.running: dict[str, Broker] = {}

    def start(self, role: str, **settings: str) -> None:
        own = {
            "mappedFileSizeCommitLog": str(FILE_SIZE),
            "haListenPort": str(self._ports[role] + 1),
            "brokerIP2": HOST,
            "brokerRole": "SYNC_MASTER" if role == "master" else "SLAVE",
            "brokerId": "0" if role == "master" else "1",
            **settings,
        }
        directory = self._directory / role
        self.running[role] = Broker(
            self._kinds[role], self._toolkit, directory, self.namesrv, own, port=self._ports[role]
        )

    def stop(self, role: str) -> None:
        self.running.pop(role).stop()

    def send(self, count: int, seed: int = 0) -> list[SendStatus]:
        return asyncio.run(self._send(count, seed))

    async def _send(self, count: int, seed: int) -> list[SendStatus]:
        chance = Random(seed)
        async with Producer("python-producers", self.namesrv, send_timeout=10) as producer:
            results = [await producer.send(Message("replicated", chance.randbytes(3_000))) for _ in range(count)]
        return [result.status for result in results]

    def log(self, role: str) -> dict[str, bytes]:
        """Return the files of a log, without the zeros behind its end and the file that Apache's broker makes ahead."""
        files = sorted((self._directory / role / "store" / "commitlog").glob("*"))
        contents: dict[str, bytes] = {}
        for path in files:
            with suppress(FileNotFoundError):  # it has expired
                contents[path.name] = path.read_bytes().rstrip(b"\0")
        return {name: content for name, content in contents.items() if content}

    def is_level(self) -> bool:
        return self.log("master") == self.log("slave")


@pytest.fixture(params=[("apache", "pyromq"), ("pyromq", "apache")], ids=["our slave", "our master"])
def replicas(request: pytest.FixtureRequest, toolkit: Toolkit, tmp_path: Path) -> Iterator[Replicas]:
    master, slave = request.param
    with NameServer("pyromq", toolkit, tmp_path / "namesrv") as namesrv:
        pair = Replicas(toolkit, tmp_path, namesrv.address, master, slave)
        try:
            yield pair
        finally:
            for broker in pair.running.values():
                broker.kill()


def test_an_empty_slave_gets_the_whole_log_and_follows(replicas: Replicas) -> None:
    replicas.start("master")
    replicas.send(FILES * FILE_SIZE // 3_000)
    assert len(replicas.log("master")) >= FILES
    replicas.start("slave")
    wait_until(replicas.is_level, "the slave has the whole log", seconds=90, pause=0.5)
    statuses = replicas.send(20, seed=1)
    assert statuses[-1] is SendStatus.SEND_OK
    wait_until(replicas.is_level, "the slave has the new messages", seconds=60, pause=0.5)


def test_a_slave_that_was_away_goes_on(replicas: Replicas) -> None:
    replicas.start("master")
    replicas.start("slave")
    replicas.send(50)
    wait_until(replicas.is_level, "the slave has the log", seconds=90, pause=0.5)
    replicas.stop("slave")
    assert set(replicas.send(50, seed=1)) == {SendStatus.SLAVE_NOT_AVAILABLE}
    replicas.start("slave")
    wait_until(replicas.is_level, "the slave has what it missed", seconds=90, pause=0.5)


def test_a_slave_with_a_tail_of_its_own_is_not_mixed_with_ours(replicas: Replicas) -> None:
    """It was master for a while, with messages that nobody else has."""
    replicas.start("master")
    replicas.start("slave")
    replicas.send(20)
    wait_until(replicas.is_level, "the slave has the log", seconds=90, pause=0.5)
    replicas.stop("master")
    replicas.stop("slave")
    replicas.start("slave", brokerRole="ASYNC_MASTER", brokerId="0")
    replicas.send(10, seed=1)
    replicas.stop("slave")
    tail = replicas.log("slave")
    replicas.start("master")
    replicas.send(30, seed=2)
    replicas.start("slave")
    wait_until(lambda: _has_refused(replicas), "one of them refuses", seconds=60, pause=0.5)
    assert replicas.log("slave") == tail


def _has_refused(replicas: Replicas) -> bool:
    said = replicas.running["master"].said() + replicas.running["slave"].said()
    return "the logs have parted" in said or "which is right is not known" in said
