from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from pyromq.client.config import FlowControl
from pyromq.client.consume.process_queue import ProcessQueue
from pyromq.protocol.messages.message import MessageExt, MessageQueue

QUEUE = MessageQueue("T", "broker-a", 0)


def messages(*offsets: int) -> list[MessageExt]:
    return [MessageExt(topic="T", stored_body=b"x", queue_offset=offset, store_size=100) for offset in offsets]


def started(offset: int = 0, *, orderly: bool = False) -> ProcessQueue:
    held = ProcessQueue(QUEUE, orderly=orderly)
    held.start_at(offset)
    return held


def test_the_lowest_unfinished_message_holds_the_offset_back() -> None:
    held = started()
    held.add(messages(0, 1, 2, 5), 9)
    first, second, third, last = held.take(9)
    held.finish([second, last])
    assert held.consumed_offset == 0
    held.finish([first])
    assert held.consumed_offset == 2
    held.finish([third])
    assert (held.consumed_offset, len(held), held.size) == (9, 0, 0)


@given(st.permutations(range(20)))
def test_the_offset_only_goes_up_in_whatever_order_messages_are_finished(order: list[int]) -> None:
    held = started()
    held.add(messages(*range(20)), 20)
    taken = held.take(20)
    before = 0
    for done, index in enumerate(order):
        held.finish([taken[index]])
        unfinished = set(order[done + 1 :])
        assert held.consumed_offset == min(unfinished, default=20) >= before
        before = held.consumed_offset


def test_filtered_out_messages_are_passed_when_nothing_is_in_hand() -> None:
    held = started()
    held.add([], 800)
    assert held.consumed_offset == 800
    held.add(messages(800), 801)
    held.add([], 1600)
    assert held.consumed_offset == 800


def test_messages_put_back_come_first_and_in_order() -> None:
    held = started()
    held.add(messages(0, 1, 2, 3), 4)
    taken = held.take(2)
    held.put_back(taken)
    assert [message.queue_offset for message in held.take(9)] == [0, 1, 2, 3]
    assert held.consumed_offset == 0


def test_after_a_jump_late_jobs_change_nothing() -> None:
    held = started()
    held.add(messages(0, 1), 2)
    taken = held.take(2)
    held.start_at(0)
    held.add(messages(0, 1), 2)
    held.finish(taken)
    held.put_back(taken)
    assert (held.consumed_offset, len(held), held.size) == (0, 2, 200)
    assert len(held.take(9)) == 2


def test_a_broker_that_lost_its_end_is_followed_back() -> None:
    held = started()
    held.add(messages(10, 11), 12)
    held.add([], 3)
    assert (held.consumed_offset, len(held), held.pull_offset) == (3, 0, 3)


def test_an_orderly_queue_serves_one_job_at_a_time() -> None:
    held = started(orderly=True)
    held.add(messages(0, 1), 2)
    assert held.ready
    held.take(1)
    assert not held.ready
    held.end_job()
    assert held.ready
    held.resting = True
    assert not held.ready


def test_a_concurrent_queue_serves_many() -> None:
    held = started()
    held.add(messages(0, 1), 2)
    held.take(1)
    assert held.ready
    held.take(1)
    assert not held.ready


def test_paused_dropped_or_unlocked_it_hands_out_nothing() -> None:
    for name, value in (("paused", True), ("dropped", True), ("locked", False)):
        held = started()
        held.add(messages(0), 1)
        assert held.ready
        setattr(held, name, value)
        assert not held.ready


def test_count_size_and_span_make_it_full() -> None:
    held = started()
    held.add(messages(0, 1, 2500), 2501)
    assert held.is_full(FlowControl(span=2000))
    assert not held.is_full(FlowControl(span=2500))
    assert held.is_full(FlowControl(messages=3, span=9999))
    assert held.is_full(FlowControl(size=300, span=9999))
    assert not held.is_full(FlowControl(messages=4, size=301, span=9999))
    held.finish(held.take(2))
    assert not held.is_full(FlowControl(span=2000))


def test_span_does_not_hold_up_an_orderly_queue() -> None:
    held = started(orderly=True)
    held.add(messages(0, 5000), 5001)
    assert not held.is_full(FlowControl())


async def test_it_is_idle_when_its_last_job_ends() -> None:
    held = started()
    await held.idle()
    held.add(messages(0, 1), 2)
    held.take(1)
    held.take(1)
    waiting = asyncio.create_task(held.idle())
    held.end_job()
    await asyncio.sleep(0)
    assert not waiting.done()
    held.end_job()
    await waiting
