"""What holds up a queue in which messages wait, as far as its owner's account of itself shows.

A consumer of ours tells which message its listener has and since when, which orderly queue fails with what, and since
when nobody has polled it. Java's tells when it last finished a message, when it last pulled, and between which offsets
lies what it has in hand.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from pyromq.client.consume.stall_report import (
    MessageInProgress,
    blocked_queues,
    idle_caller_since_ms,
    messages_in_progress,
)
from pyromq.protocol.bodies import ConsumerRunningInfo, ConsumeType, ProcessQueueInfo
from pyromq.protocol.messages.message import MessageQueue
from pyromq.protocol.tag_filter import EVERYTHING

PULL_SILENCE = 60.0
"""Seconds without a pull after which an owner does not want messages; a long poll takes 30 at most."""


class WaitingQueue(NamedTuple):
    """A queue that something waits in, and its owner's account of it: an empty one if it has no owner."""

    queue: MessageQueue
    info: ConsumerRunningInfo
    state: ProcessQueueInfo
    is_broadcasting: bool
    moved: bool | None
    """Whether it moved while it was watched for `watch` seconds; None if it was not."""
    watch: float
    slow: float
    """Seconds from which on a message takes long."""
    now: float

    @property
    def head(self) -> MessageInProgress | None:
        """The queue's lowest message, if its listener has it and says so."""
        return messages_in_progress(self.info).get(self.queue)

    @property
    def is_push(self) -> bool:
        """Whether a listener is called with the messages: only then do times and locks mean something."""
        return self.info.properties.get("PROP_CONSUME_TYPE") == ConsumeType.CONSUME_PASSIVELY

    def property_is_true(self, name: str) -> bool:
        """Tell how a setting of the owner stands."""
        return self.info.properties.get(name) == "true"

    def since(self, timestamp_ms: int) -> float:
        """Return how many seconds ago that was, 0 if it never was."""
        return max(self.now - timestamp_ms / 1000, 0.0) if timestamp_ms > 0 else 0.0


def find_block(case: WaitingQueue) -> str | None:
    """Return what holds up a queue in which messages wait, None if nothing is known to."""
    return next((text for judge in _CHECKS if (text := judge(case))), None)


def _fails(case: WaitingQueue) -> str | None:
    blocked = blocked_queues(case.info).get(case.queue)
    if blocked is None:
        return None
    seconds = case.now - blocked.since.timestamp()
    what = f"message {blocked.message_id} at offset {blocked.queue_offset}"
    return f"{what} has failed {blocked.times} times within {seconds:.0f} s: {blocked.cause}"


def _is_unlocked(case: WaitingQueue) -> str | None:
    orderly = case.property_is_true("PROP_CONSUMEORDERLY") and not case.is_broadcasting
    return "its owner consumes in order and has no lock on it" if orderly and not case.state.locked else None


def _is_listened_to(case: WaitingQueue) -> str | None:
    head = case.head
    seconds = case.since(head.since_ms) if head else 0.0
    if head is None or seconds < case.slow:
        return None
    return f"the listener has had message {head.message_id} at offset {head.queue_offset} for {seconds:.0f} s"


def _finishes_nothing(case: WaitingQueue) -> str | None:
    seconds = case.since(case.state.last_consume_timestamp)
    if case.moved or not case.state.cached_msg_count or not case.is_push or seconds < case.slow:
        return None
    if case.head is not None:
        return None  # that is exact, and not long ago
    return f"nothing was finished for {seconds:.0f} s, with {case.state.cached_msg_count} messages in hand"


def _is_overtaken(case: WaitingQueue) -> str | None:
    """Notice a message that more later ones have overtaken than listeners work at a time."""
    state, threads = case.state, case.info.properties.get("PROP_THREADPOOL_CORE_SIZE", "")
    if case.moved is not False or not threads.isdecimal() or not _wants_all(case):
        return None
    later = state.cached_msg_max_offset - state.cached_msg_min_offset + 1 - state.cached_msg_count
    if not state.cached_msg_count or later <= int(threads):
        return None
    return f"the message at offset {state.cached_msg_min_offset} is not finished, {later} later ones are"


def _wants_all(case: WaitingQueue) -> bool:
    topic = case.queue.topic
    return any(wanted.topic == topic and wanted.sub_string == EVERYTHING for wanted in case.info.subscription_set)


def _is_not_polled(case: WaitingQueue) -> str | None:
    seconds = case.since(idle_caller_since_ms(case.info))
    return f"its member has not polled for {seconds:.0f} s" if seconds >= case.slow else None


def _is_not_pulled(case: WaitingQueue) -> str | None:
    seconds = case.since(case.state.last_pull_timestamp)
    if case.state.cached_msg_count or seconds < PULL_SILENCE:
        return None
    return f"its owner has not pulled for {seconds:.0f} s: is it paused?"


def _stands_still(case: WaitingQueue) -> str | None:
    still = case.moved is False and case.watch >= case.slow
    return f"its offset did not move within {case.watch:g} s" if still else None


_CHECKS: tuple[Callable[[WaitingQueue], str | None], ...] = (
    _fails,
    _is_unlocked,
    _is_listened_to,
    _finishes_nothing,
    _is_overtaken,
    _is_not_polled,
    _is_not_pulled,
    _stands_still,
)
