"""A timeline: the events of a campaign's journals, arranged by value, by place, and by group and queue."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from pyromq.protocol.messages.message import MessageQueue
from tests.faults.journal import (
    SEND_OK,
    Answered,
    AnyEvent,
    Attempted,
    Buried,
    Committed,
    Deleted,
    Delivered,
    Drained,
    Event,
    Finished,
    Formed,
    Moved,
    Recalled,
    Reigned,
    Restarted,
    Stored,
    Struck,
)
from tests.faults.power_loss import without_window


class Place(NamedTuple):
    """Where a message is stored; a topic that was deleted and recreated begins another life."""

    queue: MessageQueue
    offset: int
    life: int = 0


class Walk(NamedTuple):
    """What one group did in one queue, in order of time."""

    group: Formed
    queue: MessageQueue
    life: int
    events: list[Delivered | Finished | Committed | Moved | Restarted | Struck]


class Timeline:
    """The events of a campaign, arranged for the rules of `history.py`."""

    def __init__(self, events: Iterable[AnyEvent]) -> None:
        kept = without_window(events)
        self.events = sorted(kept, key=lambda event: event.since if isinstance(event, Moved) else event.at)
        self.attempts: dict[str, Attempted] = {}
        self.answers: dict[str, Answered] = {}
        self.recalled: dict[str, Recalled] = {}
        self.groups: dict[str, Formed] = {}
        self.drained: set[str] = set()
        self.deletions: dict[str, list[Deleted]] = defaultdict(list)
        self.moves: dict[tuple[str, MessageQueue], list[Moved]] = defaultdict(list)
        self.sightings: list[Delivered | Stored | Answered] = []
        self.deliveries: dict[tuple[str, str], list[Delivered]] = defaultdict(list)
        self.ends: dict[tuple[str, str], list[Finished]] = defaultdict(list)
        self.letters: dict[tuple[str, str], Buried] = {}
        self.stored: list[Stored] = []
        self.reigns: list[Reigned] = []
        self._commits_and_moves: list[Committed | Moved | Restarted | Struck] = []
        for event in self.events:
            self._sort_in(event)
        self.places: dict[str, dict[Place, Event]] = defaultdict(dict)
        self.values: dict[Place, dict[str, Event]] = defaultdict(dict)
        self._offsets: dict[tuple[MessageQueue, int], list[int]] = {}
        self._locate()
        self.walks = self._walks()

    def _sort_in(self, event: AnyEvent) -> None:
        match event:
            case Attempted():
                self.attempts[event.value] = event
            case Answered():
                self.answers[event.value] = event
                if event.queue is not None:
                    self.sightings.append(event)
            case Delivered():
                self.sightings.append(event)
                self.deliveries[event.group, event.value].append(event)
            case Finished():
                self.ends[event.group, event.value].append(event)
            case Stored():
                self.sightings.append(event)
                self.stored.append(event)
            case Reigned():
                self.reigns.append(event)
            case Committed() | Restarted() | Struck():
                self._commits_and_moves.append(event)
            case Moved():
                self._commits_and_moves.append(event)
                self.moves[event.group, event.queue].append(event)
            case Recalled():
                self.recalled[event.value] = event
            case Formed():
                self.groups[event.group] = event
            case Deleted():
                self.deletions[event.topic].append(event)
            case Buried():
                self.letters[event.group, event.value] = event
            case Drained():
                self.drained.add(event.group)

    def _locate(self) -> None:
        offsets: dict[tuple[MessageQueue, int], set[int]] = defaultdict(set)
        for event in self.sightings:
            assert event.queue is not None
            life = self.life_of(event.value, event.queue.topic)
            if life is None:
                continue
            place = Place(event.queue, event.offset, life)
            self.places[event.value].setdefault(place, event)
            self.values[place].setdefault(event.value, event)
            offsets[event.queue, life].add(event.offset)
        self._offsets = {queue: sorted(found) for queue, found in offsets.items()}

    def _walks(self) -> list[Walk]:
        walks: dict[tuple[str, MessageQueue, int], Walk] = {}
        everything: list[Delivered | Finished | Committed | Moved | Restarted | Struck] = [
            *(event for events in self.deliveries.values() for event in events),
            *(event for events in self.ends.values() for event in events),
            *self._commits_and_moves,
        ]
        everything.sort(key=lambda event: event.since if isinstance(event, Moved) else event.at)
        for event in everything:
            if isinstance(event, Restarted | Struck):
                for walk in walks.values():
                    walk.events.append(event)
                continue
            topic = event.queue.topic
            if isinstance(event, Delivered | Finished):
                life = self.life_of(event.value, topic)
                lives = [] if life is None else [life]
            else:  # a commit says nothing of the life that it belongs to
                lives = [0] if topic not in self.deletions else []
            for life in lives:
                key = event.group, event.queue, life
                if key not in walks and event.group in self.groups:
                    walks[key] = Walk(self.groups[event.group], event.queue, life, [])
                if key in walks:
                    walks[key].events.append(event)
        return list(walks.values())

    def life_of(self, value: str, topic: str) -> int | None:
        """Return in which life of the topic a value was stored; None if a deletion was under way."""
        deletions = self.deletions.get(topic)
        if not deletions:
            return 0
        attempt, answer = self.attempts.get(value), self.answers.get(value)
        if attempt is None:
            return None
        before = sum(deletion.at < attempt.at for deletion in deletions)
        ended = answer.at if answer is not None and answer.status == SEND_OK else float("inf")
        return before if sum(deletion.since < ended for deletion in deletions) == before else None

    def offsets(self, queue: MessageQueue, life: int) -> list[int]:
        """Return the offsets of a queue at which something was seen."""
        return self._offsets.get((queue, life), [])

    def own_places(self, attempt: Attempted) -> dict[Place, Event]:
        """Return where the topic that a value was sent to has it."""
        places = self.places.get(attempt.value, {})
        return {place: event for place, event in places.items() if place.queue.topic == attempt.topic}

    def evidence(self, value: str) -> list[Event]:
        """Return what the sender knows of a value."""
        found = [self.attempts.get(value), self.answers.get(value), self.recalled.get(value)]
        return [event for event in found if event is not None]

    def _unheard(self) -> int:
        """Return how many messages were acknowledged and never came, and had a cancellation that was not answered."""
        delivered = {value for _, value in self.deliveries}
        doubtful = {value for value, recall in self.recalled.items() if not recall.is_sure} - delivered
        return sum(value in self.answers and self.answers[value].status == SEND_OK for value in doubtful)

    def figures(self) -> dict[str, int]:
        """Return counts of what happened."""
        delivered = sum(len(events) for events in self.deliveries.values())
        return {
            "sent": len(self.attempts),
            "acknowledged": sum(answer.status == SEND_OK for answer in self.answers.values()),
            "delivered": delivered,
            "repeats": delivered - len(self.deliveries),
            "failures": sum(end.result != "acknowledged" for ends in self.ends.values() for end in ends),
            "dead letters": len(self.letters),
            "commits seen": sum(isinstance(event, Committed) for event in self._commits_and_moves),
            "cancelled unheard": self._unheard(),
            "moves": sum(map(len, self.moves.values())),
            "deletions": sum(map(len, self.deletions.values())),
            "restarts": sum(isinstance(event, Restarted) for event in self._commits_and_moves),
            "reigns": len(self.reigns),
        }
