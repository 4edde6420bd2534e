"""SteppingDown: a master that makes room for its successor, and goes back to work if none comes."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from pyromq.broker.parts import Parts
from pyromq.broker.replication.epochs import EpochFile
from pyromq.broker.replication.follower import Follower
from pyromq.broker.replication.ha_server import HaServer
from pyromq.broker.replication.handover.held_requests import HeldRequests
from pyromq.broker.replication.handover.other_brokers import DONE, FOLLOW, GIVE_UP, PREPARE, OtherBrokers
from pyromq.broker.replication.handover.role_owner import RoleOwner
from pyromq.clock import TimerHandle
from pyromq.errors import BrokerError
from pyromq.protocol.bodies.replication import SteppedDown
from pyromq.protocol.headers.replication import StepDownRequestHeader
from pyromq.store.message_store import MessageStore

logger = logging.getLogger(__name__)

_LONGEST_PATIENCE: Final = 30.0
_MOST_BEHIND: Final = 8 << 20
"""Bytes that a slave may lack when its master stops taking messages: more would take too long."""


class SteppingDown:
    """The master's side of a handover; every method is called with `turn` held, but `close`."""

    def __init__(
        self,
        broker: RoleOwner,
        parts: Parts,
        store: MessageStore,
        epochs: EpochFile,
        server: HaServer,
        follower: Follower,
        others: OtherBrokers,
        turn: asyncio.Lock,
    ) -> None:
        self.successor: StepDownRequestHeader | None = None
        """For whom this broker, a master until a moment ago, waits."""
        self._broker = broker
        self._clock = parts.clock
        self._store = store
        self._epochs = epochs
        self._server = server
        self._follower = follower
        self._others = others
        self._turn = turn
        self._held = HeldRequests()
        self._timer: TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    async def hear(self, header: StepDownRequestHeader) -> SteppedDown:
        """Do what a successor says; raise BrokerError with the reason why not."""
        if header.step == PREPARE:
            await self._prepare(header)
        elif header.step == DONE:
            await self._make_room(header)
        elif header.step == FOLLOW:
            if not self._broker.is_master:
                await self._follower.leave_epochs_before(header.epoch)
        elif header.step != GIVE_UP:
            raise BrokerError(f"there is no step {header.step!r}")
        elif self.successor is not None and self.successor.store == header.store:
            await self._go_back("its successor gave up")
        return SteppedDown(
            is_master=self._broker.is_master, epoch=self._epochs.number, end=self._store.max_physical_offset
        )

    def close(self) -> None:
        """Wait for nobody any more, and have what is held handled."""
        if self._task is not None:
            self._task.cancel()
        self._end_waiting()

    # --- the steps

    async def _prepare(self, header: StepDownRequestHeader) -> None:
        if self.successor is not None:
            raise BrokerError(f"it already hands over to {self.successor.address}")
        if not self._broker.is_master:
            raise BrokerError("it is no master")
        self._check_slave(header)
        self.successor = header
        patience = min(header.patience_ms / 1000, _LONGEST_PATIENCE)
        self._timer = self._clock.call_later(patience, self._lose_patience, header)
        logger.info("this broker takes no messages: it hands over to %s", header.address)
        try:
            await self._broker.rest(self._held.hold)
        except BaseException:
            await self._go_back("its writing side could not be closed")
            raise

    def _check_slave(self, header: StepDownRequestHeader) -> None:
        links = [link for link in self._server.links if link.hello is not None and link.hello.store == header.store]
        following = [link.acknowledged for link in links if link.position is not None]
        if not following:
            raise BrokerError("this slave does not follow it")
        if (behind := self._store.max_physical_offset - max(following)) > _MOST_BEHIND:
            raise BrokerError(f"this slave is {behind:,} bytes behind: try again when it has caught up")

    async def _make_room(self, header: StepDownRequestHeader) -> None:
        """Become the slave of a broker that is master now, unless a later epoch has begun here."""
        was_master = self._broker.is_master
        if was_master and self._epochs.number > header.epoch:
            return
        await self._follower.leave_epochs_before(header.epoch)
        if was_master or self.successor is not None:
            logger.info("the broker at %s is master now, in epoch %d", header.address, header.epoch)
            await self._broker.demote(header.broker_id)
            self._end_waiting()

    async def _go_back(self, reason: str) -> None:
        """Be master again, in an epoch that is later than any that the successor may have begun."""
        logger.warning("this broker goes back to work: %s", reason)
        try:
            await self._broker.promote(self._epochs.number + 2)
        finally:
            self._end_waiting()

    def _end_waiting(self) -> None:
        self.successor = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._held.serve()

    # --- a successor that does not come

    def _lose_patience(self, header: StepDownRequestHeader) -> None:
        self._task = asyncio.get_running_loop().create_task(self._look_after(header))

    async def _look_after(self, header: StepDownRequestHeader) -> None:
        async with self._turn:
            if self.successor is not header:
                return
            state = await self._others.state(header.address)
            if state is not None and state.is_master and state.epochs and state.epochs[-1].number > self._epochs.number:
                await self._broker.demote(header.broker_id)
                self._end_waiting()
            else:
                await self._go_back(f"its successor at {header.address} did not come")
