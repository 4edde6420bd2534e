from __future__ import annotations

from pyromq.client.poll.poll_queue import PollQueue
from pyromq.protocol.messages.message import MessageExt, MessageQueue


def messages(*offsets: int) -> list[MessageExt]:
    return [MessageExt(topic="T", stored_body=b"x", queue_offset=offset, store_size=100) for offset in offsets]


def started(offset: int = 0) -> PollQueue:
    held = PollQueue(MessageQueue("T", "broker-a", 0))
    held.start_at(offset)
    return held


def test_messages_are_handed_out_in_order_and_the_position_follows() -> None:
    held = started()
    held.add(messages(0, 1, 2), 3)
    assert [message.queue_offset for message in held.take(2)] == [0, 1]
    assert (held.position, held.consumed_offset, held.pull_offset) == (2, 0, 3)
    assert [message.queue_offset for message in held.take(9)] == [2]
    assert (held.position, held.size) == (3, 0)


def test_settling_covers_what_was_handed_out() -> None:
    held = started()
    held.add(messages(0, 1, 2), 3)
    held.take(2)
    held.mark_consumed()
    assert held.consumed_offset == 2


def test_the_position_passes_what_the_filter_left_out_once_all_is_handed_out() -> None:
    held = started()
    held.add(messages(0, 4), 10)
    held.take(1)
    assert held.position == 1
    held.take(1)
    assert held.position == 10


def test_an_idle_queue_moves_on_with_what_was_filtered_out() -> None:
    held = started()
    held.add([], 800)
    assert (held.position, held.consumed_offset) == (800, 800)


def test_messages_being_handled_are_not_settled_by_later_empty_pulls() -> None:
    held = started()
    held.add(messages(0), 1)
    held.take(1)
    held.add([], 800)
    assert (held.position, held.consumed_offset) == (800, 0)


def test_a_jump_forgets_what_is_held() -> None:
    held = started()
    held.add(messages(0, 1), 2)
    held.start_at(50)
    assert (len(held), held.size, held.position, held.consumed_offset, held.pull_offset) == (0, 0, 50, 50, 50)


def test_a_commit_that_ends_after_a_jump_settles_nothing() -> None:
    held = started(100)
    held.start_at(10)
    held.mark_consumed_up_to(100)
    assert held.consumed_offset == 10


def test_a_paused_or_dropped_queue_has_nothing_to_hand_out() -> None:
    held = started()
    held.add(messages(0), 1)
    assert held.ready
    held.paused = True
    assert not held.ready
    held.paused, held.dropped = False, True
    assert not held.ready
