"""History: what a store says of itself when its broker starts. Whose messages it holds, how it was left, who copied it.

load      before the store is opened: how the last run ended
settle    once it is open: the epochs, and what another program wrote. A master that may have lost something takes
          it back from its slaves first
finish    at a clean stop
"""

from __future__ import annotations

from contextlib import suppress

from pyromq.broker.config.broker_config import BrokerConfig
from pyromq.broker.replication.epochs import EpochFile
from pyromq.broker.replication.last_run import LastRun
from pyromq.broker.replication.rescue.known_slaves import KnownSlaves
from pyromq.broker.replication.rescue.lost_tail import Doubt, LostTail
from pyromq.clock import Clock
from pyromq.errors import StoreClosed, StoreError
from pyromq.store.files import OsFiles
from pyromq.store.message_store import MessageStore


class History:
    """The files beside a log that tell where it comes from."""

    def __init__(self, config: BrokerConfig, clock: Clock, files: OsFiles | None = None) -> None:
        root = config.store.root
        self.epochs = EpochFile(root, files)
        """Whose messages the log holds."""
        self.slaves = KnownSlaves(root, files)
        """Who copied it."""
        self.last_run = LastRun(root, files)
        """How it was left."""
        self.may_have_tail = False
        """Whether the log may have messages that no other has, and that a new master has cut off."""
        self._config = config
        self._clock = clock

    def load(self) -> None:
        """Look at how the last run ended; raises OSError."""
        self.last_run.load()

    async def settle(self, store: MessageStore, address: str, *, is_master: bool) -> None:
        """Find out whose messages the log holds; a master that may have lost some asks its slaves."""
        self.epochs.load()
        self.slaves.load()
        end = store.max_physical_offset
        foreign_start = self.last_run.foreign_start(end)
        if foreign_start is not None:
            self.epochs.break_off(foreign_start)
        self.may_have_tail = self.epochs.is_led_here
        self.last_run.begin(store.waits_for_flush, end)
        if is_master:
            await self._take_back_tail(store, address)

    async def _take_back_tail(self, store: MessageStore, address: str) -> None:
        doubt = Doubt.NONE if self.last_run.was_clean else Doubt.LITTLE
        if not self.last_run.is_intact(store.waits_for_flush):
            doubt = Doubt.LOST
        if doubt is not Doubt.NONE or self.slaves.addresses:
            tail = LostTail(self._config, self._clock, store, self.epochs, self.slaves)
            await tail.take_back(address, doubt)

    def finish(self, store: MessageStore) -> None:
        """Record where the log ends; a store that has failed does not know."""
        if not store.writable and isinstance(store.refusal(), StoreClosed):
            return
        with suppress(StoreError):
            store.flush()
            self.last_run.finish(store.max_physical_offset)
