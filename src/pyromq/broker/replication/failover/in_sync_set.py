"""The in-sync set, as its leader keeps it: who has to have a message before it is acknowledged.

    written   the set as etcd has it; the leader is a member of it
    joining   slaves that are nearly there, each with the end of the log when it began to be waited for
    proposed  what the leader wants the set to be, while that is being written or its fate is unknown

All of them count. One who joins is waited for from the beginning; the change is written once it has all that was in the
log then. One who leaves is waited for until the change is written. So whoever etcd names as a member has every message
that was ever acknowledged: any member can be elected, and nobody else.

A member leaves if it is silent, or if it falls behind: sends would wait for it, each until its time is up. It joins if
it is near, and quick: what is in the log now is there within a second, and it follows the tables too. Before a handover
whoever lags at all leaves.

Nothing here waits, sends or reads a clock: it is told what happens, and asked.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from pyromq.broker.messages.durability import Copies
from pyromq.store.write.visibility import EVERYTHING

OUT_AFTER: Final = 2.0
"""Seconds without a confirmation of this epoch after which a member is proposed to leave."""
FIRST_PATIENCE: Final = 0.7
"""The same, just after the election: the old master is usually dead."""
FRESH: Final = 1.0
"""How recent confirmations must be to stand in for the lease."""
BEHIND_AFTER: Final = 3.0
"""Seconds after which a member is proposed to leave that still lacks what was in the log then."""
QUICK: Final = 1.0
"""Seconds in which a slave that joins must have what was in the log before."""
NEAR: Final = 1 << 20
"""How many bytes a slave may lack that begins to join: with more, sends would wait for it to catch up."""
_NEVER: Final = float("-inf")


class _Mark(NamedTuple):
    """Where the log ended at a time; a slave reaches it later."""

    end: int
    since: float


class InSyncSet:
    """The set of one epoch, from the election of its leader on."""

    def __init__(self, me: str, members: Iterable[str], now: float) -> None:
        """`members` are store ids, as etcd has them after the election; `me` is one of them."""
        self.me = me
        self.written = frozenset(members) | {me}
        self.proposed: frozenset[str] | None = None
        self._joining: dict[str, int] = {}
        self._ends: dict[str, int] = {}
        self._marks: dict[str, _Mark] = {}
        self._with_tables: set[str] = set()
        self._took: dict[str, float] = {}
        """In which time each slave reached its last mark."""
        self._heard: dict[str, float] = dict.fromkeys(self.written, now - OUT_AFTER + FIRST_PATIENCE)

    @property
    def others(self) -> frozenset[str]:
        """Who has to confirm besides the leader."""
        return (self.written | self._joining.keys() | (self.proposed or frozenset())) - {self.me}

    # --- what happens

    def confirmed(self, member: str, end: int, now: float, *, has_tables: bool = True) -> None:
        """A slave has confirmed, for this epoch, that it has the log up to an end; it may not have the tables yet."""
        self._ends[member] = max(end, self._ends.get(member, 0))
        self._heard[member] = now
        (self._with_tables.add if has_tables else self._with_tables.discard)(member)

    def gone(self, member: str) -> None:
        """The connection to a slave has ended. What it had counts; it has to be heard again to stay."""
        self._heard[member] = _NEVER
        self._marks.pop(member, None)
        self._took.pop(member, None)

    def propose(self, log_end: int, now: float) -> frozenset[str] | None:
        """Return what the set should be, to be written now; None if it is right, or a change is under way."""
        self._look_who_lags(log_end, now)
        if self.proposed is not None:
            return None
        self._join(log_end, now)
        arrived = {member for member, mark in self._joining.items() if self._ends[member] >= mark}
        stay = {member for member in self.written if member == self.me or self._keeps_up(member, now)}
        wanted = frozenset(stay | arrived)
        if wanted == self.written:
            return None
        self.proposed = wanted
        for member in arrived:
            del self._joining[member]
        return wanted

    def propose_without(self, slow: frozenset[str]) -> frozenset[str] | None:
        """Return the set without some members, to be written now; None if they are in none, or a change is under way.

        For a handover, which waits for everybody that counts, twice: those who join are not waited for any more either.
        """
        if self.proposed is not None:
            return None
        self._joining.clear()
        wanted = self.written - (slow - {self.me})
        if wanted == self.written:
            return None
        self.proposed = wanted
        return wanted

    def settled(self, members: Iterable[str]) -> None:
        """Etcd has this set now: the change was written, or was not and this one was found there."""
        self.written = frozenset(members)
        self.proposed = None

    def _join(self, log_end: int, now: float) -> None:
        self._joining = {member: mark for member, mark in self._joining.items() if self._keeps_up(member, now)}
        known = self.written | self._joining.keys()
        for member, end in self._ends.items():
            is_quick = end >= log_end or self._took.get(member, QUICK + 1) <= QUICK
            is_near = log_end - end <= NEAR and member in self._with_tables
            if member not in known and is_near and is_quick and self._keeps_up(member, now):
                self._joining[member] = log_end

    def _look_who_lags(self, log_end: int, now: float) -> None:
        """Note when each slave has reached its mark, and give it the next one."""
        for member, end in self._ends.items():
            mark = self._marks.get(member)
            if mark is None or end >= mark.end:
                if mark is not None:
                    self._took[member] = now - mark.since
                self._marks[member] = _Mark(log_end, now)
            elif now - mark.since > QUICK:
                self._took.pop(member, None)

    def _keeps_up(self, member: str, now: float) -> bool:
        mark = self._marks.get(member)
        return self._is_heard(member, now) and (mark is None or now - mark.since <= BEHIND_AFTER)

    def _is_heard(self, member: str, now: float) -> bool:
        return now - self._heard.get(member, _NEVER) <= OUT_AFTER

    # --- what follows

    def copies(self, end: int) -> Copies:
        """Return whether every member has the log up to an end; a leader that is alone has nobody to copy to."""
        if not self.others:
            return Copies.MISSING
        return Copies.COMPLETE if self.common_end >= end else Copies.PENDING

    @property
    def common_end(self) -> int:
        """Up to where every other member has the log; without bound if there is none."""
        return min((self._ends.get(member, 0) for member in self.others), default=EVERYTHING)

    def lacking(self, end: int) -> frozenset[str]:
        """Return who counts and has not confirmed that it has the log up to an end."""
        return frozenset(member for member in self.others if self._ends.get(member, 0) < end)

    def heirs(self, now: float) -> list[str]:
        """Return the other members that are there, whoever has most of the log first: one of them can lead next."""
        there = [member for member in self.written - {self.me} if self._is_heard(member, now)]
        return sorted(there, key=lambda member: (-self._ends.get(member, 0), member))

    def know_this_epoch(self, members: Iterable[str]) -> bool:
        """Return True if all of these have confirmed something in this epoch: then it is on their disks."""
        return all(member == self.me or member in self._ends for member in members)

    def stands_without_lease(self, now: float) -> bool:
        """Return True if every member, and there is one, has confirmed this epoch just now: nobody else is elected."""
        return bool(self.others) and all(now - self._heard.get(member, _NEVER) <= FRESH for member in self.others)
