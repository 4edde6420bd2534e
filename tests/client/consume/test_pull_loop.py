"""Pull loops under interleavings of jumps, rebalances and the end: one loop for each queue, and none after the end."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyromq.client.config import FlowControl
from pyromq.client.consume.assignment import Assignment
from pyromq.client.consume.fetch import Fetched, Fetcher
from pyromq.client.consume.pull_loop import PullLoop
from pyromq.client.poll.poll_queue import PollQueue
from pyromq.clock import SystemClock
from pyromq.protocol.messages.message import MessageExt, MessageQueue

QUEUES = [MessageQueue("T", "broker-a", number) for number in range(3)]
END = 40


async def passes(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


class SlowBroker:
    """Answers pulls from numbered messages, some passes of the loop later; it may end late when it is cancelled."""

    def __init__(self, slowness: int, reluctance: int) -> None:
        self.pulls: Counter[MessageQueue] = Counter()
        self.most = 0
        self._slowness = slowness
        self._reluctance = reluctance

    async def fetch(self, held: PollQueue, offset: int) -> Fetched:
        self.pulls[held.queue] += 1
        try:
            await passes(self._slowness)
            if offset >= END:
                await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.pulls[held.queue] -= 1
            await passes(self._reluctance)
            raise
        self.most = max(self.most, self.pulls[held.queue])
        self.pulls[held.queue] -= 1
        count = min(4, END - offset)
        messages = [MessageExt(topic="T", stored_body=b"x", queue_offset=offset + index) for index in range(count)]
        return Fetched(messages, offset + count, moved=False)


class Rig:
    """An assignment whose queues are read by a slow broker, and what each queue handed out since its last jump."""

    def __init__(self, slowness: int, reluctance: int, *, swallows: bool = False) -> None:
        self.broker = SlowBroker(slowness, reluctance)
        self.assignment: Assignment[PollQueue] = Assignment(self._new_loop, self._release)
        self.starts: dict[PollQueue, int] = {}
        self.released: list[PollQueue] = []
        self._swallows = swallows

    def _new_loop(self, queue: MessageQueue) -> PullLoop[PollQueue]:
        return PullLoop(
            PollQueue(queue),
            cast(Fetcher, self.broker),
            FlowControl(messages=1000),
            SystemClock(),
            start_queue=self._start,
            on_messages=lambda held: None,
            on_failure=lambda error: None,
        )

    async def _start(self, held: PollQueue) -> None:
        jumps = held.jumps
        try:
            await passes(3)
        except asyncio.CancelledError:
            if not self._swallows:  # as a user's own offset store may
                raise
        if held.jumps == jumps:
            held.start_at(0)
            self.starts[held] = 0

    async def _release(self, held: PollQueue) -> None:
        await passes(2)
        self.released.append(held)

    def seek(self, queue: MessageQueue, offset: int) -> None:
        if queue in self.assignment:
            loop = self.assignment.loop(queue)
            loop.restart_at(offset)
            self.starts[loop.held] = offset

    def check(self) -> None:
        """Every queue holds the messages from its start on, each once."""
        for held in self.assignment:
            offsets = [message.queue_offset for message in held._messages]
            start = self.starts.get(held, 0)
            assert offsets == list(range(start, start + len(offsets)))
        assert self.broker.most <= 1, "two loops pulled one queue"


steps = st.one_of(
    st.tuples(st.just("seek"), st.sampled_from(QUEUES), st.integers(0, END)),
    st.tuples(st.just("rebalance"), st.sets(st.sampled_from(QUEUES)), st.just(0)),
    st.tuples(st.just("wait"), st.just(None), st.integers(1, 12)),
)


@settings(deadline=None, max_examples=150)
@given(st.lists(steps, max_size=15), st.integers(1, 5), st.integers(0, 8), st.booleans())
def test_however_jumps_and_rebalances_interleave_each_queue_has_one_loop(
    script: list[tuple[str, Any, int]], slowness: int, reluctance: int, swallows: bool
) -> None:
    async def run() -> None:
        rig = Rig(slowness, reluctance, swallows=swallows)
        rebalances: list[asyncio.Task[None]] = []
        await rig.assignment.replace(QUEUES)
        for kind, what, number in script:
            if kind == "seek":
                rig.seek(what, number)
            elif kind == "rebalance":
                rebalances.append(asyncio.create_task(rig.assignment.replace(what)))
            else:
                await passes(number)
            rig.check()
        await passes(300)
        rig.check()
        for held in rig.assignment:
            assert held.pull_offset == END, "the one loop has read to the end"
        given_up = [held for held in rig.starts if held.dropped]
        await rig.assignment.stop()
        assert set(given_up) <= set(rig.released)
        for queue in QUEUES:
            rig.seek(queue, 0)
        await rig.assignment.replace(QUEUES)
        await asyncio.gather(*rebalances)
        left = {task.get_name() for task in asyncio.all_tasks()} - {asyncio.current_task().get_name()}  # type: ignore[union-attr]
        assert left == set(), "nothing outlives the end"

    asyncio.run(run())


def both(rig: Rig, offset: int) -> None:
    rig.seek(QUEUES[0], offset)
    rig.seek(QUEUES[0], offset)


def drop_then_seek(rig: Rig, offset: int) -> None:
    loop = rig.assignment.loop(QUEUES[0])
    loop.held.dropped = True
    loop.restart_at(offset)


@pytest.mark.parametrize(("act", "read"), [(both, END - 8), (drop_then_seek, 0)])
async def test_two_jumps_make_one_loop_and_a_jump_after_the_drop_none(
    act: Callable[[Rig, int], None], read: int
) -> None:
    rig = Rig(slowness=2, reluctance=0)
    await rig.assignment.replace([QUEUES[0]])
    await passes(10)
    held = rig.assignment.loop(QUEUES[0]).held
    act(rig, 8)
    await passes(300)
    assert len(held) == read
    await rig.assignment.stop()
