"""Reads of pulls at random, as a PullPass answers them, and as the plain lane does that notes them in Python."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import cast

from pyromq.lane.pull_passes import NewPullPass, QuickNote
from pyromq.lane.pull_serving import LogPlace, plain_serve
from tests.lane.pull_desk import Desk

KEY = "orders@billing"


class Notes:
    """Committed offsets, what has changed of them, and counts."""

    def __init__(self, seed: int) -> None:
        chance = Random(seed)
        rows: list[dict[int, int] | None] = [None, {}, {1: 7}, {0: 0}, {0: 1 << 20}, {0: 1 << 39}]
        row = chance.choice(rows)
        self.table: dict[str, dict[int, int]] = {} if row is None else {KEY: dict(row)}
        self.changes = SimpleNamespace(rows=chance.choice(({}, {KEY: {2: 5}}, {"other": {0: 1}})))
        self.fresh = set(chance.choice(((), (KEY,), ("other",))))
        self.told: list[str] = []
        self.count = SimpleNamespace(messages=3, bytes=1 << 40, calls=0, read_ms=0.5)
        self.longest_get_ms = chance.choice((0.0, 1e9))
        self.commits, self.is_forward = chance.random() < 0.8, chance.random() < 0.3

    def note(self, key: str) -> None:
        self.told.append(key)
        self.fresh.add(key)

    def quick_note(self) -> QuickNote:
        stats, count = self, self.count
        return QuickNote(self, self, self, self.fresh, KEY, 0, self.commits, self.is_forward, stats, count)

    def note_pull(self, commit_offset: int, end: int, messages: int, size: int) -> bool:
        """Note a pull as a broker does, but leave a commit that is no mere step forward."""
        if self.commits and not (self.is_forward and commit_offset > end):
            before = self.table.get(KEY, {}).get(0)
            if before is None or commit_offset < before:
                return False
            if commit_offset > before:
                self.table[KEY][0] = commit_offset
                self.changes.rows.setdefault(KEY, {})[0] = commit_offset
                if KEY not in self.fresh:
                    self.note(KEY)
        self.count.messages += messages
        self.count.bytes += size
        self.count.calls += 1
        return True

    def state(self) -> object:
        """Return all that was noted, but for times."""
        count = self.count
        return self.table, self.changes.rows, self.fresh, self.told, count.messages, count.bytes, count.calls


class PassDesk(Desk):
    """Where the pulls of one read are served; signed ones are left alone by a pass."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.notes = Notes(seed)
        self.log = SimpleNamespace(place=self._place)
        self._known = {
            shape: pull._replace(note=self.notes.note_pull, quick_note=self.notes.quick_note())
            for shape, pull in self._known.items()
        }
        self.stream = b"".join(len(frame).to_bytes(4) + frame for frame in self._frames)

    def serve_plainly(self) -> tuple[int, bytes]:
        """Return how many bytes of the read the plain lane serves, and the answers."""
        served = plain_serve(
            self._frames, 0, 32, self._known, cast(LogPlace | None, self.log.place), self, self._scratch, None, 0
        )
        return sum(4 + len(frame) for frame in self._frames[: served[0]]), bytes(served[1])

    def serve_in_pass(self, new_pass: NewPullPass, cut: int) -> tuple[int, bytes]:
        """Return the same of a pass that gets the read in two pieces."""
        one = new_pass(self._known, self, self.log, self._scratch, 1 << 30)
        served, answers = one.feed(self.stream[:cut])
        found = bytes(answers)
        rest, answers = one.feed(self.stream[served:])
        assert one.end() == (self.notes.count.calls, len(found) + len(answers))
        assert one.feed(self.stream[served + rest :])[0] == 0, "it has ended"
        return served + rest, found + bytes(answers)


def pass_difference(seed: int, new_pass: NewPullPass) -> str:
    """Say what a pass does otherwise than the plain lane; nothing if they agree."""
    plain, quick = PassDesk(seed), PassDesk(seed)
    found = plain.serve_plainly(), quick.serve_in_pass(new_pass, Random(seed).randint(0, len(quick.stream)))
    if found[0] != found[1]:
        return f"{found[0]!r} and {found[1]!r}"
    states = plain.notes.state(), quick.notes.state()
    return "" if states[0] == states[1] else f"{states[0]} and {states[1]}"
