"""Workers: which task takes which message, and when another task begins."""

from __future__ import annotations

import asyncio
from contextvars import copy_context
from itertools import groupby
from time import perf_counter

import pytest

from pyromq.client.consume.process_queue import ProcessQueue
from pyromq.client.push.workers import Job, Workers
from pyromq.clock import SystemClock
from pyromq.protocol.messages.message import MessageExt, MessageQueue
from pyromq.testing import eventually


def filled(number: int, count: int, *, orderly: bool = False) -> ProcessQueue:
    """Return a queue with messages, whose offsets are 0, 1, 2 …"""
    held = ProcessQueue(MessageQueue("t", "b", number), orderly=orderly)
    held.start_at(0)
    held.add([MessageExt("t", b"x", queue_id=number, queue_offset=offset) for offset in range(count)], count)
    return held


class Heard:
    """Consumes messages at once, or when it is let go."""

    def __init__(self) -> None:
        self.places: list[tuple[int, int]] = []
        self.go = asyncio.Event()
        self.go.set()
        self.most_tasks = 0
        self.workers: Workers

    async def consume(self, job: Job) -> float:
        self.places += [(message.queue_id, message.queue_offset) for message in job.messages]
        self.most_tasks = max(self.most_tasks, len(self.workers._tasks))
        if not self.go.is_set():
            await self.go.wait()
        job.held.finish(job.messages)
        return perf_counter()

    def start(self, concurrency: int, rate: float | None = None) -> Workers:
        self.workers = Workers(
            self.consume,
            lambda held, messages: held.put_back(messages),
            SystemClock(),
            copy_context(),
            concurrency=concurrency,
            batch_size=1,
            rate=rate,
        )
        return self.workers


async def test_queues_have_turns_and_no_other_task_begins_while_nothing_waits() -> None:
    heard = Heard()
    workers = heard.start(concurrency=20)
    queues = [filled(number, 100) for number in range(3)]
    for held in queues:
        workers.offer(held)
    await eventually(lambda: len(heard.places) == 300)
    assert sorted(heard.places) == [(number, offset) for number in range(3) for offset in range(100)]
    order = [number for number, _ in heard.places]
    runs = [len(list(turn)) for _, turn in groupby(order)]
    assert max(runs[:-3]) <= 16, "one queue does not keep the others waiting"
    assert [held.consumed_offset for held in queues] == [100, 100, 100]
    await workers.close(1.0)


async def test_a_listener_that_waits_has_as_many_messages_as_there_are_tasks() -> None:
    heard = Heard()
    heard.go.clear()
    workers = heard.start(concurrency=5)
    held = filled(0, 50)
    workers.offer(held)
    await eventually(lambda: len(heard.places) == 5)
    assert heard.most_tasks == 5
    heard.go.set()
    await eventually(lambda: len(heard.places) == 50)
    await workers.close(1.0)
    assert heard.most_tasks == 5
    assert held.is_idle


@pytest.mark.parametrize("rate", [None, 1e6])
async def test_an_orderly_queue_is_handed_out_to_its_end_one_by_one(rate: float | None) -> None:
    heard = Heard()
    workers = heard.start(concurrency=3, rate=rate)
    queues = [filled(number, 40, orderly=True) for number in range(2)]
    for held in queues:
        workers.offer(held)
    await eventually(lambda: len(heard.places) == 80)
    for number in range(2):
        assert [offset for queue, offset in heard.places if queue == number] == list(range(40))
    await workers.close(1.0)


async def test_whoever_waits_for_the_jobs_of_a_queue_wakes_after_the_last() -> None:
    heard = Heard()
    heard.go.clear()
    workers = heard.start(concurrency=2)
    held = filled(0, 2)
    await held.idle()
    workers.offer(held)
    await eventually(lambda: len(heard.places) == 2)
    waiting = [asyncio.create_task(held.idle()), asyncio.create_task(held.begin_alone())]
    await asyncio.sleep(0)
    assert not any(task.done() for task in waiting)
    heard.go.set()
    await asyncio.gather(*waiting)
    assert not held.is_idle, "one of them counts as a job now"
    held.end_job()
    await workers.close(1.0)
