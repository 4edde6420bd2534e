"""Members of a group join and leave under load, each in a separate process: some are stopped, some are killed.

python -m tests.faults.group_chaos --messages 200000 --changes 50
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from pyromq import Message, Producer
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.testing import LocalCluster

SCRIPT = Path(__file__).with_name("group_member.py")
SOURCE = Path(__file__).parent.parent.parent / "src"
TOPIC, GROUP, QUEUES, MEMBERS = "loaded", "workers", 16, 4
BATCH = 20
LONGEST_WAIT = 120.0  # seconds without progress after which messages count as lost
LATE = 0.3  # seconds: a member that is back this soon after another one handled the queue had not given it up


class Handled(NamedTuple):
    """One message that a member has handled."""

    time: float
    queue_id: int
    number: int
    member: int


class Plan(Struct, frozen=True, kw_only=True):
    """How much is sent, how fast, and how members end."""

    messages: int
    changes: int
    ending: signal.Signals
    rate: float = 3000.0
    """Messages a second."""


class Verdict(Struct, kw_only=True):
    """The result."""

    plan: Plan
    lost: int
    repeats: int
    strange_repeats: int
    """Repeats of messages that no killed member had handled."""
    shared: int
    """How often two members had the same queue at once."""
    longest_pause: float
    """The longest time in seconds without a message of some queue; each queue gets several a second."""

    @property
    def good(self) -> bool:
        """True if nothing was lost, and nothing repeated without need."""
        killed = self.plan.ending == signal.SIGKILL
        return not (self.lost or self.shared or self.strange_repeats or (self.repeats and not killed))

    def __str__(self) -> str:
        plan = self.plan
        return (
            f"{plan.ending.name}: {plan.messages} messages, {plan.changes} joins and leaves: lost {self.lost}, "
            f"repeats {self.repeats} (of others than the killed: {self.strange_repeats}), queues with two owners "
            f"{self.shared}, longest pause of a queue {self.longest_pause:.1f} s"
        )


class Member:
    """One process."""

    def __init__(self, number: int, namesrv: str, path: Path) -> None:
        self.number = number
        self.killed = False
        self._path = path
        self._log = path.with_suffix(".log").open("wb")
        self._process = subprocess.Popen(
            [sys.executable, SCRIPT, namesrv, TOPIC, GROUP, path],
            stdout=subprocess.PIPE,
            stderr=self._log,
            env={**os.environ, "PYTHONPATH": str(SOURCE)},
        )

    def await_ready(self) -> None:
        """Wait until it has joined the group."""
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"ready\n", self._path.with_suffix(".log").read_text()

    def end(self, ending: signal.Signals) -> None:
        """Send a signal and wait until it has exited."""
        self.killed = ending == signal.SIGKILL
        self._process.send_signal(ending)
        code = self._process.wait(60)
        assert code == (-ending if self.killed else 0), f"a member ended with {code}"
        self.close()

    def close(self) -> None:
        """Kill it if it is still running."""
        self._process.kill()
        self._process.wait()
        self._log.close()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def handled(self) -> list[Handled]:
        """Return what it recorded."""
        lines = self._path.read_bytes().splitlines() if self._path.exists() else []
        parts = [line.split() for line in lines]
        return [Handled(float(time), int(queue), int(number), self.number) for number, queue, time in parts]


class Group:
    """The running processes, and all earlier ones."""

    def __init__(self, namesrv: str, directory: Path) -> None:
        self._namesrv = namesrv
        self._directory = directory
        self.everybody: list[Member] = []
        self.present: list[Member] = []

    async def join(self) -> None:
        """Start one more member."""
        number = len(self.everybody)
        member = Member(number, self._namesrv, self._directory / f"member-{number}")
        self.everybody.append(member)
        self.present.append(member)
        await asyncio.to_thread(member.await_ready)

    async def leave(self, ending: signal.Signals) -> None:
        """End the oldest member."""
        await asyncio.to_thread(self.present.pop(0).end, ending)

    def handled(self) -> list[Handled]:
        """Return what all members have handled, in order of time."""
        return sorted(entry for member in self.everybody for entry in member.handled())

    async def wait_for(self, messages: int) -> None:
        """Wait until this many different messages are handled, or nothing more happens."""
        seen, since, loop = 0, 0.0, asyncio.get_running_loop()
        while seen < messages:
            count = len({entry.number for entry in await asyncio.to_thread(self.handled)})
            if count > seen:
                seen, since = count, loop.time()
            elif loop.time() - since > LONGEST_WAIT:
                return
            await asyncio.sleep(0.2)


async def send_all(namesrv: str, plan: Plan) -> None:
    """Send the numbers from 0 on at the given rate."""
    loop = asyncio.get_running_loop()
    started = loop.time()
    async with Producer("p", namesrv) as producer:
        for start in range(0, plan.messages, BATCH):
            bodies = [b"%d" % number for number in range(start, min(start + BATCH, plan.messages))]
            await producer.send_batch([Message(topic=TOPIC, body=body) for body in bodies])
            await asyncio.sleep(started + (start + BATCH) / plan.rate - loop.time())


async def run(plan: Plan) -> Verdict:
    """Send to four members, which are ended and replaced all the time; check what they handled."""
    with tempfile.TemporaryDirectory(prefix="pyromq-group-") as directory:
        async with LocalCluster() as cluster, await BrokerApi.connect(cluster.namesrv) as api:
            await api.create_topic(cluster.brokers[0].address, TOPIC, queues=QUEUES)
            group = Group(cluster.namesrv, Path(directory))
            try:
                await asyncio.gather(*[group.join() for _ in range(MEMBERS)])
                sending = asyncio.create_task(send_all(cluster.namesrv, plan))
                await asyncio.gather(sending, change(group, plan))
                await group.wait_for(plan.messages)
                await asyncio.sleep(0.3)  # repeats would arrive now
                while group.present:
                    await group.leave(signal.SIGTERM)
                return judge(plan, group)
            finally:
                for member in group.everybody:
                    member.close()


async def change(group: Group, plan: Plan) -> None:
    """Let a member leave and another join, this many times, while messages are sent."""
    interval = plan.messages / plan.rate / (plan.changes + 1)
    loop = asyncio.get_running_loop()
    started = loop.time()
    for number in range(plan.changes // 2):
        await asyncio.sleep(started + (2 * number + 1) * interval - loop.time())
        await group.leave(plan.ending)
        await group.join()


def judge(plan: Plan, group: Group) -> Verdict:
    """Compare what was handled with what was sent."""
    handled = group.handled()
    counts = Counter(entry.number for entry in handled)
    by_killed = {entry.number for member in group.everybody if member.killed for entry in member.handled()}
    repeated = {number for number, count in counts.items() if count > 1}
    queues = [[entry for entry in handled if entry.queue_id == queue_id] for queue_id in range(QUEUES)]
    return Verdict(
        plan=plan,
        lost=plan.messages - len(counts),
        repeats=sum(counts.values()) - len(counts),
        strange_repeats=len(repeated - by_killed),
        shared=sum(map(two_owners, queues)),
        longest_pause=max(map(longest_pause, queues)),
    )


def longest_pause(handled: list[Handled]) -> float:
    """Return the longest time without a handled message of a queue."""
    return max((after.time - before.time for before, after in pairwise(handled)), default=0.0)


def two_owners(handled: list[Handled]) -> int:
    """Count how often a member handled a queue after another one had begun."""
    count = 0
    last: dict[int, float] = {}
    for before, after in pairwise(handled):
        last[before.member] = before.time
        if before.member != after.member and after.time - last.get(after.member, -LATE) < LATE:
            count += 1
    return count


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=200_000)
    parser.add_argument("--changes", type=int, default=50, help="joins and leaves together")
    parser.add_argument("--rate", type=float, default=3000.0, help="messages a second")
    options = parser.parse_args()
    good = True
    for ending in (signal.SIGTERM, signal.SIGKILL):
        plan = Plan(messages=options.messages, changes=options.changes, ending=ending, rate=options.rate)
        verdict = asyncio.run(run(plan))
        print(verdict, flush=True)
        good = good and verdict.good
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
