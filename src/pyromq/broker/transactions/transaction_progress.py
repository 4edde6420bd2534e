"""TransactionProgress: saves how far the two queues are settled, as committed offsets of CID_RMQ_SYS_TRANS.

What is saved must never be ahead of the log: after a power cut it would hide half messages whose op records or copies
are lost. An offset is therefore committed only when everything written before it was noted is durable.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from pyromq.broker.messages.acknowledgements import Acknowledgements
from pyromq.broker.messages.durability import Durability
from pyromq.broker.tables.consumer_offsets import ConsumerOffsets
from pyromq.broker.transactions.half_messages import QUEUE
from pyromq.broker.transactions.transaction_ledger import TransactionLedger
from pyromq.clock import Clock
from pyromq.protocol.names import TRANSACTION_GROUP, TRANSACTION_HALF_TOPIC, TRANSACTION_OP_TOPIC
from pyromq.remoting.ticker import Ticker
from pyromq.store.message_store import MessageStore

SAVE_PERIOD: Final = 1.0
_WHO: Final = "the broker"


class _NotedTransactions(NamedTuple):
    low: int
    op_low: int
    log_end: int


class TransactionProgress:
    """Commits the two offsets of the ledger when they are durable."""

    def __init__(
        self,
        store: MessageStore,
        offsets: ConsumerOffsets,
        ledger: TransactionLedger,
        durability: Durability,
        acknowledgements: Acknowledgements,
        clock: Clock,
    ) -> None:
        self._store = store
        self._offsets = offsets
        self._ledger = ledger
        self._durability = durability
        self._acknowledgements = acknowledgements
        self._noted: _NotedTransactions | None = None
        self._ticker = Ticker(clock, SAVE_PERIOD, self.save)

    def start(self) -> None:
        """Start to save every second."""
        self._ticker.start()

    def stop(self) -> None:
        """Save what is durable and stop."""
        self._ticker.stop()
        self.save()

    def save(self) -> bool:
        """Commit the noted offsets if they are durable by now, then note the current ones."""
        if self._noted is not None and self._durability.flushed_end >= self._noted.log_end:
            self._commit(self._noted)
            self._noted = None
        if self._noted is None:
            self._ledger.advance()
            low, op_low = self._ledger.low, self._ledger.op_low
            if self._store.has_pending:
                self._acknowledgements.then(lambda stored: self._note(low, op_low) if stored else None)
            else:
                self._note(low, op_low)
        return True

    def _note(self, low: int, op_low: int) -> None:
        self._noted = _NotedTransactions(low, op_low, self._store.max_physical_offset)

    def _commit(self, noted: _NotedTransactions) -> None:
        if noted.low or noted.op_low:  # else a broker without transactions would show the group
            self._offsets.commit(TRANSACTION_GROUP, TRANSACTION_HALF_TOPIC, QUEUE, noted.low, _WHO)
            self._offsets.commit(TRANSACTION_GROUP, TRANSACTION_OP_TOPIC, QUEUE, noted.op_low, _WHO)
