from __future__ import annotations

from pyromq.client.consume.fair_queue import FairQueue
from pyromq.client.poll.poll_queue import PollQueue
from pyromq.protocol.messages.message import MessageExt, MessageQueue


def queue_with_messages(number: int) -> PollQueue:
    held = PollQueue(MessageQueue("t", "broker-a", number))
    held.start_at(0)
    held.add([MessageExt(topic="t", stored_body=b"x", queue_offset=0)], 1)
    return held


def test_queues_are_served_in_the_order_in_which_they_joined() -> None:
    line: FairQueue[PollQueue] = FairQueue()
    first, second = queue_with_messages(0), queue_with_messages(1)
    assert line.join(first)
    assert line.join(second)
    assert line.join(first)
    assert len(line) == 2, "each is in it once"
    assert [line.next(), line.next(), line.next()] == [first, second, None]


def test_a_queue_without_messages_does_not_join() -> None:
    line: FairQueue[PollQueue] = FairQueue()
    assert not line.join(PollQueue(MessageQueue("t", "broker-a", 0)))
    assert line.next() is None


def test_a_queue_that_was_paused_or_given_up_meanwhile_is_skipped() -> None:
    line: FairQueue[PollQueue] = FairQueue()
    paused, dropped, ready = (queue_with_messages(number) for number in range(3))
    for held in (paused, dropped, ready):
        line.join(held)
    paused.paused = dropped.dropped = True
    assert line.next() is ready
    assert len(line) == 0
