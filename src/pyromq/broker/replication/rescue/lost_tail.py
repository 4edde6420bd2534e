"""LostTail: a master asks its slaves first, before it begins an epoch: they may have more of its log.

A machine that goes down takes what was not flushed. Under SYNC_MASTER with ASYNC_FLUSH such messages were acknowledged:
a slave has them. If the master began its epoch where its own log ends now, the slave would have to cut them. So the
master takes that tail from the slave whose history goes furthest. A slave that cannot be reached is waited for
(`pyromqWaitForSlave`); then the master starts without it, because there may be only one machine left. One of Apache's
knows no epochs: if it has our last record, it is asked for those behind, one by one. After a clean stop too the slaves
are asked, without waiting: the disk may be an older one, restored from a backup.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence
from enum import Enum
from typing import Final, NamedTuple

from pyromq.broker.config.broker_config import BrokerConfig
from pyromq.broker.replication.epochs import EpochFile, common_end
from pyromq.broker.replication.master_calls import MasterCalls
from pyromq.broker.replication.rescue.known_slaves import KnownSlaves, registered_slaves
from pyromq.clock import Clock
from pyromq.errors import CorruptRecord, PyroMQError, StoreError
from pyromq.protocol.bodies.replication import Epoch, ReplicationState
from pyromq.protocol.messages.record import blank_record
from pyromq.remoting.client import RemotingClient
from pyromq.store.commit_log import BLANK_SIZE
from pyromq.store.message_store import MessageStore

logger = logging.getLogger(__name__)

_PAUSE: Final = 1.0
_SAY_AGAIN: Final = 60.0
_BLOCK: Final = 1 << 20


class Doubt(Enum):
    """What can be missing of a log."""

    NONE = "nothing: it was stopped cleanly"
    LITTLE = "nothing, though its process was killed: its machine goes on, or flushed all that was acknowledged"
    LOST = "what was not flushed"


class _Answer(NamedTuple):
    address: str
    state: ReplicationState


class LostTail:
    """Takes back what slaves have and this store lost; used once, at a start as master."""

    def __init__(
        self, config: BrokerConfig, clock: Clock, store: MessageStore, epochs: EpochFile, slaves: KnownSlaves
    ) -> None:
        self._config = config
        self._clock = clock
        self._store = store
        self._epochs = epochs
        self._slaves = slaves
        self._told: set[str] = set()

    async def take_back(self, own_address: str, doubt: Doubt) -> None:
        """Ask every slave; durable on return. If something may be lost, wait for those that cannot be reached.

        Raises StoreError.
        """
        seconds = self._config.wait_for_slave if doubt is Doubt.LOST else 0.0
        config = self._config
        async with RemotingClient(self._clock, credentials=config.own_account, tls=config.own_tls) as remoting:
            deadline = self._clock.monotonic() + seconds
            say_at = self._clock.monotonic()
            while missing := await self._ask(remoting, own_address, doubt):
                now = self._clock.monotonic()
                if now >= deadline:
                    if doubt is Doubt.LOST:
                        self._give_up(missing, seconds)
                    return
                if now >= say_at:
                    say_at = now + _SAY_AGAIN
                    logger.warning(
                        "this master may have lost messages that a slave has, and waits up to %.0f s more for %s",
                        deadline - now,
                        missing,
                    )
                await self._clock.sleep(min(_PAUSE, deadline - now))

    def _give_up(self, missing: str, seconds: float) -> None:
        logger.error(
            "this master starts without a slave that may have messages which are lost here: waited %g s for %s;"
            " what only that slave has, it will cut when it follows",
            seconds,
            missing,
        )

    async def _known(self, remoting: RemotingClient, doubt: Doubt) -> dict[int, str]:
        """Return whom to ask. Where slaves have to know a secret, only those that did count."""
        known = self._slaves.addresses
        if doubt is not Doubt.NONE and not self._config.ha_secret:
            return known | await registered_slaves(self._config, remoting)
        return known

    async def _ask(self, remoting: RemotingClient, own_address: str, doubt: Doubt) -> str:
        """Ask all slaves, take what the best one has, and return which cannot be reached; empty if none."""
        known = await self._known(remoting, doubt)
        answers, foreign, missing = [], [], []
        for broker_id, address in sorted(known.items()):
            if address == own_address:
                continue
            try:
                state = await MasterCalls(remoting, address).state()
            except PyroMQError as error:
                missing.append(f"slave {broker_id} at {address} ({error})")
                continue
            if state is None:
                foreign.append(address)
            elif self._is_of_use(state, address):
                answers.append(_Answer(address, state))
        if answers:
            best = max(answers, key=lambda one: (one.state.epochs[-1].number, one.state.max_offset))
            missing += await self._take(self._pieces(best.state, MasterCalls(remoting, best.address)), best.address)
        for address in foreign:
            missing += await self._take(self._records(MasterCalls(remoting, address), address), address)
        return ", ".join(missing)

    def _is_of_use(self, state: ReplicationState, address: str) -> bool:
        """Return True if a broker's log continues the one here; say so if it has gone another way."""
        end = self._store.max_physical_offset
        if state.name != self._config.name or not state.min_offset <= end < state.max_offset:
            return False
        if state.is_master:
            self._tell(f"the broker at {address} is master of {state.name} too: stop one of both")
            return False
        if state.file_size != self._store.copied_log.file_size:
            return False
        if is_continued(self._epochs.epochs, end, state.epochs, state.max_offset):
            return True
        self._tell(f"the log at {address} is longer, but does not continue the one here: it followed another master")
        return False

    def _tell(self, problem: str) -> None:
        if problem not in self._told:  # one line, not one for every attempt
            self._told.add(problem)
            logger.error("%s", problem)

    async def _take(self, pieces: AsyncIterator[bytes], address: str) -> list[str]:
        """Append what a slave gives; return that it could not be reached to the end, if so."""
        store, start = self._store, self._store.max_physical_offset
        try:
            async for piece in pieces:
                store.append_raw(store.received_offset, piece)
        except CorruptRecord as error:
            logger.error("the copy of the slave at %s is damaged: %s", address, error)
        except StoreError:
            raise
        except PyroMQError as error:
            return [f"the slave at {address} ({error})"]
        finally:
            self._note_taken(start, address)
        return []

    async def _pieces(self, state: ReplicationState, calls: MasterCalls) -> AsyncIterator[bytes]:
        """Yield what a slave of ours has behind the end here."""
        self._adopt(state)
        while self._store.received_offset < state.max_offset:
            piece = await calls.read_log(self._store.received_offset, _BLOCK)
            if not piece:
                return
            yield piece

    async def _records(self, calls: MasterCalls, address: str) -> AsyncIterator[bytes]:
        """Yield the records that a slave of Apache's has behind the last one here, which it must have too."""
        last, file_size = self._store.copied_log.last_record(), self._store.copied_log.file_size
        if last is None:
            return
        if await calls.record(last.physical_offset) != last.data:
            self._tell(
                f"the log at {address} does not continue the one here:"
                f" its record at {last.physical_offset} is another one"
            )
            return
        while True:
            position = self._store.max_physical_offset
            record, room = await calls.record(position), file_size - position % file_size
            if not record and len(await calls.record(position + room)) + BLANK_SIZE > room:
                record = blank_record(room).ljust(room, b"\0")  # the next one did not fit into this file
            if not record:
                return
            yield record

    def _adopt(self, state: ReplicationState) -> None:
        """Take over the epochs first: a crash then leaves a copy that is not whole, and the next start goes on."""
        try:
            self._epochs.adopt(state.epochs)
        except OSError as error:
            raise StoreError(f"cannot save the epochs: {error}") from error

    def _note_taken(self, start: int, address: str) -> None:
        end = self._store.max_physical_offset
        if end == start:
            return
        self._store.flush()
        for record in self._store.walk(start):
            topic, queue_id = record[6].decode("utf-8", "replace"), record[2]
            self._store.found_topics[topic] = max(self._store.found_topics.get(topic, 0), queue_id + 1)
        logger.warning(
            "took back what was lost here from the slave at %s from=%d bytes=%d", address, start, end - start
        )


def is_continued(mine: Sequence[Epoch], my_end: int, theirs: Sequence[Epoch], their_end: int) -> bool:
    """Return True if another log holds all of this one, and more."""
    return their_end > my_end == common_end(mine, my_end, theirs, their_end)
