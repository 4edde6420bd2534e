"""Members of groups: in processes that are killed and stopped, and in tasks whose start and close are cancelled.

python -m tests.faults.actors.members GROUP NAMESRV JOURNAL NAME SEED
"""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
import sys
import time
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyromq import LitePullConsumer, PushConsumer, PyroMQError
from pyromq.client.consume.offset_store import LocalOffsets
from tests.faults.actors.listeners import Listening, SilentHook
from tests.faults.actors.roles import CONSUME_TIMEOUT, LIMIT, Role, role_of
from tests.faults.journal import Journal, Moved

Consumer = PushConsumer | LitePullConsumer


def make_consumer(role: Role, namesrv: str, listening: Listening, **more: Any) -> Consumer:
    """Return a consumer of a group, not started."""
    topics = dict.fromkeys(role.topics, "*")
    if role.kind == "poll":
        return LitePullConsumer(role.group, namesrv, topics, start_from="earliest", auto_commit=not role.alone, **more)
    return PushConsumer(
        role.group,
        namesrv,
        topics,
        listening.listener,
        start_from="earliest",
        orderly=role.orderly,
        broadcasting=role.broadcasting,
        concurrency=role.concurrency,
        batch_size=role.batch,
        max_reconsume=LIMIT,
        consume_timeout=CONSUME_TIMEOUT,
        hooks=[SilentHook()] if role.hooks else [],
        **more,
    )


async def consume(consumer: Consumer, listening: Listening) -> None:
    """Let an open consumer work until it is closed or this is cancelled."""
    if isinstance(consumer, PushConsumer):
        await consumer.run()
        return
    while True:
        for message in await consumer.poll(timeout=0.5):
            listening.delivered(message)
            listening.finished(message)
        with suppress(PyroMQError):  # the broker is away
            await consumer.commit()


# --- a member in a process of its own


async def _live(role: Role, namesrv: str, journal: Journal, seed: int) -> None:
    listening = Listening(role, journal, seed)
    consumer = make_consumer(role, namesrv, listening)
    while True:
        try:
            await consumer.start()
            break
        except PyroMQError:  # the name server is away with its broker, or stopping
            await asyncio.sleep(0.2)
    working = asyncio.ensure_future(consume(consumer, listening))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, working.cancel)
    await asyncio.wait([working])
    await consumer.close()


class MemberProcess:
    """A process with one member."""

    def __init__(self, role: Role, namesrv: str, directory: Path, name: str, seed: int) -> None:
        self.role = role
        command = [sys.executable, "-m", "tests.faults.actors.members", role.group, namesrv]
        command += [str(directory / f"{name}.jsonl"), name, str(seed)]
        with (directory / f"{name}.log").open("wb") as log:
            self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log)

    def end(self, how: signal.Signals) -> int:
        """Send a signal, wait until it has exited, and return its exit code; kill it if it does not."""
        self._process.send_signal(how)
        try:
            return self._process.wait(60)
        finally:
            self._process.kill()
            self._process.wait()


# --- a member in a task


class MemberTask:
    """A member of this process: it joins and leaves again and again, and both are cancelled now and then."""

    def __init__(self, role: Role, namesrv: str, directory: Path, seed: int, chance: random.Random) -> None:
        self.role = role
        self.lives = 0
        self.cancelled = 0
        self.problems: list[str] = []
        self._namesrv = namesrv
        self._directory = directory
        self._seed = seed
        self._chance = chance
        self._calm = asyncio.Event()
        self._over = asyncio.Event()

    def calm_down(self) -> None:
        """Stay from now on."""
        self._calm.set()

    def stop(self) -> None:
        """Leave for good."""
        self._calm.set()
        self._over.set()

    @property
    def house_name(self) -> str:
        """The instance name that it has in every other life; no second consumer can have it at that time."""
        return f"house-{self.role.group}"

    async def run(self) -> None:
        """Join and leave until stopped."""
        while not self._over.is_set():
            self.lives += 1
            name = f"{self.role.group}-task-{self.lives}"
            journal = Journal(self._directory / f"{name}.jsonl", name)
            try:
                await self._one_life(journal)
            except PyroMQError:
                await asyncio.sleep(0.2)  # no broker, or the last life has not ended yet
            finally:
                journal.close()

    async def _one_life(self, journal: Journal) -> None:
        more: dict[str, Any] = {"instance_name": self.house_name} if self.lives % 2 else {}
        if self.role.broadcasting:
            more["offset_store"] = LocalOffsets(self._directory / "radio.json")
        listening = Listening(self.role, journal, self._seed)
        consumer = make_consumer(self.role, self._namesrv, listening, **more)
        if not await self._cancel_perhaps(consumer.start()):
            return
        working = [asyncio.ensure_future(consume(consumer, listening))]
        if isinstance(consumer, LitePullConsumer) and self.role.alone:
            working.append(asyncio.ensure_future(self._seek_on(consumer, journal)))
        await _first(self._calm.wait(), asyncio.sleep(self._chance.uniform(0.3, 5.0)))
        if self._calm.is_set():
            await self._over.wait()
        for task in working:
            task.cancel()
        for outcome in await asyncio.gather(*working, return_exceptions=True):
            if isinstance(outcome, Exception):
                self.problems.append(f"{self.role.group}: {outcome!r}")
        if not await self._cancel_perhaps(consumer.close()):
            await consumer.close()

    async def _cancel_perhaps(self, work: Coroutine[Any, Any, None]) -> bool:
        """Carry something out, or cancel it in the middle; return True if it was done."""
        task = asyncio.ensure_future(work)
        if self._calm.is_set() or self._chance.random() < 0.6:
            await task
            return True
        await asyncio.wait([task], timeout=self._chance.uniform(0, 0.05))
        self.cancelled += not task.done()
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            return False
        return True

    async def _seek_on(self, consumer: LitePullConsumer, journal: Journal) -> None:
        while True:
            await asyncio.sleep(self._chance.uniform(0.2, 1.5))
            queues = consumer.assignment
            if queues and not self._calm.is_set():
                queue = self._chance.choice(queues)
                end = consumer.position(queue) or 0
                targets = [self._chance.randint(0, end) for _ in range(self._chance.choice((1, 2)))]
                since = time.monotonic()
                try:
                    await asyncio.gather(*(consumer.seek(queue, target) for target in targets), return_exceptions=True)
                finally:  # also if the broker is away, or this is cancelled: nobody knows whether it moved
                    for target in targets:
                        journal.write(Moved, group=self.role.group, queue=queue, offset=target, since=since)


async def _first(*works: Coroutine[Any, Any, Any]) -> None:
    tasks = [asyncio.ensure_future(work) for work in works]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()


if __name__ == "__main__":
    group, namesrv, path, name, seed = sys.argv[1:]
    asyncio.run(_live(role_of(group), namesrv, Journal(Path(path), name), int(seed)))
