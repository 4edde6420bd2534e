"""TransactionLedger: which half messages are settled, that is ended, copied to the end of their queue, or given up.

A settled half message has an op record. All before `low` are settled; from there on there is a byte for each. For the
op records that are still needed, the ledger has the half message that each one settles. Both ends move on together:

    half queue   … settled │low  1 1 0 1 0 0 …   1 is settled; 0 or no byte is open
    op queue     … needless│op_low  7 9 8 …      an op record is needless once its half message is before `low`

RocketMQ keeps `low` and `op_low` as the committed offsets of CID_RMQ_SYS_TRANS. They are enough to build the rest.
"""

from __future__ import annotations

from array import array
from typing import Final

from pyromq.broker.tables.consumer_offsets import ConsumerOffsets
from pyromq.broker.transactions.half_messages import QUEUE
from pyromq.protocol.messages.record import body_crc, decode_messages
from pyromq.protocol.names import TRANSACTION_GROUP, TRANSACTION_HALF_TOPIC, TRANSACTION_OP_TOPIC
from pyromq.store.message_store import MessageStore
from pyromq.store.results import GetStatus

_READ_COUNT: Final = 4096
_READ_BYTES: Final = 1 << 20
_DAMAGED: Final = -1  # stands for an unreadable op record: needless at once


class TransactionLedger:
    """Knows which half messages are open."""

    def __init__(self, low: int, op_low: int) -> None:
        self.low = low
        self.op_low = op_low
        self._settled = bytearray()
        self._ops = array("q")

    def is_open(self, offset: int) -> bool:
        """Return True if a half message is open."""
        index = offset - self.low
        return index >= len(self._settled) or (index >= 0 and not self._settled[index])

    def next_open(self, offset: int) -> int:
        """Return the first open offset from `offset` on; it may be the end of the queue or beyond."""
        index = max(offset - self.low, 0)
        if index >= len(self._settled):
            return self.low + index
        found = self._settled.find(0, index)
        return self.low + (len(self._settled) if found < 0 else found)

    def open_before(self, end: int) -> int:
        """Return how many are open before the end of the queue."""
        return max(end - self.low, 0) - self._settled.count(1)

    def settle(self, offset: int) -> None:
        """Note that a half message is settled."""
        index = offset - self.low
        if index < 0:
            return
        if index >= len(self._settled):
            self._settled.extend(bytes(index + 1 - len(self._settled)))
        self._settled[index] = 1

    def note_op(self, op_offset: int, offset: int) -> None:
        """Note which half message an op record settles."""
        missing = op_offset - self.op_low - len(self._ops)
        self._ops.extend([_DAMAGED] * missing)
        self._ops.append(offset)

    def advance(self) -> None:
        """Drop everything before the first open half message."""
        low = self.next_open(self.low)
        del self._settled[: low - self.low]
        self.low = low
        needless = 0
        for offset in self._ops:
            if offset >= low:
                break
            needless += 1
        del self._ops[:needless]
        self.op_low += needless

    def skip_to(self, low: int) -> None:
        """Begin at a later offset: earlier half messages were deleted with their files of the log."""
        if low > self.low:
            del self._settled[: low - self.low]
            self.low = low
        self.advance()


def load_ledger(store: MessageStore, offsets: ConsumerOffsets) -> TransactionLedger:
    """Build the ledger of a store that was just opened."""
    ledger = TransactionLedger(
        _begin(store, offsets, TRANSACTION_HALF_TOPIC),
        _begin(store, offsets, TRANSACTION_OP_TOPIC),
    )
    position = ledger.op_low
    end = store.max_offset(TRANSACTION_HALF_TOPIC, QUEUE)
    while position < store.max_offset(TRANSACTION_OP_TOPIC, QUEUE):
        found = store.get(TRANSACTION_OP_TOPIC, QUEUE, position, _READ_COUNT, max_bytes=_READ_BYTES)
        if found.status is GetStatus.FOUND:
            _note_all(ledger, b"".join(found.views), end)
        position = max(found.next_offset, position + 1)
    ledger.advance()
    return ledger


def _begin(store: MessageStore, offsets: ConsumerOffsets, topic: str) -> int:
    committed = offsets.get(TRANSACTION_GROUP, topic, QUEUE)
    return max(committed or 0, store.min_offset(topic, QUEUE))


def _note_all(ledger: TransactionLedger, records: bytes, end: int) -> None:
    for message in decode_messages(records, check_crc=False):
        body = message.stored_body
        is_sound = body_crc(body) == message.body_crc and body.isdigit()
        if is_sound and (offset := int(body)) < end:  # the others count as damaged
            ledger.note_op(message.queue_offset, offset)
            ledger.settle(offset)
