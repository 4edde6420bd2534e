"""A broker with a fault: the campaigns that find nothing wrong have to find these.

python -m tests.faults.actors.planted FAULT[,FAULT…] broker …

    slow link       not wrong: what a slave is sent arrives slowly, and what is under way is lost with the connection
    own machine     not wrong: its boot and its date are those of a machine of its own (`machine.py`)
    confirms early  a slave confirms before it has
    waits for one   a master waits for one of its slaves, not for all of the set; some are half a second behind
    lost epoch      the epoch of an elected master is not stored
    late set        a master waits no more for one that leaves the set, and tells etcd later
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Any

from pyromq.broker.replication import follower as follower_module
from pyromq.broker.replication.epochs import EpochFile
from pyromq.broker.replication.failover.coordinator import Coordinator
from pyromq.broker.replication.failover.in_sync_set import InSyncSet
from pyromq.broker.replication.follower import Follower
from pyromq.protocol.bodies.replication import Epoch
from pyromq.protocol.ha import Transfer
from pyromq.store.write.visibility import EVERYTHING
from tests.faults.actors import machine

SLOW_LINK, OWN_MACHINE = "slow link", "own machine"
CONFIRMS_EARLY, WAITS_FOR_ONE, LOST_EPOCH, LATE_SET = "confirms early", "waits for one", "lost epoch", "late set"
FAULTS = (CONFIRMS_EARLY, WAITS_FOR_ONE, LOST_EPOCH, LATE_SET)
LAG = 0.5
SLOW_BYTES, SLOW_PAUSE = 16 << 10, 0.4
LATE = 3.0


def program(*faults: str) -> tuple[str, ...]:
    """Return what runs a broker with these faults, as arguments of Python."""
    return ("-m", "tests.faults.actors.planted", ",".join(faults))


def _delay_transfers(seconds: float) -> None:
    """Have what a slave is sent arrive later, and be lost if the connection ends before."""
    transfers: Any = vars(follower_module)["_Transfers"]
    arrived = transfers.next

    async def late(self: Any) -> list[Transfer]:
        batch: list[Transfer] = await arrived(self)
        await asyncio.sleep(seconds)
        reader = self._reader
        return [] if reader._eof or reader.exception() else batch

    transfers.next = late


def slow_link() -> None:
    vars(follower_module)["_READ_SIZE"] = SLOW_BYTES
    _delay_transfers(SLOW_PAUSE)


def confirms_early() -> None:
    append, confirmed = Follower._append, vars(Follower)["confirmed"].fget
    claimed: dict[Follower, int] = {}

    def claim_first(self: Follower, transfers: list[Transfer]) -> None:
        ends = [transfer.physical_offset + len(transfer.body) for transfer in transfers if transfer.body]
        claimed[self] = max([claimed.get(self, 0), *ends])
        self._report()
        following = self._transfers

        def later() -> None:
            if self._transfers is following:  # else it is lost with the connection
                append(self, transfers)

        asyncio.get_running_loop().call_later(LAG, later)

    def what_it_claims(self: Follower) -> int:
        had: int = confirmed(self)
        return max(had, claimed.get(self, 0)) if self._transfers is not None else had

    _patch(Follower, "_append", claim_first)
    _patch(Follower, "confirmed", property(what_it_claims))


def waits_for_one() -> None:
    def most_of_any(self: InSyncSet) -> int:
        return max((self._ends.get(member, 0) for member in self.others), default=EVERYTHING)

    _patch(InSyncSet, "common_end", property(most_of_any))
    if int(_setting("brokerId")) > 1:  # one that is quick, and others that are half a second behind
        _delay_transfers(LAG)


def lost_epoch() -> None:
    begin = EpochFile.begin

    def forget(self: EpochFile, start: int, at_least: int = 0, *, must_save: bool = False) -> Epoch:
        save = self._save
        self._save = lambda epochs, led="", role=None: _remember(self, epochs, led)  # type: ignore[method-assign]
        try:
            return begin(self, start, at_least, must_save=must_save)
        finally:
            self._save = save  # type: ignore[method-assign]

    _patch(EpochFile, "begin", forget)


def _remember(file: EpochFile, epochs: Any, led: str) -> None:
    file._content.epochs, file._content.led = list(epochs), led


def late_set() -> None:
    change = Coordinator._change_set

    async def settle_first(self: Coordinator, view: Any, leader: Any, replicas: Any) -> None:
        if self._wanted is None:
            wanted = replicas.set.propose(self._store.max_physical_offset, self._clock.monotonic())
            if wanted is not None:
                replicas.set.settled(wanted)
                replicas.look()
                self._wanted, self._set_revision = wanted, view.set_revision
                vars(self)["told_at"] = self._clock.monotonic() + LATE
        elif self._clock.monotonic() > vars(self)["told_at"]:
            await change(self, view, leader, replicas)

    _patch(Coordinator, "_change_set", settle_first)


def _setting(name: str) -> str:
    return next(word.partition("=")[2] for word in sys.argv if word.startswith(f"{name}="))


def _patch(owner: type, name: str, value: object) -> None:
    setattr(owner, name, value)


PLANTS: dict[str, Callable[[], None]] = {
    SLOW_LINK: slow_link,
    OWN_MACHINE: machine.be,
    CONFIRMS_EARLY: confirms_early,
    WAITS_FOR_ONE: waits_for_one,
    LOST_EPOCH: lost_epoch,
    LATE_SET: late_set,
}


if __name__ == "__main__":
    from pyromq.cli.main import main

    for name in sys.argv.pop(1).split(","):
        PLANTS[name]()
    main()
