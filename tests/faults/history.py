"""The history checker: judges the journals of a campaign; every finding comes with the events that prove it.

    python -m tests.faults.history DIRECTORY        # of journals that a campaign has left

It knows nothing of brokers, only what they promise: at-least-once delivery in the order of queues, delays that are
kept, offsets that neither run ahead of the listener nor move back; and of brokers that succeed each other, that they
have one history, and that only the last of them acknowledges. What is excused is said in the journal too: a reset, a
deleted topic, a broker that was killed before it saved its offsets, a power cut of all (`power_loss.py`).
"""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from pyromq.protocol.messages.message import MessageQueue
from pyromq.protocol.names import RETRY_PREFIX, retry_topic
from tests.faults.journal import (
    RAISED,
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
    Reigned,
    Restarted,
    Stored,
    Struck,
    line_of,
    read_journals,
)
from tests.faults.timeline import Place, Timeline, Walk

EARLY_BY = 0.02  # seconds: clocks count milliseconds, and a delay begins a moment before its sender notes it
LATE_COMMITS = 1.0  # seconds: commits that a slave may not have yet when its master dies
SEEN_LATE = 0.5  # seconds: what is added to that for a machine that is slow to look
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
        elif recall is not None and recall.is_sure and not isinstance(event, Answered):
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
    """What was acknowledged before the next was sent is delivered before it."""
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
        for group in orderly:
            first = history.deliveries.get((group, before.value))
            then = history.deliveries.get((group, after.value))
            moved = any((group, answer.queue) in history.moves for answer in (before, after))
            if first and then and first[0].at > then[0].at and not moved:
                text = f"{after.value} was sent after {before.value} and came to {group} before it"
                yield Finding("out of order", text, (*evidence, first[0], then[0]))


def overtaken(history: Timeline) -> Iterator[Finding]:
    """What is sent after another send to the same queue was answered is stored behind it, whoever is master."""
    last: dict[tuple[MessageQueue, int], Answered] = {}
    for _, attempt, answer in sorted(_asked_and_answered(history), key=lambda one: one[0]):
        assert answer.queue is not None
        life = history.life_of(answer.value, answer.queue.topic)
        if life is None:
            continue
        key, before = (answer.queue, life), last.get((answer.queue, life))
        if attempt is None:
            last[key] = answer if before is None else max(before, answer, key=lambda one: one.offset)
        elif before is not None and answer.offset < before.offset:
            text = f"{answer.value} was sent after {before.value} was answered and is stored before it"
            yield Finding("out of order", text, (before, attempt, answer))


def _asked_and_answered(history: Timeline) -> Iterator[tuple[float, Attempted | None, Answered]]:
    """Yield each stored send twice: when it was asked, with its attempt, and when it was answered, without."""
    for value, answer in history.answers.items():
        attempt = history.attempts.get(value)
        if attempt is not None and answer.queue is not None and answer.status != RAISED:
            yield attempt.at, attempt, answer
            yield answer.at, None, answer


# --- brokers of one name ----------------------------------------------------------------------------------------------


def deposed(history: Timeline) -> Iterator[Finding]:
    """Once a new master has answered, nobody before it acknowledges what it is asked from then on."""
    stored = [answer for answer in history.answers.values() if answer.node and answer.status != RAISED]
    stored.sort(key=lambda answer: answer.at)
    for reign in history.reigns:
        first = next((answer for answer in stored if answer.node == reign.node and answer.at >= reign.at), None)
        for answer in stored if first is not None else ():
            attempt = history.attempts.get(answer.value)
            if (
                first is not None
                and attempt is not None
                and answer.status == SEND_OK
                and answer.node != reign.node
                and attempt.at > first.at
                and not _succeeds(history, answer, reign)
            ):
                text = f"{answer.value} was acknowledged by {answer.node} after {reign.node} had become master"
                yield Finding("deposed", text, (reign, first, attempt, answer))


def _succeeds(history: Timeline, answer: Answered, reign: Reigned) -> bool:
    """Return whether its broker may have been elected again, after this reign, when it answered."""
    later = (one for one in history.reigns if one.node == answer.node and one.epoch > reign.epoch)
    return any(one.since <= answer.at for one in later)


def gaps(history: Timeline) -> Iterator[Finding]:
    """The offsets of a queue follow each other, on each broker that has it."""
    for (node, queue), found in _contents(history).items():
        missing = sorted(set(range(min(found), max(found))) - found.keys())
        if missing and queue.topic not in history.deletions:
            where = f" at {node}" if node else ""
            text = f"{_name(queue)} has offsets {min(found)} to {max(found)}{where} without {missing[:MOST_LINES]}"
            yield Finding("gap", text, (found[min(found)], found[max(found)]))


def unlike(history: Timeline) -> Iterator[Finding]:
    """All brokers of one name have the same messages in the end."""
    contents = _contents(history)
    nodes = sorted({node for node, _ in contents})
    for queue in sorted({queue for _, queue in contents}):
        for one, other in pairwise(nodes):
            mine, theirs = contents.get((one, queue), {}), contents.get((other, queue), {})
            if differing := sorted(mine.keys() ^ theirs.keys()):
                text = f"{_name(queue)}: {len(differing)} offsets are only at one of {one}, {other}"
                proof = tuple(found[at] for at in differing[:MOST_LINES] for found in (mine, theirs) if at in found)
                yield Finding("unlike", text, proof)


def _contents(history: Timeline) -> dict[tuple[str, MessageQueue], dict[int, Stored]]:
    contents: dict[tuple[str, MessageQueue], dict[int, Stored]] = {}
    for event in history.stored:
        contents.setdefault((event.node, event.queue), {})[event.offset] = event
    return contents


# --- offsets ----------------------------------------------------------------------------------------------------------


def moved_back(history: Timeline) -> Iterator[Finding]:
    """A committed offset goes back only if somebody moved it, or the broker was killed before it had saved it.

    The next master may lack the commits of the last second of the one before.
    """
    for walk in history.walks:
        last: Committed | None = None
        moves: list[Moved] = []
        seen: list[Committed] = []
        struck: Struck | None = None
        for event in walk.events:
            match event:
                case Restarted(saved=False):
                    last = None
                case Struck() if last is not None and event.node == last.node:
                    struck = event
                case Moved():
                    moves.append(event)
                case Committed():
                    if last is not None and event.epoch != last.epoch:
                        kept = (struck or last).at - LATE_COMMITS - SEEN_LATE
                        last = max((one for one in seen if one.at <= kept), key=lambda one: one.offset, default=None)
                        seen, struck = [], None
                    seen.append(event)
                    if last is not None and event.offset < last.offset:
                        allowed = [move for move in moves if move.offset <= event.offset]
                        if not allowed:
                            text = (
                                f"{walk.group.group} went from {last.offset} to {event.offset} in {_name(walk.queue)}"
                            )
                            yield Finding("moved back", text, (last, event))
                            break
                        moves.remove(allowed[0])
                        seen = [event]  # the next master need not have what was committed before the move
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
    lost, invented, doubled, early, two_values, untried, out_of_order, overtaken, deposed, gaps, unlike, moved_back,
    ahead,
]  # fmt: skip


def main() -> int:
    events = read_journals(Path(sys.argv[1]))
    findings = check(events)
    print(*findings, sep="\n")
    print(Timeline(events).figures(), dict(Counter(finding.kind for finding in findings)))
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
