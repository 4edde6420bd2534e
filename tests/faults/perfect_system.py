"""A message system that keeps every promise, simulated at random; and ways to falsify its history."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from msgspec import Struct, field, structs

from pyromq.protocol.messages.message import MessageQueue
from tests.faults.journal import (
    RAISED,
    SEND_OK,
    Answered,
    AnyEvent,
    Attempted,
    Buried,
    Committed,
    Deleted,
    Delivered,
    Drained,
    EventT,
    Finished,
    Formed,
    Moved,
    Recalled,
    Reigned,
    Restarted,
    Stored,
)

QUEUES = [MessageQueue("main", "b", 0), MessageQueue("main", "b", 1), MessageQueue("side", "b", 0)]
LIMIT = 1


class Record(Struct):
    """A stored message."""

    value: str
    times: int = 0


class Reading(Struct):
    """One group in one queue."""

    position: int = 0
    committed: int = 0
    in_hand: dict[int, Delivered] = field(default_factory=dict)
    """Delivered and not settled, by offset."""

    def restart(self, offset: int) -> None:
        """Forget what is in hand and continue at an offset."""
        self.position = offset
        self.in_hand.clear()


class PerfectSystem:
    """A broker, senders and four groups; every step is random and right."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.events: list[AnyEvent] = []
        self.now = 0.0
        self.logs: dict[MessageQueue, list[Record]] = {queue: [] for queue in QUEUES}
        self.waiting: list[tuple[float, MessageQueue, str]] = []
        self.letters: list[tuple[str, str]] = []
        self.readings: dict[tuple[str, MessageQueue], Reading] = defaultdict(Reading)
        self._values = 0
        self._keys: dict[str, MessageQueue] = {}
        self.groups = {
            "concurrent": self._note(Formed, group="concurrent", topics=["main", "side"], limit=LIMIT),
            "orderly": self._note(Formed, group="orderly", topics=["main"], orderly=True, limit=LIMIT),
            "poll": self._note(Formed, group="poll", topics=["main"], alone=True),
            "radio": self._note(Formed, group="radio", topics=["main"], alone=True, retries=False),
        }
        self.steps: list[Callable[[], None]] = [
            *[self.send] * 4, *[self.deliver] * 8, *[self.finish] * 8, *[self.commit] * 3, self.send_later,
            self.end_member, self.kill_broker, self.stop_broker, self.reset, self.delete,
        ]  # fmt: skip

    def run(self, steps: int) -> list[AnyEvent]:
        """Make so many steps, then let every group drain; return the history."""
        for _ in range(steps):
            self.chance.choice(self.steps)()
            self._put_due()
        self.drain()
        return self.events

    def _note(self, kind: type[EventT], **fields: Any) -> EventT:
        self.now += 0.1
        event = kind(**{"at": self.now, **fields})
        self.events.append(event)  # type: ignore[arg-type]
        return event

    def _new_value(self) -> str:
        self._values += 1
        return f"v{self._values}"

    # --- senders

    def send(self) -> None:
        """Send, with or without an answer, with or without copies."""
        value, queue, copies = self._new_value(), self.chance.choice(QUEUES), self.chance.choice((1, 1, 3))
        key = self.chance.choice(("", "k1", "k2")) if copies == 1 else ""
        if key:
            queue = self._keys.setdefault(key, self.chance.choice(QUEUES[:2]))
        self._note(Attempted, value=value, topic=queue.topic, key=key, copies=copies)
        stored = self.chance.randint(0, copies)
        for _ in range(stored):
            self.logs[queue].append(Record(value))
        if stored and self.chance.random() < 0.8:
            self._note(Answered, value=value, status=SEND_OK, queue=queue, offset=len(self.logs[queue]) - 1)
        elif self.chance.random() < 0.5:
            self._note(Answered, value=value, status=RAISED)

    def send_later(self) -> None:
        """Send a timed message or a transaction; perhaps cancel the one, or roll the other back."""
        value, queue, transaction = self._new_value(), self.chance.choice(QUEUES[:2]), self.chance.random() < 0.5
        due, dropped = self.now + self.chance.random() * 5, self.chance.random() < 0.3
        if transaction:
            self._note(Attempted, value=value, topic=queue.topic, how="transaction", rolled_back=dropped)
        else:
            self._note(Attempted, value=value, topic=queue.topic, how="timed", due=due)
        self._note(Answered, value=value, status=SEND_OK)
        if not dropped:
            self.waiting.append((due, queue, value))
        elif not transaction:
            self._note(Recalled, value=value)

    def _put_due(self) -> None:
        for entry in [entry for entry in self.waiting if entry[0] <= self.now]:
            self.waiting.remove(entry)
            self.logs[entry[1]].append(Record(entry[2]))

    # --- groups

    def _queues(self, group: Formed) -> list[MessageQueue]:
        retry = MessageQueue(f"%RETRY%{group.group}", "b", 0)
        own = [queue for queue in QUEUES if queue.topic in group.topics]
        return [*own, retry] if retry in self.logs else own

    def _some_reading(self) -> tuple[Formed, MessageQueue, Reading]:
        group = self.chance.choice(list(self.groups.values()))
        queue = self.chance.choice(self._queues(group))
        return group, queue, self.readings[group.group, queue]

    def deliver(self) -> None:
        """Hand the next message, or a few, to a listener."""
        group, queue, reading = self._some_reading()
        if not (group.orderly and reading.in_hand):
            call = self.chance.choice((0, 0, len(self.events)))
            for _ in range(self.chance.randint(1, 3) if call else 1):
                self._deliver_next(group, queue, reading, call)

    def _deliver_next(self, group: Formed, queue: MessageQueue, reading: Reading, call: int) -> None:
        if reading.position < len(self.logs[queue]):
            offset = reading.position
            reading.position += 1
            record = self.logs[queue][offset]
            self._deliver(group, queue, reading, offset, record.value, record.times, call)

    def _deliver(
        self, group: Formed, queue: MessageQueue, reading: Reading, offset: int, value: str, times: int, call: int
    ) -> None:
        reading.in_hand[offset] = self._note(
            Delivered, group=group.group, queue=queue, offset=offset, value=value, times=times, call=call
        )

    def finish(self) -> None:
        """Let a listener end, well or not."""
        group, queue, reading = self._some_reading()
        if reading.in_hand:
            lowest = min(reading.in_hand)
            offset = lowest if group.orderly else self.chance.choice(list(reading.in_hand))
            results = ["acknowledged"] * 4 + (["failed", "rejected"] if not group.alone or not group.retries else [])
            self._finish(group, queue, reading, offset, self.chance.choice(results))

    def _finish(self, group: Formed, queue: MessageQueue, reading: Reading, offset: int, result: str) -> None:
        delivered = reading.in_hand[offset]
        value, times = delivered.value, delivered.times
        self._note(
            Finished, group=group.group, queue=queue, offset=offset, value=value, result=result, times=times
        )  # fmt: skip
        gives_up = result == "rejected" or (result == "failed" and times >= LIMIT)
        if gives_up and group.retries:
            self.letters.append((group.group, value))
        if result != "failed" or gives_up or not group.retries:
            del reading.in_hand[offset]
        elif group.orderly:
            call = delivered.call and len(self.events)
            for place, event in sorted(reading.in_hand.items()):  # the same batch again, with one more try of its first
                tried = event.times + (place == offset)
                self._deliver(group, queue, reading, place, event.value, tried, call)
        else:
            del reading.in_hand[offset]
            retry = self.logs.setdefault(MessageQueue(f"%RETRY%{group.group}", "b", 0), [])
            retry.append(Record(value, times + 1))

    def commit(self) -> None:
        """Commit up to the lowest unsettled message."""
        group, queue, reading = self._some_reading()
        if group.retries:
            reading.committed = min(reading.in_hand, default=reading.position)
            self._note(Committed, group=group.group, queue=queue, offset=reading.committed)

    def end_member(self) -> None:
        """Kill a member: the next one continues at the committed offset."""
        group, _, reading = self._some_reading()
        if not group.alone:
            reading.restart(reading.committed)

    # --- operators

    def kill_broker(self) -> None:
        """Kill the broker, which forgets what it had not saved."""
        self._note(Restarted, saved=False)
        for (name, queue), reading in self.readings.items():
            if self.chance.random() < 0.3 and self.groups[name].retries:
                forgotten = self.chance.randint(0, reading.committed)
                self._note(Committed, group=name, queue=queue, offset=forgotten)
                reading.committed = forgotten

    def stop_broker(self) -> None:
        """Stop the broker, which saves everything."""
        self._note(Restarted)

    def reset(self) -> None:
        """Put a group to another offset of a queue."""
        group, queue, reading = self._some_reading()
        if queue.topic == "main" and group.retries:
            offset = self.chance.randint(0, len(self.logs[queue]))
            self._note(Moved, group=group.group, queue=queue, offset=offset, since=self.now + 0.05)
            self._note(Committed, group=group.group, queue=queue, offset=offset)
            reading.committed = offset
            reading.restart(offset)

    def delete(self) -> None:
        """Delete and recreate a topic."""
        if self.chance.random() < 0.3:
            self._note(Deleted, topic="side", since=self.now + 0.05)
            self.logs[QUEUES[2]].clear()
            self.readings.pop(("concurrent", QUEUES[2]), None)

    def drain(self) -> None:
        """Handle everything, then write down what is stored."""
        self.now += 10
        self._put_due()
        for group in self.groups.values():
            while any(self._drain_queue(group, queue) for queue in self._queues(group)):
                pass
            self._note(Drained, group=group.group)
        for queue, log in self.logs.items():
            for offset, record in enumerate(log):
                self._note(Stored, queue=queue, offset=offset, value=record.value)
        for name, value in self.letters:
            self._note(Buried, group=name, value=value)

    def _drain_queue(self, group: Formed, queue: MessageQueue) -> bool:
        reading = self.readings[group.group, queue]
        if not reading.in_hand:
            self._deliver_next(group, queue, reading, 0)
        if not reading.in_hand:
            return False
        self._finish(group, queue, reading, min(reading.in_hand), "acknowledged")
        return True


# --- faults that are planted into a history


def falsified(events: list[AnyEvent], kind: str, chance: random.Random) -> list[AnyEvent] | None:
    """Return the history with a fault of this kind, None if it has no place for one."""
    places = [number for number in range(len(events)) if _FAULTS[kind](events, number)]
    if not places:
        return None
    found = _FAULTS[kind](events, chance.choice(places))
    assert found is not None
    return found


def _lose(events: list[AnyEvent], number: int) -> list[AnyEvent] | None:
    """Take all that a group did with an acknowledged message away."""
    end = events[number]
    if not isinstance(end, Finished) or not _must_come(events, end.value) or _is_moved(events, end.group):
        return None
    return [
        event
        for event in events
        if not (
            isinstance(event, Delivered | Finished | Buried) and (event.group, event.value) == (end.group, end.value)
        )
    ]


def _must_come(events: list[AnyEvent], value: str) -> bool:
    attempt = next(event for event in events if isinstance(event, Attempted) and event.value == value)
    deleted = any(isinstance(event, Deleted) and event.topic == attempt.topic for event in events)
    acknowledged = any(
        isinstance(event, Answered) and event.value == value and event.status == SEND_OK for event in events
    )
    return acknowledged and not deleted


def _is_moved(events: list[AnyEvent], group: str) -> bool:
    return any(isinstance(event, Moved) and event.group == group for event in events)


def _invent(events: list[AnyEvent], number: int) -> list[AnyEvent] | None:
    event = events[number]
    if not isinstance(event, Delivered | Stored):
        return None
    return [*events[:number], structs.replace(event, value="ghost"), *events[number + 1 :]]


def _double(events: list[AnyEvent], number: int) -> list[AnyEvent] | None:
    stored = events[number]
    if not isinstance(stored, Stored) or stored.queue.topic.startswith("%"):
        return None
    return [*events, *(structs.replace(stored, offset=1000 + extra) for extra in range(3))]


def _hurry(events: list[AnyEvent], number: int) -> list[AnyEvent] | None:
    delivered = events[number]
    if not isinstance(delivered, Delivered):
        return None
    late = delivered.at + 0.05
    return [
        structs.replace(event, due=late) if isinstance(event, Attempted) and event.value == delivered.value else event
        for event in events
        if not (isinstance(event, Delivered) and event.value == delivered.value and event.at < delivered.at)
    ]


def _overtake(events: list[AnyEvent], number: int) -> list[AnyEvent] | None:
    """Deliver a message of an orderly group before the one before it is finished."""
    end = events[number]
    if not isinstance(end, Finished) or end.group != "orderly" or end.result != "acknowledged":
        return None
    then = next((e for e in events[number:] if isinstance(e, Delivered) and _same_queue(e, end)), None)
    if then is None or then.offset != end.offset + 1 or _is_moved(events, end.group):
        return None
    before = [e for e in events[:number] if isinstance(e, Finished) and _same_queue(e, end) and e.offset == end.offset]
    call = max((e.at for e in events[:number] if isinstance(e, Delivered) and _same_queue(e, end)), default=0.0)
    return None if before else [*events, structs.replace(then, at=(call + end.at) / 2, call=0)]


def _same_queue(event: Delivered | Finished, other: Finished) -> bool:
    return event.group == other.group and event.queue == other.queue


def _swap(events: list[AnyEvent], number: int) -> list[AnyEvent] | None:
    """Let two records exchange their places, seen from the one who reads the topic in the end."""
    stored = events[number]
    if not isinstance(stored, Stored):
        return None
    other = next(
        (e for e in events if isinstance(e, Stored) and e.queue == stored.queue and e.offset > stored.offset), None
    )
    seen = {e.value for e in events if isinstance(e, Delivered) and e.queue == stored.queue}
    if other is None or other.value == stored.value or not {stored.value, other.value} <= seen:
        return None
    return [*events[:number], structs.replace(stored, value=other.value), *events[number + 1 :]]


def _go_back(events: list[AnyEvent], number: int) -> list[AnyEvent] | None:
    commit = events[number]
    if not isinstance(commit, Committed) or not commit.offset or _is_moved(events, commit.group):
        return None
    back = structs.replace(commit, offset=commit.offset - 1, at=commit.at + 0.01)
    return None if commit.queue.topic == "side" and _has_deletions(events) else [*events, back]


def _run_ahead(events: list[AnyEvent], number: int) -> list[AnyEvent] | None:
    """Commit a message before its first end."""
    end = events[number]
    if not isinstance(end, Finished) or end.group == "radio" or _is_moved(events, end.group):
        return None
    earlier = [e for e in events[:number] if isinstance(e, Finished) and _same_queue(e, end) and e.offset == end.offset]
    if earlier or (end.queue.topic == "side" and _has_deletions(events)):
        return None
    return [*events, Committed(group=end.group, queue=end.queue, offset=end.offset + 1, at=end.at - 0.01)]


def _has_deletions(events: list[AnyEvent]) -> bool:
    return any(isinstance(event, Deleted) for event in events)


def _bury(events: list[AnyEvent], number: int) -> list[AnyEvent] | None:
    """Make a dead letter of a message that was tried too rarely."""
    delivered = events[number]
    if not isinstance(delivered, Delivered) or delivered.group not in ("concurrent", "orderly"):
        return None
    key = delivered.group, delivered.value
    tries = [event for event in events if isinstance(event, Delivered) and (event.group, event.value) == key]
    rejected = [e for e in events if isinstance(e, Finished) and (e.group, e.value) == key and e.result == "rejected"]
    if len(tries) > LIMIT or rejected:
        return None
    return [*events, Buried(group=delivered.group, value=delivered.value, at=events[-1].at)]


def _answer_before(events: list[AnyEvent], number: int) -> tuple[int, int] | None:
    """Return the places of two acknowledged sends of which the second was asked after the first was answered."""
    answer = events[number]
    if not isinstance(answer, Answered) or answer.status != SEND_OK or answer.queue is None:
        return None
    if answer.queue.topic == "side" and _has_deletions(events):
        return None
    asked = next(place for place, e in enumerate(events) if isinstance(e, Attempted) and e.value == answer.value)
    for place, before in enumerate(events[:asked]):
        if isinstance(before, Answered) and before.status == SEND_OK and before.queue == answer.queue:
            return place, number
    return None


def _store_before(events: list[AnyEvent], number: int) -> list[AnyEvent] | None:
    """Store a message before one that was answered when it was sent."""
    places = _answer_before(events, number)
    if places is None:
        return None
    return [structs.replace(event, offset=-1) if place == number else event for place, event in enumerate(events)]


def _reign_on(events: list[AnyEvent], number: int) -> list[AnyEvent] | None:
    """Have a master acknowledge what it was asked after its successor had answered."""
    places = _answer_before(events, number)
    if places is None:
        return None
    first = events[places[0]]
    nodes = {places[0]: "new", places[1]: "old"}
    reign = Reigned(node="new", epoch=2, at=first.at - 0.01, since=first.at - 0.02)
    renamed = [
        structs.replace(event, node=nodes[place]) if place in nodes else event for place, event in enumerate(events)
    ]
    return [*renamed, reign]


def _leave_gap(events: list[AnyEvent], number: int) -> list[AnyEvent] | None:
    stored = events[number]
    if not isinstance(stored, Stored) or (stored.queue.topic == "side" and _has_deletions(events)):
        return None
    offsets = [event.offset for event in events if isinstance(event, Stored) and event.queue == stored.queue]
    return [*events[:number], *events[number + 1 :]] if min(offsets) < stored.offset < max(offsets) else None


def _differ(events: list[AnyEvent], number: int) -> list[AnyEvent] | None:
    """Give a second broker all but one of the messages."""
    if not isinstance(events[number], Stored) or sum(isinstance(event, Stored) for event in events) < 2:
        return None  # a broker without messages is not seen at all
    one = [structs.replace(event, node="one") if isinstance(event, Stored) else event for event in events]
    two = [structs.replace(event, node="two") for event in events if isinstance(event, Stored)]
    return [*one, *(event for event in two if event.at != events[number].at)]


_FAULTS: dict[str, Callable[[list[AnyEvent], int], list[AnyEvent] | None]] = {
    "lost": _lose, "invented": _invent, "doubled": _double, "early": _hurry, "out of order": _overtake,
    "two values": _swap, "moved back": _go_back, "ahead": _run_ahead, "untried": _bury, "overtaken": _store_before,
    "deposed": _reign_on, "gaps": _leave_gap, "unlike": _differ,
}  # fmt: skip
