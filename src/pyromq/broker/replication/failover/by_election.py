"""ByElection: an operator wants another master under failover. Nobody is made master past etcd: the leader resigns.

take_over    at the slave that is wanted: it asks the leader to step down in its favour, and waits to be elected.
             By force it is elected whatever it lacks, and whether the leader answers or not
step_down    at the leader: it drains, lets its set have all, and resigns, if the one that asks is in the set
"""

from __future__ import annotations

import logging
from typing import Final

from pyromq.broker.replication.epochs import EpochFile
from pyromq.broker.replication.failover.coordinator import Coordinator
from pyromq.broker.replication.handover.other_brokers import PREPARE, OtherBrokers
from pyromq.clock import Clock
from pyromq.errors import BrokerError, PyroMQError
from pyromq.protocol.bodies.replication import Promotion, SteppedDown
from pyromq.protocol.headers.replication import StepDownRequestHeader
from pyromq.store.message_store import MessageStore

logger = logging.getLogger(__name__)

_PATIENCE: Final = 10.0
"""Seconds in which a leader drains, and in which its successor is elected."""
_LOOK_PERIOD: Final = 0.01


class ByElection:
    """The handover of a broker under failover: both sides."""

    def __init__(
        self,
        coordinator: Coordinator,
        others: OtherBrokers,
        epochs: EpochFile,
        store: MessageStore,
        clock: Clock,
        role: str,
    ) -> None:
        self._coordinator = coordinator
        self._others = others
        self._epochs = epochs
        self._store = store
        self._clock = clock
        self._role = role

    async def take_over(self, *, force: bool) -> Promotion:
        """Become master in place of the present one; raise BrokerError with the reason why not."""
        coordinator = self._coordinator
        if coordinator.replicas is not None:
            raise BrokerError("this broker is master already")
        began = self._clock.monotonic()
        leader = coordinator.known.master.broker
        refusal = await self._ask(leader)
        if refusal:
            if not force:
                raise BrokerError(f"{refusal}; what this broker lacks is lost if it becomes master by force")
            logger.warning("this broker becomes master by force: %s", refusal)
            coordinator.force()
        try:
            await self._wait(began + _PATIENCE)
        finally:
            coordinator.force(wanted=False)
        current = self._epochs.current
        return Promotion(
            epoch=self._epochs.number,
            start=current.start if current is not None else 0,
            role=self._role,
            took_ms=round((self._clock.monotonic() - began) * 1000),
            is_forced=bool(refusal),
            old_master=leader,
            old_master_told=not refusal,
        )

    async def _ask(self, leader: str) -> str:
        """Ask the leader to step down; return why it does not, empty if it has."""
        if not leader:
            return self._coordinator.problem or "nobody leads, and an election is under way"
        try:
            await self._others.step_down(leader, PREPARE, patience=_PATIENCE, timeout=_PATIENCE)
        except PyroMQError as error:
            return str(error)
        return ""

    async def _wait(self, deadline: float) -> None:
        while self._coordinator.replicas is None:
            if self._clock.monotonic() > deadline:
                raise BrokerError(f"it was not elected in time: {self._coordinator.problem or 'another one leads'}")
            await self._clock.sleep(_LOOK_PERIOD)

    async def step_down(self, header: StepDownRequestHeader) -> SteppedDown:
        """Resign in favour of a member of the set; raise BrokerError with the reason why not."""
        replicas = self._coordinator.replicas
        if replicas is None:
            raise BrokerError("this broker is not master")
        if header.store not in replicas.set.written:
            raise BrokerError("the successor is not in the in-sync set and may lack acknowledged messages")
        if self._coordinator.is_away:
            raise BrokerError("etcd does not answer: nobody could be elected")
        await self._coordinator.hand_over(header.store)
        return SteppedDown(is_master=False, epoch=self._epochs.number, end=self._store.max_physical_offset)

    def close(self) -> None:
        """Nothing waits."""
