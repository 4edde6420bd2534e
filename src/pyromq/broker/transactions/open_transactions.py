"""OpenTransactions: accepts half messages and ends each of them once, however often a producer ends it.

An end writes the committed message and, right after it, the op record of the half message, in one group. If the half
message is open and was stored since this broker started, the ledger knows enough and it ends at once. Any other end
needs a search of the store first (late_ends.py).
"""

from __future__ import annotations

import logging
from typing import Final

from pyromq.broker.messages.deferred_messages import DelayedMessages, has_level, is_timed
from pyromq.broker.parts import Parts, Writing
from pyromq.broker.transactions.half_messages import (
    QUEUE,
    Identity,
    StoredHalf,
    committed_record,
    make_half,
    moved_record,
    op_record,
    read_half,
)
from pyromq.broker.transactions.transaction_ledger import TransactionLedger
from pyromq.errors import BrokerError, MessageIllegal, NoPermission, StoreError, TopicNotFound
from pyromq.protocol.headers.transactions import EndTransactionRequestHeader, TransactionState
from pyromq.protocol.messages.properties import PRODUCER_GROUP, TRANSACTION_PREPARED
from pyromq.protocol.messages.record import Record, read_head
from pyromq.protocol.names import TRANSACTION_HALF_TOPIC
from pyromq.store.results import GetStatus, PutResult

logger = logging.getLogger(__name__)

_COMMIT: Final = TransactionState.COMMIT


class OpenTransactions:
    """Accepts half messages and ends them."""

    def __init__(self, parts: Parts, writing: Writing, ledger: TransactionLedger, delayed: DelayedMessages) -> None:
        self.ledger = ledger
        self.rejects = parts.config.reject_transactions
        """Whether transactional messages are refused."""
        self.commits = self.rollbacks = 0
        self.unstored: set[Identity] = set()
        """What was committed a moment ago and is not in the index yet."""
        self.committed_since: set[Identity] | None = None
        """What was committed since the current search of the store began; None if there is no search."""
        self._store = writing.store
        self._topics = parts.topics
        self._acknowledgements = writing.acknowledgements
        self._delayed = delayed
        self._store_host = parts.store_host
        self._now_ms = parts.clock.now_ms
        self._first_own = writing.store.next_offset(TRANSACTION_HALF_TOPIC, QUEUE)

    def prepare(self, record: Record, properties: dict[str, str]) -> None:
        """Turn a transactional message into a half message, which no consumer sees."""
        if self.rejects:
            raise NoPermission("this broker accepts no transactional messages (rejectTransactionMessage)")
        if PRODUCER_GROUP not in properties:
            raise MessageIllegal("a transactional message needs the property PGROUP, which names the producers to ask")
        if TRANSACTION_HALF_TOPIC not in self._topics.by_name:
            self._topics.ensure(TRANSACTION_HALF_TOPIC, 1, "for transactions")
        make_half(record, properties)

    # --- reading

    def find(self, header: EndTransactionRequestHeader) -> StoredHalf:
        """Return the half message that a request names; raise BrokerError if it is not one of this producer group."""
        record = self._store.read(header.commit_log_offset)
        if record is None:
            raise BrokerError(
                f"there is no half message at physical offset {header.commit_log_offset}, or its file was deleted; "
                "if the transaction is open, a producer will be asked about it"
            )
        half = read_half(record)
        if half.topic != TRANSACTION_HALF_TOPIC:
            raise BrokerError(f"the message at physical offset {header.commit_log_offset} is not a half message")
        if half.group != header.producer_group:
            raise BrokerError(f"the half message is not one of producer group {header.producer_group}")
        if half.queue_offset != header.tran_state_table_offset:
            raise BrokerError(f"the half message is not at queue offset {header.tran_state_table_offset}")
        return half

    def read(self, offset: int) -> StoredHalf | None:
        """Return the half message at a queue offset; None if it is damaged or gone."""
        record = self.read_record(offset)
        return None if record is None else read_half(record)

    def read_record(self, offset: int) -> bytes | None:
        """Return the half message at a queue offset as it is stored; None if it is damaged or gone."""
        found = self._store.get(TRANSACTION_HALF_TOPIC, QUEUE, offset, 1)
        if found.status is not GetStatus.FOUND:
            return None
        record = bytes(found.views[0])
        return record if read_head(record).queue_offset == offset else None

    def open_count(self) -> int:
        """Return how many half messages are open."""
        return self.ledger.open_before(self.end_offset)

    @property
    def end_offset(self) -> int:
        """Where the queue of half messages ends."""
        return self._store.max_offset(TRANSACTION_HALF_TOPIC, QUEUE)

    def is_simple(self, half: StoredHalf) -> bool:
        """Return True if the ledger alone can tell that a transaction is open."""
        return half.queue_offset >= self._first_own and self.ledger.is_open(half.queue_offset)

    # --- ending

    def end(self, half: StoredHalf, state: TransactionState) -> None:
        """Commit or roll back, in the store's open group; raise BrokerError or StoreError, then nothing has ended."""
        if state is _COMMIT:
            self.commit(half)
            try:
                self.settle(half)
            except StoreError as error:  # the committed message proves it too, and a later search finds it
                logger.warning("a committed half message has no op record offset=%d: %s", half.queue_offset, error)
                self.ledger.settle(half.queue_offset)
        else:
            self.settle(half)
            self.rollbacks += 1

    def commit(self, half: StoredHalf) -> None:
        """Put the message that consumers get; it may be a delayed message."""
        record = committed_record(half, self._real_queue(half))
        if has_level(half.properties) or is_timed(half.properties):
            properties = {name: value for name, value in half.properties.items() if name != TRANSACTION_PREPARED}
            self._delayed.place(record, properties)
        place = self._store.put(record)
        self._count(record.topic, place.size)
        identity = half.identity
        self.unstored.add(identity)
        if self.committed_since is not None:
            self.committed_since.add(identity)
        self._acknowledgements.then(lambda stored: self.unstored.discard(identity))

    def _count(self, topic_name: str, size: int) -> None:
        self.commits += 1
        topic = self._topics.get(topic_name)
        if topic is not None:
            topic.count_put(size)

    def settle(self, half: StoredHalf) -> None:
        """Write the op record of a half message."""
        self.settle_offset(half.queue_offset)

    def settle_offset(self, offset: int) -> None:
        """Write the op record of a half message that may be unreadable."""
        self._note_settled(self._store.put(self._op_record(offset)), offset)

    def leave_file(self, half: StoredHalf, *, is_committed: bool) -> None:
        """Write what must outlive the file of an open half message, also on a disk that is too full for new messages.

        That is a copy at the end of the queue, unless it was committed, and the op record.
        """
        if not is_committed:
            self._store.put_again(moved_record(half))
        self._note_settled(self._store.put_again(self._op_record(half.queue_offset)), half.queue_offset)
        self._acknowledgements.expect_group()

    def _op_record(self, offset: int) -> Record:
        return op_record(offset, self._store_host, self._now_ms())

    def _note_settled(self, op: PutResult, offset: int) -> None:
        self.ledger.note_op(op.queue_offset, offset)
        self.ledger.settle(offset)

    def _real_queue(self, half: StoredHalf) -> int:
        topic = self._topics.get(half.real_topic)
        if topic is None or topic.queues < 1:
            raise TopicNotFound(f"topic {half.real_topic} does not exist any more: the transaction stays open")
        return half.real_queue_id % topic.queues  # nobody would read a queue that has been removed
