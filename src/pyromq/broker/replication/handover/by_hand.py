"""ByHand: masters change because an operator says so. The package's docstring has the steps, and what if one fails."""

from __future__ import annotations

import asyncio

from pyromq.broker.parts import Parts
from pyromq.broker.replication.epochs import EpochFile
from pyromq.broker.replication.follower import Follower
from pyromq.broker.replication.ha_server import HaServer
from pyromq.broker.replication.handover.other_brokers import OtherBrokers
from pyromq.broker.replication.handover.role_owner import RoleOwner
from pyromq.broker.replication.handover.stepping_down import SteppingDown
from pyromq.broker.replication.handover.taking_over import TakingOver
from pyromq.broker.replication.replication_requests import ReplicationView
from pyromq.errors import BrokerError
from pyromq.protocol.bodies.replication import Promotion, SteppedDown
from pyromq.protocol.headers.replication import StepDownRequestHeader
from pyromq.store.message_store import MessageStore


class ByHand:
    """The handover of a broker without failover: both sides, one change at a time."""

    def __init__(
        self,
        broker: RoleOwner,
        parts: Parts,
        store: MessageStore,
        epochs: EpochFile,
        server: HaServer,
        follower: Follower,
        others: OtherBrokers,
        view: ReplicationView,
    ) -> None:
        self._turn = asyncio.Lock()
        self._taking_over = TakingOver(broker, parts, store, epochs, follower, others, view, self._turn)
        self._stepping_down = SteppingDown(broker, parts, store, epochs, server, follower, others, self._turn)

    async def take_over(self, *, force: bool) -> Promotion:
        """Become master in place of the present one; raise BrokerError with the reason why not."""
        async with self._turn:
            if self._stepping_down.successor is not None:
                raise BrokerError("this broker is about to hand over to another one")
            return await self._taking_over.take_over(force=force)

    async def step_down(self, header: StepDownRequestHeader) -> SteppedDown:
        """Hear of a successor, and make room for it; raise BrokerError with the reason why not."""
        async with self._turn:
            return await self._stepping_down.hear(header)

    def close(self) -> None:
        """Wait for nobody and tell nobody any more."""
        self._taking_over.close()
        self._stepping_down.close()
