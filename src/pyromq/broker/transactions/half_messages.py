"""Half messages: the first half of a transaction as it is stored, and the records made from it.

prepared   RMQ_SYS_TRANS_HALF_TOPIC, queue 0: no consumer sees it; REAL_TOPIC and REAL_QID say where it belongs
committed  a record of the real topic; its prepared offset is the physical offset of the half message
op         RMQ_SYS_TRANS_OP_HALF_TOPIC, queue 0, tag `d`; its body is the queue offset of a half message, as digits:
           that one is settled
again      a copy of the half message at the end of its queue, with a higher count of checks
given up   TRANS_CHECK_MAX_TIME_TOPIC, queue 0: checked too often, or too old
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from pyromq.protocol.messages.properties import (
    CHECK_IMMUNITY_TIME_IN_SECONDS,
    PRODUCER_GROUP,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    TAGS,
    TRANSACTION_CHECK_TIMES,
    TRANSACTION_PREPARED_QUEUE_OFFSET,
    UNIQ_KEY,
    WAIT,
    decode_properties,
    encode_properties,
)
from pyromq.protocol.messages.record import (
    TRANSACTION_COMMIT,
    TRANSACTION_MASK,
    Record,
    RecordHead,
    encode_record,
    read_head,
    read_tail,
)
from pyromq.protocol.names import TRANSACTION_CHECK_MAX_TOPIC, TRANSACTION_HALF_TOPIC, TRANSACTION_OP_TOPIC
from pyromq.protocol.tag_filter import tag_code
from pyromq.store.results import PutResult

QUEUE: Final = 0  # half messages, op records and given-up messages have one queue each
OP_TAG: Final = "d"
_OP_PROPERTIES: Final = encode_properties({WAIT: "true", TAGS: OP_TAG}).encode()

Identity = tuple[str, str, int]
"""Unique key, producer group and born time: the same in every copy of a half message, and in no other message.

Without a unique key its place stands for the key, so each copy counts as a transaction of its own.
"""


class StoredHalf(NamedTuple):
    """A stored half message, or the copy that was given up."""

    head: RecordHead
    topic: str
    body: bytes
    properties: dict[str, str]

    @property
    def queue_offset(self) -> int:
        """Where it is in its queue."""
        return self.head.queue_offset

    @property
    def physical_offset(self) -> int:
        """Where it is in the log."""
        return self.head.physical_offset

    @property
    def group(self) -> str:
        """The group of producers that know how the transaction ended."""
        return self.properties.get(PRODUCER_GROUP, "")

    @property
    def real_topic(self) -> str:
        """The topic that it is meant for."""
        return self.properties.get(REAL_TOPIC, "")

    @property
    def real_queue_id(self) -> int:
        """The queue that it is meant for."""
        return _number(self.properties, REAL_QUEUE_ID, 0)

    @property
    def unique_key(self) -> str:
        """The id that its producer gave it; empty if it gave none."""
        return self.properties.get(UNIQ_KEY, "")

    @property
    def identity(self) -> Identity:
        """What identifies its transaction."""
        return self.unique_key or f"@{self.physical_offset}", self.group, self.head.born_timestamp_ms

    @property
    def check_times(self) -> int:
        """How often a producer was asked about it."""
        return _number(self.properties, TRANSACTION_CHECK_TIMES, 0)

    @property
    def immunity(self) -> int | None:
        """For how many seconds after it was born no producer is asked; None if it does not say."""
        seconds = _number(self.properties, CHECK_IMMUNITY_TIME_IN_SECONDS, -1)
        return None if seconds < 0 else seconds


def read_half(record: bytes) -> StoredHalf:
    """Read a stored record."""
    head = read_head(record)
    topic, properties = read_tail(record, head)
    body = record[head.body_position : head.body_position + head.body_length]
    return StoredHalf(head, topic.decode("utf-8", "replace"), body, decode_properties(properties))


def split_records(records: bytes) -> Iterator[bytes]:
    """Split consecutive records."""
    start = 0
    while start < len(records):
        size = read_head(records, start).total_size
        yield records[start : start + size]
        start += size


def _number(properties: Mapping[str, str], name: str, default: int) -> int:
    text = properties.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else default


# --- the records made from it


def make_half(record: Record, properties: dict[str, str]) -> None:
    """Turn the record of a message into that of a half message."""
    properties[REAL_TOPIC] = record.topic
    properties[REAL_QUEUE_ID] = str(record.queue_id)
    record.topic = TRANSACTION_HALF_TOPIC
    record.queue_id = QUEUE
    record.sys_flag &= ~TRANSACTION_MASK  # else the store would not add it to a queue
    record.properties = encode_properties(properties).encode()


def committed_record(half: StoredHalf, queue_id: int) -> Record:
    """Return the message that consumers get, with all properties of the half message, as in RocketMQ."""
    record = _copy(half, half.real_topic, half.properties)
    record.queue_id = queue_id
    record.sys_flag = half.head.sys_flag & ~TRANSACTION_MASK | TRANSACTION_COMMIT
    record.prepared_transaction_offset = half.physical_offset
    return record


def op_record(half_offset: int, store_host: bytes, now_ms: int) -> Record:
    """Return the record that settles a half message."""
    return Record(
        topic=TRANSACTION_OP_TOPIC,
        body=b"%d" % half_offset,
        properties=_OP_PROPERTIES,
        queue_id=QUEUE,
        tags_code=tag_code(OP_TAG),
        born_timestamp_ms=now_ms,
        born_host=store_host,
        store_host=store_host,
    )


def checked_record(half: StoredHalf) -> Record:
    """Return the copy of a half message that is written when a producer is asked about it."""
    return _copy(half, TRANSACTION_HALF_TOPIC, {**half.properties, TRANSACTION_CHECK_TIMES: str(half.check_times + 1)})


def moved_record(half: StoredHalf) -> Record:
    """Return the copy of a half message that is written without a check, so that the ledger can move on."""
    first = half.properties.get(TRANSACTION_PREPARED_QUEUE_OFFSET, str(half.queue_offset))
    return _copy(half, TRANSACTION_HALF_TOPIC, {**half.properties, TRANSACTION_PREPARED_QUEUE_OFFSET: first})


def given_up_record(half: StoredHalf) -> Record:
    """Return the copy of a half message that is kept for an operator."""
    return _copy(half, TRANSACTION_CHECK_MAX_TOPIC, half.properties)


def resumed_record(half: StoredHalf) -> Record:
    """Return the copy of a given-up half message that is checked again."""
    return _copy(half, TRANSACTION_HALF_TOPIC, {**half.properties, TRANSACTION_CHECK_TIMES: "0"})


def question(half: StoredHalf, copy: Record, place: PutResult) -> bytes:
    """Return the message for the question to a producer: as it was sent, at the place of its latest copy."""
    asked = _copy(half, half.real_topic, half.properties)
    asked.queue_id = half.real_queue_id
    asked.properties = copy.properties
    topic = half.real_topic.encode()
    return encode_record(asked, topic, place.queue_offset, place.physical_offset, place.store_timestamp_ms)


def _copy(half: StoredHalf, topic: str, properties: Mapping[str, str]) -> Record:
    head = half.head
    return Record(
        topic=topic,
        body=half.body,
        properties=encode_properties(properties).encode(),
        queue_id=QUEUE,
        tags_code=tag_code(properties.get(TAGS)),
        flag=head.flag,
        sys_flag=head.sys_flag,
        born_timestamp_ms=head.born_timestamp_ms,
        born_host=head.born_host,
        store_host=head.store_host,
        reconsume_times=head.reconsume_times,
    )
