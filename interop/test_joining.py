"""An empty slave joins a master that is under load and deletes its oldest files; then the master's disk is gone."""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.faults.campaign import pull_header

from interop.servers import NameServer
from interop.test_replication import FILE_SIZE, FILES, Replicas
from interop.toolkit import Toolkit
from pyromq import Message, Producer, PyroMQError, SendStatus
from pyromq.client.net.calls.answers import PullStatus
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.client.net.calls.maintenance_calls import MaintenanceCalls
from pyromq.protocol.messages.record import decode_messages
from pyromq.testing import wait_until

TOPIC = "joined"
EVERY_HOUR = ";".join(f"{hour:02}" for hour in range(24))

Place = tuple[int, int]


class Load:
    """Sends until it is stopped; remembers where each message was stored, and which were acknowledged."""

    def __init__(self, namesrv: str) -> None:
        self.stored: dict[Place, bytes] = {}
        self.acknowledged: dict[Place, bytes] = {}
        self._namesrv = namesrv
        self._over = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()))

    @contextmanager
    def running(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._over.set()
            self._thread.join()

    async def _run(self) -> None:
        number = 0
        async with Producer("joining", self._namesrv, send_timeout=10, retries=0) as producer:
            while not self._over.is_set():
                number += 1
                body = f"{number} ".encode().ljust(3_000, b"x")
                try:
                    result = await producer.send(Message(TOPIC, body))
                except PyroMQError:
                    continue
                place = result.queue.queue_id, result.queue_offset
                self.stored[place] = body
                if result.status is SendStatus.SEND_OK:
                    self.acknowledged[place] = body


@pytest.mark.parametrize(
    ("master", "slave"),
    [("pyromq", "pyromq"), ("apache", "pyromq"), ("pyromq", "apache")],
    ids=["ours", "our slave", "our master"],
)
def test_nothing_acknowledged_is_lost_with_the_disk_of_a_master_that_an_empty_slave_has_joined(
    toolkit: Toolkit, tmp_path: Path, master: str, slave: str
) -> None:
    with NameServer("pyromq", toolkit, tmp_path / "namesrv") as namesrv:
        pair = Replicas(toolkit, tmp_path, namesrv.address, master, slave)  # type: ignore[arg-type]
        try:
            pair.start("master", cleanResourceInterval="1000", deleteWhen=EVERY_HOUR)
            load = Load(namesrv.address)
            with load.running():
                wait_until(lambda: len(pair.log("master")) > FILES, "there are five files", seconds=90, pause=0.2)
                pair.start("slave")
                asyncio.run(_expire_all(pair.running["master"].address))
                wait_until(lambda: "00000000000000000000" not in pair.log("master"), "files go", seconds=60, pause=0.2)
                before = len(load.acknowledged)
                wait_until(lambda: len(load.acknowledged) > before + 50, "the slave confirms", seconds=90, pause=0.2)
            wait_until(lambda: _is_whole(pair), "the slave has what the master has", seconds=90, pause=0.5)
            pair.running.pop("master").kill()
            shutil.rmtree(tmp_path / "master")
            found, first = asyncio.run(_contents(namesrv.address, pair.running["slave"].address))
        finally:
            for broker in pair.running.values():
                broker.kill()
    kept = {place: body for place, body in load.stored.items() if place[1] >= first[place[0]]}
    assert len(load.acknowledged) > 50
    assert {place: found.get(place) for place in kept} == kept


def _is_whole(pair: Replicas) -> bool:
    """Return whether both logs are the same from the later of both beginnings on, and nothing is missing in between."""
    master, slave = pair.log("master"), pair.log("slave")
    names = sorted(master.keys() & slave.keys())
    starts = [int(name) for name in sorted(slave)]
    assert starts == list(range(starts[0], starts[0] + FILE_SIZE * len(starts), FILE_SIZE)), "a hole"
    return bool(names) and max(master) == max(slave) and all(master[name] == slave[name] for name in names)


async def _expire_all(address: str) -> None:
    async with await BrokerApi.connect(address) as api:
        await MaintenanceCalls(api.remoting).change_settings(address, {"fileReservedTime": "0"})


async def _contents(namesrv: str, address: str) -> tuple[dict[Place, bytes], dict[int, int]]:
    """Return all messages that a broker has of the topic, and where each queue begins."""
    found: dict[Place, bytes] = {}
    first: dict[int, int] = {}
    async with await BrokerApi.connect(namesrv) as api:
        for queue_id in range((await api.route(TOPIC)).queue_datas[0].read_queue_nums):
            offset = first[queue_id] = await api.min_offset(address, TOPIC, queue_id)
            while offset < await api.max_offset(address, TOPIC, queue_id):
                answer = await api.pull(address, pull_header(TOPIC, queue_id, offset), timeout=10)
                if answer.status is PullStatus.FOUND:
                    messages = decode_messages(answer.body)
                    found |= {(queue_id, one.queue_offset): one.body for one in messages}
                offset = max(answer.next_offset, offset + 1)
    return found, first
