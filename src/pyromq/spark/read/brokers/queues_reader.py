"""Reads ranges of several queues of one topic and broker together, by large pulls, in the order of the broker's log.

Only a PyroMQ broker answers such a pull, and only in the normal case. Otherwise the rest is read queue by queue, which
handles lost messages, damage, failing brokers and other brokers.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

import numpy as np

from pyromq.errors import CorruptRecord, PyroMQError, RemotingError
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import RemotingCommand, request
from pyromq.protocol.headers.pull import (
    MAX_PULL_BYTES,
    PullQueuesRequestHeader,
    PullQueuesResponseHeader,
)
from pyromq.protocol.names import TOOLS_CONSUMER_GROUP
from pyromq.protocol.tag_filter import parse_tags
from pyromq.spark.offsets import QueueSlice
from pyromq.spark.options.read_options import ReadOptions
from pyromq.spark.read.brokers.broker_connection import BrokerConnection, give_back, take_connection
from pyromq.spark.read.brokers.broker_queues import BrokerQueues
from pyromq.spark.read.brokers.puller import first_broker
from pyromq.spark.read.decode.columns import Columns
from pyromq.spark.read.decode.records import Records

logger = logging.getLogger(__name__)

_SIZE = np.dtype(">i4")


class QueuesReader:
    """Reads ranges together; `rest` is what it has not read yet."""

    def __init__(self, brokers: BrokerQueues, parts: Sequence[QueueSlice], options: ReadOptions) -> None:
        self._brokers = brokers
        self._parts = list(parts)
        self._options = options
        self._tags = parse_tags(options.tags).tags
        self._broker_id = first_broker(options)
        self._may_go_on = True

    @property
    def rest(self) -> list[QueueSlice]:
        """The ranges not read yet."""
        return [part for part in self._parts if part.start < part.stop]

    def records(self) -> Iterator[Records]:
        """Yield records, valid until the next ones are requested; stop early if only plain pulls can continue."""
        if self._options.sql is not None or not self.rest:
            return
        try:
            address = self._brokers.address(self.rest[0].queue, self._broker_id)
            connection = take_connection(
                address, self._options.pull_timeout, self._options.credentials, self._options.tls
            )
        except PyroMQError as error:
            logger.debug("cannot read queues together: %s", error)
            return
        try:
            yield from self._pull_all(connection)
        except RemotingError as error:
            logger.warning("topic %s, continuing queue by queue: %s", self._parts[0].queue.topic, error)
        finally:
            give_back(connection)

    def _pull_all(self, connection: BrokerConnection) -> Iterator[Records]:
        connection.send(self._request())
        goes_on = True
        while goes_on:
            asked = self.rest
            records = self._take(*connection.receive())
            if records is None:
                return
            goes_on = self._may_go_on and self.rest not in ([], asked) and self._ask_on(connection)
            yield records

    def _ask_on(self, connection: BrokerConnection) -> bool:
        """Request more, so that the broker works while this answer is decoded; a broken connection must not lose it."""
        try:
            connection.send(self._request())
        except RemotingError as error:
            logger.warning("topic %s, continuing queue by queue: %s", self._parts[0].queue.topic, error)
            return False
        return True

    def _request(self) -> RemotingCommand:
        header = PullQueuesRequestHeader(
            consumer_group=self._options.group or TOOLS_CONSUMER_GROUP,
            topic=self._parts[0].queue.topic,
            ranges=",".join(f"{part.queue.queue_id}:{part.start}:{part.stop}" for part in self.rest),
            subscription=self._options.tags,
            max_msg_nums=self._options.batch_rows,
            max_bytes=min(self._options.batch_bytes, MAX_PULL_BYTES),
        )
        return request(RequestCode.PULL_QUEUES, header)

    def _take(self, answer: RemotingCommand, body: memoryview) -> Records | None:
        """Return the records of an answer and advance past them; None if only plain pulls can continue."""
        if answer.code != ResponseCode.SUCCESS:
            logger.debug("queue by queue: %s %s", answer.code, answer.remark)
            return None
        header = answer.header(PullQueuesResponseHeader)
        firsts, nexts = (_offsets(text) for text in (header.min_offsets, header.next_offsets))
        asked = self.rest
        if any(part.start < first for part, first in zip(asked, firsts, strict=True)):
            return None  # messages are lost to retention
        records = _records(body, header.count)
        taken = [part._replace(stop=stop) for part, stop in zip(asked, nexts, strict=True)]
        self._check(records, taken)
        # If the broker suggests another one, plain pulls follow it.
        self._may_go_on = self._options.read_from != "suggested" or header.suggest_which_broker_id == self._broker_id
        moved = {part.queue: part.stop for part in taken}
        self._parts = [part._replace(start=moved.get(part.queue, part.start)) for part in self._parts]
        return self._wanted(records)

    def _check(self, records: Records, taken: Sequence[QueueSlice]) -> None:
        """Check that an answer holds what it claims: without a filter, every offset of each queue, in order."""
        if self._tags:
            return
        found = records.queue_offsets[np.argsort(records.queue_ids, kind="stable")]
        by_id = sorted(taken, key=lambda part: part.queue.queue_id)
        expected = np.concatenate([np.arange(part.start, part.stop) for part in by_id])
        if not np.array_equal(found, expected):
            topic = taken[0].queue.topic
            raise CorruptRecord(f"topic {topic}: the broker's answer does not hold the offsets it claims")

    def _wanted(self, records: Records) -> Records:
        """Drop other tags with the same hash, which the broker's filter lets through."""
        if not self._tags or not len(records):
            return records
        wanted = Columns(records).tagged(self._tags)
        return records if wanted.all() else records.select(wanted)


def _offsets(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def _records(body: memoryview, count: int) -> Records:
    size = len(body) - count * _SIZE.itemsize
    if count < 0 or size < 0:
        raise CorruptRecord(f"an answer of {len(body)} bytes cannot hold {count} messages")
    sizes = np.frombuffer(body, _SIZE, count, size).astype(np.int64) if count else np.empty(0, np.int64)
    if int(sizes.sum()) != size:
        raise CorruptRecord(f"damaged answer: {int(sizes.sum())} bytes of messages announced, {size} received")
    return Records(body, np.cumsum(sizes) - sizes)
