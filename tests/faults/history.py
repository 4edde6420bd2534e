"""The history checker: judges the journals of a campaign; every finding comes with the events that prove it.

    python -m tests.faults.history DIRECTORY        # of journals that a campaign has left

It knows nothing of brokers, only what they promise: at-least-once delivery in the order of queues, delays that are
kept, offsets that neither run ahead of the listener nor move back. What is excused is said in the journal too: a reset,
a deleted topic, a broker that was killed before it saved its offsets.
"""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from pyromq.protocol.messages.message import MessageQueue
from pyromq.protocol.names import RETRY_PREFIX, retry_topic
from tests.faults.journal import (
    SEND_OK,
    Answered,
    AnyEvent,
    Attempted,
    Committed,
    Delivered,
    Event,
    Finished,
    Formed,
    Moved,
    Restarted,
    Stored,
    line_of,
    read_journals,
)
from tests.faults.timeline import Place, Timeline, Walk

EARLY_BY = 0.02  # seconds: clocks count milliseconds, and a delay begins a moment before its sender notes it
MOST_LINES = 16  # of proof that are printed
ACCEPTED, FAILED, REJECTED, UNTRIED = "acknowledged", "failed", "rejected", "untried"


class Finding(NamedTuple):
    """A broken promise."""

    kind: str
    text: str
    proof: tuple[Event, ...]

    def __str__(self) -> str:
        left_out = [f"… {len(self.proof) - MOST_LINES} more"] if len(self.proof) > MOST_LINES else []
        return "\n    ".join([f"{self.kind}: {self.text}", *map(line_of, self.proof[:MOST_LINES]), *left_out])


def check(events: Iterable[AnyEvent]) -> list[Finding]:
    """Return everything that is wrong with a history."""
    history = Timeline(events)
    return [finding for rule in RULES for finding in rule(history)]


# --- messages ---------------------------------------------------------------------------------------------------------


def lost(history: Timeline) -> Iterator[Finding]:
    """A group that drained has finished every acknowledged message, or has it among its dead letters."""
    groups = [group for group in history.groups.values() if group.group in history.drained]
    for value, answer in history.answers.items():
        attempt = history.attempts.get(value)
        if attempt is None or answer.status != SEND_OK or attempt.rolled_back or value in history.recalled:
            continue
        if any(deletion.at >= attempt.at for deletion in history.deletions.get(attempt.topic, ())):
            continue
        for group in groups:
            if attempt.topic in group.topics and not _is_finished(history, group, attempt):
                tries = history.deliveries.get((group.group, value), [])
                what = f"delivered {len(tries)} times and never finished" if tries else "never delivered"
                proof = (*history.evidence(value), *tries, *history.ends.get((group.group, value), ()))
                yield Finding("lost", f"{value} of {attempt.topic} was acknowledged and {what} ({group.group})", proof)


def _is_finished(history: Timeline, group: Formed, attempt: Attempted) -> bool:
    key = group.group, attempt.value
    ends = history.ends.get(key, ())
    if any(end.result == ACCEPTED for end in ends) or (ends and not group.retries) or key in history.letters:
        return True
    places = history.own_places(attempt)
    return any(move.offset > place.offset for place in places for move in history.moves.get((key[0], place.queue), ()))


def invented(history: Timeline) -> Iterator[Finding]:
    """Nothing is delivered or stored that was not sent, that was rolled back, or that was cancelled."""
    seen: set[str] = set()
    for event in (*history.sightings, *history.letters.values()):
        value = event.value
        if value in seen:
            continue
        attempt, recall = history.attempts.get(value), history.recalled.get(value)
        if attempt is None:
            reason = "was never sent"
        elif not _may_lie(event, attempt):
            reason = f"was sent to {attempt.topic}"
        elif attempt.rolled_back and not isinstance(event, Answered):
            reason = "was rolled back"
        elif recall is not None and not isinstance(event, Answered):
            reason = "was cancelled"
        else:
            continue
        seen.add(value)
        yield Finding("invented", f"{value} {reason}", (*history.evidence(value), event))


def _may_lie(event: Event, attempt: Attempted) -> bool:
    if isinstance(event, Delivered):
        return event.queue.topic in (attempt.topic, retry_topic(event.group))
    return (
        not isinstance(event, Stored)
        or event.queue.topic.startswith(RETRY_PREFIX)
        or event.queue.topic == attempt.topic
    )


def doubled(history: Timeline) -> Iterator[Finding]:
    """A topic has a value once for each request that its sender may have made."""
    for value, attempt in history.attempts.items():
        places = history.own_places(attempt)
        if len(places) > attempt.copies:
            where = ", ".join(f"{place.queue.queue_id}:{place.offset}" for place in sorted(places)[:MOST_LINES])
            text = f"{value} ({attempt.how}) was sent {attempt.copies} times and is stored {len(places)} times: {where}"
            yield Finding("doubled", text, (*history.evidence(value), *places.values()))


def early(history: Timeline) -> Iterator[Finding]:
    """A delayed message is not delivered before its time."""
    for (group, value), deliveries in history.deliveries.items():
        attempt = history.attempts.get(value)
        if attempt is not None and deliveries[0].at < attempt.due - EARLY_BY:
            text = f"{value} came to {group} {attempt.due - deliveries[0].at:.3f} s before its time"
            yield Finding("early", text, (*history.evidence(value), deliveries[0]))


def two_values(history: Timeline) -> Iterator[Finding]:
    """A place holds one value for ever."""
    for place, values in history.values.items():
        if len(values) > 1:
            text = f"offset {place.offset} of {_name(place.queue)} is {' and '.join(sorted(values))}"
            yield Finding("two values", text, tuple(values.values()))


def untried(history: Timeline) -> Iterator[Finding]:
    """A dead letter was tried as often as its group promises, unless its listener rejected it."""
    for (name, value), letter in history.letters.items():
        group = history.groups.get(name)
        if group is None or group.limit is None:
            continue
        ends = history.ends.get((name, value), [])
        deliveries = history.deliveries.get((name, value), [])
        tries = len(deliveries) - sum(end.result == UNTRIED for end in ends)
        if tries <= group.limit and not any(end.result == REJECTED for end in ends):
            text = f"{value} is a dead letter of {name} after {tries} of {group.limit + 1} tries"
            yield Finding("untried", text, (*deliveries, *ends, letter))


# --- order ------------------------------------------------------------------------------------------------------------


def out_of_order(history: Timeline) -> Iterator[Finding]:
    """Messages of a queue, and of a key, come in order."""
    for walk in history.walks:
        yield from _orderly_queue(walk) if walk.group.orderly else ()
        yield from _ascending(walk, history.offsets(walk.queue, walk.life)) if not walk.group.parallel else ()
    yield from _keys(history)


def _orderly_queue(walk: Walk) -> Iterator[Finding]:
    """Nothing is delivered while an earlier message has never been finished."""
    unfinished: dict[int, Delivered] = {}
    done: set[int] = set()
    floor = 0
    for event in walk.events:
        match event:
            case Moved():  # what is in hand is dropped, now or a little later
                floor = event.offset
                unfinished.clear()
            case Finished() if _settles_order(walk.group, event):
                unfinished.pop(event.offset, None)
                done.add(event.offset)
            case Delivered():
                for offset, earlier in unfinished.items():
                    if floor <= offset < event.offset and not _together(earlier, event):
                        text = f"{event.value} came to {walk.group.group} while {earlier.value} was unfinished"
                        yield Finding("out of order", text, (earlier, event))
                        return
                if event.offset not in done:
                    unfinished[event.offset] = event


def _together(one: Delivered, other: Delivered) -> bool:
    return one.call != 0 and (one.by, one.call) == (other.by, other.call)


def _settles_order(group: Formed, event: Finished) -> bool:
    if event.result == FAILED:
        return not group.retries or (group.limit is not None and event.times >= group.limit)  # a dead letter now
    return event.result != UNTRIED


def _ascending(walk: Walk, offsets: list[int]) -> Iterator[Finding]:
    """Messages that come for the first time come in the order of their queue."""
    moves: list[Moved] = []
    moved = forgotten = False
    seen: set[int] = set()
    last: dict[str, Delivered] = {}
    for event in walk.events:
        match event:
            case Moved():
                moves.append(event)
                moved = True
            case Restarted(saved=False):
                forgotten = moved  # a broker that forgets a move forward lets what was skipped come
            case Delivered():
                reader = event.by if walk.group.alone else ""
                if move := _reached(moves, offsets, event.offset):
                    last.pop(reader, None)
                    if event.at > move.at:  # else it may have come just before the move took effect
                        moves.remove(move)
                before = last.get(reader)
                first = event.offset not in seen or walk.group.alone
                if first and before is not None and event.offset <= before.offset:
                    if not forgotten:
                        yield _overtaken(walk, before, event)
                        return
                    forgotten = False
                seen.add(event.offset)
                if first:
                    last[reader] = event


def _overtaken(walk: Walk, before: Delivered, event: Delivered) -> Finding:
    text = f"{event.value} of {_name(walk.queue)} came to {walk.group.group} after {before.value} behind it"
    return Finding("out of order", text, (before, event))


def _reached(moves: list[Moved], offsets: list[int], offset: int) -> Moved | None:
    """Return a move that a delivery may have followed: no message lies between its target and this offset."""
    reached = (move for move in moves if move.offset <= offset)
    return next((move for move in reached if offsets[bisect_left(offsets, move.offset)] == offset), None)


def _keys(history: Timeline) -> Iterator[Finding]:
    """What was acknowledged before the next was sent is stored and delivered before it."""
    last: dict[tuple[str, str], Answered] = {}
    pairs: list[tuple[Answered, Answered]] = []
    for value, attempt in history.attempts.items():
        answer = history.answers.get(value)
        if attempt.key and answer is not None and answer.status == SEND_OK:
            key = attempt.topic, attempt.key
            if key in last and last[key].at <= attempt.at:
                pairs.append((last[key], answer))
            last[key] = answer
    orderly = [group.group for group in history.groups.values() if group.orderly]
    for before, after in pairs:
        evidence = (*history.evidence(before.value), *history.evidence(after.value))
        if (
            before.queue == after.queue
            and before.offset >= after.offset
            and not _deleted_between(history, before, after)
        ):
            text = f"{after.value} was sent after {before.value} and is stored before it"
            yield Finding("out of order", text, evidence)
        for group in orderly:
            first = history.deliveries.get((group, before.value))
            then = history.deliveries.get((group, after.value))
            moved = any((group, answer.queue) in history.moves for answer in (before, after))
            if first and then and first[0].at > then[0].at and not moved:
                text = f"{after.value} was sent after {before.value} and came to {group} before it"
                yield Finding("out of order", text, (*evidence, first[0], then[0]))


def _deleted_between(history: Timeline, before: Answered, after: Answered) -> bool:
    assert before.queue is not None
    topic = before.queue.topic
    return history.life_of(before.value, topic) != history.life_of(after.value, topic)


# --- offsets ----------------------------------------------------------------------------------------------------------


def moved_back(history: Timeline) -> Iterator[Finding]:
    """A committed offset goes back only if somebody moved it, or the broker was killed before it had saved it."""
    for walk in history.walks:
        last: Committed | None = None
        moves: list[Moved] = []
        for event in walk.events:
            match event:
                case Restarted(saved=False):
                    last = None
                case Moved():
                    moves.append(event)
                case Committed():
                    if last is not None and event.offset < last.offset:
                        allowed = [move for move in moves if move.offset <= event.offset]
                        if not allowed:
                            text = (
                                f"{walk.group.group} went from {last.offset} to {event.offset} in {_name(walk.queue)}"
                            )
                            yield Finding("moved back", text, (last, event))
                            break
                        moves.remove(allowed[0])
                    last = event


def ahead(history: Timeline) -> Iterator[Finding]:
    """A committed offset does not pass a message that its group still has to handle: a crash would lose it."""
    for walk in history.walks:
        offsets = history.offsets(walk.queue, walk.life)
        settled: set[int] = set()
        low = 0
        for event in walk.events:
            match event:
                case Finished() if not walk.group.orderly or _settles_order(walk.group, event):
                    settled.add(event.offset)
                case Moved():
                    settled.update(offsets[: bisect_left(offsets, event.offset)])
                case Committed():
                    while low < len(offsets) and offsets[low] in settled:
                        low += 1
                    if low < len(offsets) and offsets[low] < event.offset:
                        yield _passed(history, walk, offsets[low], event)
                        break


def _passed(history: Timeline, walk: Walk, offset: int, commit: Committed) -> Finding:
    values = history.values[Place(walk.queue, offset, walk.life)]
    tries = [event for event in walk.events if isinstance(event, Delivered | Finished) and event.offset == offset]
    text = f"{walk.group.group} committed {commit.offset} of {_name(walk.queue)} and had not handled {offset}"
    return Finding("ahead", f"{text} ({', '.join(values)})", (*values.values(), *tries, commit))


def _name(queue: MessageQueue) -> str:
    return f"{queue.topic}:{queue.queue_id}"


RULES: list[Callable[[Timeline], Iterator[Finding]]] = [
    lost, invented, doubled, early, two_values, untried, out_of_order, moved_back, ahead,
]  # fmt: skip


def main() -> int:
    events = read_journals(Path(sys.argv[1]))
    findings = check(events)
    print(*findings, sep="\n")
    print(Timeline(events).figures(), dict(Counter(finding.kind for finding in findings)))
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
