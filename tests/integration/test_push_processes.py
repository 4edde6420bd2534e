"""Members of a group in processes of their own, under load: some are asked to stop, some are killed."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from pyromq import Message, Producer
from pyromq.client.api import BrokerApi
from pyromq.testing import LocalCluster
from tests.client.helpers import eventually

SCRIPT = Path(__file__).with_name("push_member.py")
SOURCE = Path(__file__).parent.parent.parent / "src"
TOPIC, GROUP, QUEUES, COUNT = "loaded", "workers", 16, 12_000


class Member:
    """One process."""

    def __init__(self, cluster: LocalCluster, path: Path) -> None:
        self.path = path
        self._process = subprocess.Popen(
            [sys.executable, SCRIPT, cluster.namesrv, TOPIC, GROUP, path],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(SOURCE)},
        )

    def await_ready(self) -> None:
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n"

    def end(self, number: signal.Signals) -> int:
        """Send a signal and return the exit code."""
        self._process.send_signal(number)
        code = self._process.wait(60)
        if self._process.stdout is not None:
            self._process.stdout.close()
        return code

    @property
    def handled(self) -> list[bytes]:
        return self.path.read_bytes().split() if self.path.exists() else []


class Group:
    """The processes that are there, and all that there were."""

    def __init__(self, cluster: LocalCluster, directory: Path) -> None:
        self._cluster = cluster
        self._directory = directory
        self.everybody: list[Member] = []
        self.present: list[Member] = []

    async def join(self) -> None:
        member = Member(self._cluster, self._directory / f"member-{len(self.everybody)}")
        self.everybody.append(member)
        self.present.append(member)
        await asyncio.to_thread(member.await_ready)

    async def leave(self, number: signal.Signals) -> Member:
        member = self.present.pop(0)
        code = await asyncio.to_thread(member.end, number)
        assert code == (0 if number == signal.SIGTERM else -number)
        return member

    def handled(self) -> Counter[bytes]:
        return Counter(body for member in self.everybody for body in member.handled)


async def send_all(cluster: LocalCluster) -> None:
    async with Producer("p", cluster.namesrv) as producer:
        for start in range(0, COUNT, 20):
            await producer.send_batch(
                [Message(topic=TOPIC, body=b"%d" % number) for number in range(start, start + 20)]
            )
            await asyncio.sleep(0.005)


async def run_group(tmp_path: Path, ending: signal.Signals) -> tuple[Counter[bytes], list[Member]]:
    """Send under the eyes of four members, of whom two are ended and replaced; return what was handled how often."""
    ended: list[Member] = []
    async with LocalCluster() as cluster, await BrokerApi.connect(cluster.namesrv) as api:
        await api.create_topic(cluster.brokers[0].address, TOPIC, queues=QUEUES)
        group = Group(cluster, tmp_path)
        await asyncio.gather(*[group.join() for _ in range(4)])
        sending = asyncio.create_task(send_all(cluster))
        for _ in range(2):
            await asyncio.sleep(0.3)
            ended.append(await group.leave(ending))
            await group.join()
        await sending
        started = time.monotonic()
        await eventually(lambda: len(group.handled()) == COUNT)
        print(f"the last message was handled {time.monotonic() - started:.1f} s after the last send")
        await asyncio.sleep(0.3)  # for what would come twice
        while group.present:
            await group.leave(signal.SIGTERM)
        return group.handled(), ended


async def test_members_that_are_asked_to_stop_lose_nothing_and_repeat_nothing(tmp_path: Path) -> None:
    handled, _ = await run_group(tmp_path, signal.SIGTERM)
    assert handled == Counter({b"%d" % number: 1 for number in range(COUNT)})


async def test_members_that_are_killed_lose_nothing_and_only_what_they_had_in_flight_comes_again(
    tmp_path: Path,
) -> None:
    handled, killed = await run_group(tmp_path, signal.SIGKILL)
    assert len(handled) == COUNT
    repeated = {body for body, count in handled.items() if count > 1}
    by_killed = {body for member in killed for body in member.handled}
    print(f"{len(repeated)} messages came twice")
    assert repeated <= by_killed, "only what a killed member had handled, but not committed"
    assert max(handled.values()) <= 2
