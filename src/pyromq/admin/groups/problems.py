"""What is wrong with a group: what blocks a queue, and findings for the operator, one line each.

What blocks a queue is concluded from its owner's report about itself. Our consumers report which message the listener
has and since when, which orderly queue fails with what, and since when nobody has polled. Java's consumers report when
they last finished a message, when they last pulled, and the range of offsets that they have in hand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from pyromq.admin.groups.description import Member, Opinion, QueueProgress, TopicCount
from pyromq.admin.groups.snapshot import GroupSnapshot
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
"""Seconds without a pull after which an owner does not want messages; a long poll takes at most 30."""

# --- what blocks a queue ---------------------------------------------------------------------------------------------


class WaitingQueue(NamedTuple):
    """A queue in which messages wait, and its owner's report about it; the report is empty if it has no owner."""

    queue: MessageQueue
    info: ConsumerRunningInfo
    state: ProcessQueueInfo
    is_broadcasting: bool
    moved: bool | None
    """Whether its offset moved within `watch` seconds; None if it was not watched."""
    watch: float
    slow: float
    """Seconds after which a message counts as slow."""
    now: float

    @property
    def head(self) -> MessageInProgress | None:
        """The queue's lowest message, if its owner reports that the listener has it."""
        return messages_in_progress(self.info).get(self.queue)

    @property
    def is_push(self) -> bool:
        """True if its owner calls a listener: only then are its times and locks meaningful."""
        return self.info.properties.get("PROP_CONSUME_TYPE") == ConsumeType.CONSUME_PASSIVELY

    def property_is_true(self, name: str) -> bool:
        """Return True if a setting of the owner is true."""
        return self.info.properties.get(name) == "true"

    def since(self, timestamp_ms: int) -> float:
        """Return how many seconds ago a time was, 0 if it never was."""
        return max(self.now - timestamp_ms / 1000, 0.0) if timestamp_ms > 0 else 0.0


def find_block(waiting: WaitingQueue) -> str | None:
    """Return what blocks a queue in which messages wait, None if nothing is known to."""
    return next((text for check in _CHECKS if (text := check(waiting))), None)


def _fails(waiting: WaitingQueue) -> str | None:
    blocked = blocked_queues(waiting.info).get(waiting.queue)
    if blocked is None:
        return None
    seconds = waiting.now - blocked.since.timestamp()
    what = f"message {blocked.message_id} at offset {blocked.queue_offset}"
    return f"{what} has failed {blocked.times} times within {seconds:.0f} s: {blocked.cause}"


def _is_unlocked(waiting: WaitingQueue) -> str | None:
    orderly = waiting.property_is_true("PROP_CONSUMEORDERLY") and not waiting.is_broadcasting
    return "its owner consumes in order and has no lock on it" if orderly and not waiting.state.locked else None


def _is_listened_to(waiting: WaitingQueue) -> str | None:
    head = waiting.head
    seconds = waiting.since(head.since_ms) if head else 0.0
    if head is None or seconds < waiting.slow:
        return None
    return f"the listener has had message {head.message_id} at offset {head.queue_offset} for {seconds:.0f} s"


def _finishes_nothing(waiting: WaitingQueue) -> str | None:
    seconds, cached = waiting.since(waiting.state.last_consume_timestamp), waiting.state.cached_msg_count
    if waiting.moved or not cached or not waiting.is_push or seconds < waiting.slow:
        return None
    if waiting.head is not None:
        return None  # its owner reports exactly since when, and that is not long ago
    return f"nothing was finished for {seconds:.0f} s, with {cached} message{'s' if cached != 1 else ''} in hand"


def _is_overtaken(waiting: WaitingQueue) -> str | None:
    """Notice a message that more later ones have overtaken than there are listener threads."""
    state, threads = waiting.state, waiting.info.properties.get("PROP_THREADPOOL_CORE_SIZE", "")
    if waiting.moved is not False or not threads.isdecimal() or not _wants_all(waiting):
        return None
    later = state.cached_msg_max_offset - state.cached_msg_min_offset + 1 - state.cached_msg_count
    if not state.cached_msg_count or later <= int(threads):
        return None
    return f"the message at offset {state.cached_msg_min_offset} is not finished, {later} later ones are"


def _wants_all(waiting: WaitingQueue) -> bool:
    topic = waiting.queue.topic
    return any(wanted.topic == topic and wanted.sub_string == EVERYTHING for wanted in waiting.info.subscription_set)


def _is_not_polled(waiting: WaitingQueue) -> str | None:
    seconds = waiting.since(idle_caller_since_ms(waiting.info))
    return f"its member has not polled for {seconds:.0f} s" if seconds >= waiting.slow else None


def _is_not_pulled(waiting: WaitingQueue) -> str | None:
    seconds = waiting.since(waiting.state.last_pull_timestamp)
    if waiting.state.cached_msg_count or seconds < PULL_SILENCE:
        return None
    return f"its owner has not pulled for {seconds:.0f} s: is it paused?"


def _stands_still(waiting: WaitingQueue) -> str | None:
    still = waiting.moved is False and waiting.watch >= waiting.slow
    return f"its offset did not move within {waiting.watch:g} s" if still else None


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


# --- findings --------------------------------------------------------------------------------------------------------


def broker_findings(snapshot: GroupSnapshot) -> Iterator[str]:
    """Yield brokers that do not answer, and brokers that do not let the group consume."""
    for broker, reason in snapshot.silent.items():
        yield f"{broker} does not answer: {reason}"
    for broker, answer in snapshot.answers.items():
        settings = answer.settings.get(snapshot.group)
        if settings is not None and not settings.consume_enable:
            yield f"{broker} does not let the group consume: its consumeEnable is false"


def subscription_findings(opinions: Iterable[Opinion], without_route: Iterable[str]) -> Iterator[str]:
    """Yield that members subscribe differently, and topics that do not exist."""
    different = "; ".join(map(str, opinions))
    if different:
        yield f"its members subscribe differently, so it loses messages: {different}"
    for topic in without_route:
        yield f"no broker has the topic {topic}, which it subscribes to"


def queue_findings(queues: Iterable[QueueProgress]) -> Iterator[str]:
    """Yield queues that are blocked, and those whose offset lies beyond their end."""
    for progress in queues:
        if progress.blocked is not None:
            yield f"{progress} with {progress.lag:,} waiting: {progress.blocked}"
        if progress.committed_offset > progress.end_offset:
            ahead = progress.committed_offset - progress.end_offset
            yield f"{progress} is committed {ahead:,} beyond its end: the broker has lost messages"


def member_findings(members: Iterable[Member], queues: Iterable[QueueProgress]) -> Iterator[str]:
    """Yield members that do not answer, members that have nothing to do, and members that a broker does not know."""
    brokers = {progress.queue.broker_name for progress in queues}
    for member in members:
        if member.silence is not None:
            yield f"member {member.client_id} does not report its state: {member.silence}"
        if member.is_idle:
            yield f"member {member.client_id} has no queue: there are more members than queues, or it is starting"
        for broker in sorted(brokers.difference(member.brokers)):
            yield f"{broker} does not know member {member.client_id}: queues may be assigned wrongly"


def dead_letter_findings(group: str, dead_letters: TopicCount | None) -> Iterator[str]:
    """Yield that there are dead letters."""
    if dead_letters is not None and dead_letters.messages:
        letters = "1 dead letter" if dead_letters.messages == 1 else f"{dead_letters.messages:,} dead letters"
        yield f"{letters}: see `pyromq dlq show {group}`"
