"""TakingOver: a slave that becomes master, with its master's help or by force."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from pyromq.broker.parts import Parts
from pyromq.broker.replication.epochs import EpochFile
from pyromq.broker.replication.follower import Follower
from pyromq.broker.replication.handover.other_brokers import DONE, FOLLOW, GIVE_UP, PREPARE, OtherBrokers
from pyromq.broker.replication.handover.role_owner import RoleOwner
from pyromq.broker.replication.replication_requests import ReplicationView
from pyromq.errors import BrokerError, PyroMQError, RemotingError, ReplicationRefused
from pyromq.protocol.bodies.replication import LastFailover, Promotion
from pyromq.store.message_store import MessageStore

logger = logging.getLogger(__name__)

PATIENCE: Final = 5.0
"""Seconds from PREPARE to DONE. A master that drains waits for slaves for `slaveTimeout`, usually 3 s."""
_MARGIN: Final = 0.5
"""Seconds before the end of that time in which a slave begins nothing."""
_LOOK_PERIOD: Final = 0.002
_TELL_PERIOD: Final = 2.0


class TakingOver:
    """The slave's side of a handover; `take_over` is called with `turn` held."""

    def __init__(
        self,
        broker: RoleOwner,
        parts: Parts,
        store: MessageStore,
        epochs: EpochFile,
        follower: Follower,
        others: OtherBrokers,
        view: ReplicationView,
        turn: asyncio.Lock,
    ) -> None:
        self._broker = broker
        self._clock = parts.clock
        self._register = parts.register  # again: a master that did not know better may have taken its place
        self._store = store
        self._epochs = epochs
        self._follower = follower
        self._others = others
        self._view = view
        self._turn = turn
        self._telling: asyncio.Task[None] | None = None

    def close(self) -> None:
        """Tell nobody any more."""
        if self._telling is not None:
            self._telling.cancel()

    async def take_over(self, *, force: bool) -> Promotion:
        """Become master in place of the present one; raise BrokerError with the reason why not."""
        if self._broker.is_master:
            raise BrokerError("this broker is master already")
        began = self._clock.monotonic()
        master, behind, untold, how = self._follower.master.broker, self._follower.lag, list[str](), "handover"
        try:
            await self._be_handed_over(master)
        except ReplicationRefused as error:
            if not force:
                raise BrokerError(f"{error}; {self._loss()}") from error
            logger.warning("this broker becomes master by force: %s; %s", error, self._loss())
            how, untold = "forced", await self._seize(master)
        took_ms = round((self._clock.monotonic() - began) * 1000)
        number = self._epochs.number
        self._view.last_failover = LastFailover(at_ms=self._clock.now_ms(), took_ms=took_ms, epoch=number, how=how)
        return Promotion(
            epoch=number,
            start=self._epochs.current.start if self._epochs.current is not None else 0,
            role=self._broker.acting_role,
            took_ms=took_ms,
            is_forced=how == "forced",
            old_master=master,
            old_master_told=await self._tell(master, number),
            behind_bytes=behind if how == "forced" else 0,
            untold=untold,
        )

    def _loss(self) -> str:
        """Say what a master by force would lack."""
        end, lag, silent = self._store.max_physical_offset, self._follower.lag, self._follower.silent_seconds
        heard = (
            "it has heard of no master since it started"
            if silent is None
            else (f"{lag:,} bytes less than its master had when it was last heard of, {silent:.1f} s ago")
        )
        return f"this slave has the log up to {end:,}: {heard}. What it lacks is lost if it becomes master by force"

    # --- with the master's help

    async def _be_handed_over(self, master: str) -> None:
        """Get the whole log from the master, and become master; raise ReplicationRefused, with nothing changed."""
        if not master:
            raise ReplicationRefused("no name server knows the master of this slave")
        deadline = self._clock.monotonic() + PATIENCE  # before the master's time begins
        try:
            there = await self._others.step_down(master, PREPARE, patience=PATIENCE, timeout=PATIENCE)
        except RemotingError as error:
            raise ReplicationRefused(f"the master cannot be reached: {error}") from error
        try:
            await self._wait_until_whole(there.end, deadline)
            await self._follower.stop()
            await self._become_master(there.epoch + 1, master, deadline)
        except (PyroMQError, OSError) as error:
            self._follower.start()
            await self._give_up(master)
            raise ReplicationRefused(f"the handover was given up: {error}") from error

    async def _wait_until_whole(self, end: int, deadline: float) -> None:
        while (mine := self._follower.confirmed) < end:
            self._check_time(deadline, f"the log here ends at {mine}, the master's at {end}")
            await self._clock.sleep(_LOOK_PERIOD)

    async def _become_master(self, epoch: int, master: str, deadline: float) -> None:
        await self._follower.copy_tables(master)
        self._check_time(deadline, "the tables took too long")
        await self._broker.promote(epoch, lambda: self._check_time(deadline, "the disk took too long", margin=0.0))

    def _check_time(self, deadline: float, reason: str, margin: float = _MARGIN) -> None:
        if self._clock.monotonic() > deadline - margin:
            raise ReplicationRefused(f"not within {PATIENCE:g} s: {reason}")

    async def _give_up(self, master: str) -> None:
        try:
            await self._others.step_down(master, GIVE_UP)
        except PyroMQError as error:
            logger.warning("the master at %s could not be told that the handover failed: %s", master, error)

    # --- by force

    async def _seize(self, master: str) -> list[str]:
        """Stop to confirm, have other slaves do the same, and become master; return the slaves that were not told."""
        number = self._epochs.number + 1
        await self._follower.stop()
        untold = await self._fence(master, number)
        try:
            await self._broker.promote(number)
        except (PyroMQError, OSError) as error:
            self._follower.start()
            raise BrokerError(f"this broker cannot become master: {error}") from error
        return untold

    async def _fence(self, master: str, epoch: int) -> list[str]:
        async def fence(address: str) -> str:
            try:
                await self._others.step_down(address, FOLLOW, epoch=epoch)
            except PyroMQError as error:
                logger.warning("the slave at %s was not told of its new master: %s", address, error)
                return address
            return ""

        slaves = [address for address in await self._others.addresses() if address != master]
        return [address for address in await asyncio.gather(*map(fence, slaves)) if address]

    # --- afterwards

    async def _tell(self, master: str, epoch: int) -> bool:
        """Tell the old master; go on trying if it cannot be reached."""
        if not master:
            return False
        try:
            there = await self._others.step_down(master, DONE, epoch=epoch)
        except RemotingError:
            self.close()
            self._telling = asyncio.get_running_loop().create_task(self._keep_telling(master, epoch))
            return False
        except ReplicationRefused:  # Apache's: an operator has to stop it
            return False
        if there.is_master:
            await self._yield_to(master, there.epoch)
            raise BrokerError(f"the master at {master} went back to work meanwhile, and this broker is its slave again")
        await self._register()
        return True

    async def _keep_telling(self, master: str, epoch: int) -> None:
        while True:
            await self._clock.sleep(_TELL_PERIOD)
            async with self._turn:
                if not self._broker.is_master or self._epochs.number != epoch:
                    return
                try:
                    there = await self._others.step_down(master, DONE, epoch=epoch)
                except RemotingError:
                    continue
                except PyroMQError:
                    return
                logger.info("the old master at %s was told", master)
                if there.is_master:
                    await self._yield_to(master, there.epoch)
                await self._register()
                return

    async def _yield_to(self, master: str, epoch: int) -> None:
        logger.warning("the broker at %s leads the later epoch %d: this one becomes its slave", master, epoch)
        await self._broker.demote()
