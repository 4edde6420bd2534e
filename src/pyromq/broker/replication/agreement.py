"""Before a slave follows: its log is cut to the history that it shares with its master, or it begins anew.

    shared epochs        cut what lies behind the last common byte; it goes to quarantine/, and one line names it
    no shared epoch      compare the last record: the same, and the logs are taken for one; else an operator decides
    master begins later  what this slave has was deleted there long ago: begin anew, never with a hole

Apache's masters know no epochs, and a first report of 0 gets their last file only. So an empty slave reports where the
master's log begins; if that is 0 it fetches the first record by request 33 and reports its end.
"""

from __future__ import annotations

import logging
from typing import Final

from pyromq.broker.parts import Parts
from pyromq.broker.replication.epochs import EpochFile, common_end
from pyromq.broker.replication.master_calls import MasterCalls
from pyromq.broker.replication.tables.cut_progress import CutProgress
from pyromq.errors import ReplicationRefused
from pyromq.protocol.bodies.replication import ReplicationState
from pyromq.protocol.messages.record import MESSAGE_MAGIC
from pyromq.store.message_store import MessageStore

logger = logging.getLogger(__name__)

_MAGIC: Final = slice(4, 8)


class Agreement:
    """Brings a slave's store to a state from which it can follow."""

    def __init__(self, store: MessageStore, epochs: EpochFile, parts: Parts) -> None:
        self._store = store
        self._epochs = epochs
        self._offsets = parts.offsets
        self._progress = CutProgress(parts.tables, store, parts.files)

    @property
    def is_empty(self) -> bool:
        """Whether the log holds nothing."""
        return self._store.min_physical_offset == self._store.max_physical_offset

    # --- with a master of ours

    async def with_ours(self, state: ReplicationState, calls: MasterCalls) -> int:
        """Settle on the common history, durably, and return the first report.

        Raises ReplicationRefused where an operator has to decide, StoreError or OSError.
        """
        file_size = self._store.copied_log.file_size
        if state.file_size != file_size:
            raise ReplicationRefused(
                f"mappedFileSizeCommitLog is {state.file_size} at the master and {file_size} here: it must be the same"
            )
        if not self.is_empty:
            await self._settle(state, calls)
        self._epochs.adopt(state.epochs, state.role)
        return 0 if self.is_empty else self._store.max_physical_offset

    async def _settle(self, state: ReplicationState, calls: MasterCalls) -> None:
        first, end = self._store.min_physical_offset, self._store.max_physical_offset
        common = common_end(self._epochs.epochs, end, state.epochs, state.max_offset)
        if common is None:
            await self._compare(calls, state.min_offset, state.max_offset)
            return
        if common < max(first, state.min_offset):
            await self._begin_anew(state.min_offset, common)
        elif common < end:
            await self._cut(common)

    async def _cut(self, end: int) -> None:
        was = self._store.max_physical_offset
        await self._progress.set_back(end)
        self._store.cut(end)
        self._offsets.stay_within(self._store.next_offset)
        logger.warning("cut off what the master never had from=%d bytes=%d: it is in quarantine/", end, was - end)

    async def _begin_anew(self, master_start: int, common: int) -> None:
        logger.error(
            "this slave begins anew: the master's log begins at %d, and only what lies before %d is common to both",
            master_start,
            common,
        )
        await self._progress.forget()
        self._store.begin_anew()
        self._offsets.stay_within(self._store.next_offset)

    # --- with any master

    async def with_apaches(self, calls: MasterCalls) -> int:
        """Compare with a master that knows no epochs, and return the first report; raises as with_ours()."""
        first, end = await calls.log_range()
        if not self.is_empty:
            await self._compare(calls, first, end)
        elif end == first:
            return 0
        elif first:
            return first
        else:
            await self._take_first_record(calls)
        return self._store.max_physical_offset

    async def _compare(self, calls: MasterCalls, first: int, end: int) -> None:
        """Make sure that the last record here is the same at the master; raise ReplicationRefused if it is not."""
        mine = self._store.max_physical_offset
        if mine > end:
            raise ReplicationRefused(
                f"the log here ends at {mine} and the master's at {end}: which is right is not known"
            )
        if mine < first:
            await self._begin_anew(first, mine)
            return
        last = self._store.copied_log.last_record()
        if last is not None and await calls.record(last.physical_offset) != last.data:
            raise ReplicationRefused(
                f"the record at {last.physical_offset} is another one at the master: the logs have parted;"
                " empty this store, or the master's, to go on"
            )

    async def _take_first_record(self, calls: MasterCalls) -> None:
        record = await calls.record(0)
        if int.from_bytes(record[_MAGIC], "big") != MESSAGE_MAGIC:
            raise ReplicationRefused("the master gives no record at the start of its log")
        self._store.append_raw(0, record)
