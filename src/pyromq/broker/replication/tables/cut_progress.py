"""What a slave does with its own progress before its log is cut: nothing may count that the log does not show any more.

A broker that was master has delivered delayed messages and ended transactions at the end of its log. Where that end is
cut off, other copies of it never had them, and the messages wait again.
"""

from __future__ import annotations

import logging

from pyromq.broker.delay.levels.schedule_recovery import without_deliveries
from pyromq.broker.tables.all_tables import Tables
from pyromq.broker.tables.delay_offsets import DelayProgress
from pyromq.broker.transactions.half_messages import QUEUE
from pyromq.errors import StoreError
from pyromq.protocol.messages.record import decode_messages
from pyromq.protocol.names import (
    TOPIC_GROUP_SEPARATOR,
    TRANSACTION_GROUP,
    TRANSACTION_HALF_TOPIC,
    TRANSACTION_OP_TOPIC,
)
from pyromq.store.files import OsFiles
from pyromq.store.index.pending_table import PendingTable
from pyromq.store.message_store import MessageStore

logger = logging.getLogger(__name__)


class CutProgress:
    """The progress of delay levels, timer and transactions; each change is durable on return, before the log is cut."""

    def __init__(self, tables: Tables, store: MessageStore, files: OsFiles | None = None) -> None:
        self._tables = tables
        self._store = store
        self._files = files

    async def set_back(self, end: int) -> None:
        """Set back what counts records from an offset of the log on; raises StoreError if that cannot be saved."""
        delays = self._tables.delays
        kept = without_deliveries(self._store, delays.saved, end)
        if kept.offsets != delays.saved.offsets:
            logger.info("delay progress set back before=%s now=%s", delays.saved.offsets, kept.offsets)
        delays.save(kept)
        self._set_back_transactions(end)
        await self._save()

    async def forget(self) -> None:
        """Begin anew, with an empty log."""
        self._tables.delays.save(DelayProgress({}))
        self._commit_transactions(0)
        await self._save()

    def _set_back_transactions(self, end: int) -> None:
        """Open the half messages again that were settled in what is cut off, and all behind the first of them."""
        settled = []
        for physical_offset, _, _, _, _, _, topic, _ in self._store.walk(end):
            if topic == TRANSACTION_OP_TOPIC.encode():
                body = decode_messages(self._store.read(physical_offset) or b"", check_crc=False)[0].stored_body
                settled += [int(body)] if body.isdigit() else []
        committed = self._tables.offsets.get(TRANSACTION_GROUP, TRANSACTION_HALF_TOPIC, QUEUE) or 0
        if settled and min(settled) < committed:
            self._commit_transactions(min(settled))

    def _commit_transactions(self, half_offset: int) -> None:
        offsets = self._tables.offsets
        if offsets.get(TRANSACTION_GROUP, TRANSACTION_HALF_TOPIC, QUEUE) is not None:
            rows = {TRANSACTION_HALF_TOPIC: {QUEUE: half_offset}, TRANSACTION_OP_TOPIC: {QUEUE: 0}}
            group = TOPIC_GROUP_SEPARATOR + TRANSACTION_GROUP
            offsets.adopt({topic + group: row for topic, row in rows.items()}, ())

    async def _save(self) -> None:
        PendingTable(self._store.config.root, self._files).reset()  # the timer makes it again from the log
        self._tables.offsets.save_if_changed()
        if not (await self._tables.delays.saver.finish() and await self._tables.offsets.saver.finish()):
            raise StoreError("the log is not cut: delay or transaction progress could not be saved")
