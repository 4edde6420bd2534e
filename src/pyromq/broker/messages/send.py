"""SEND_MESSAGE in its three forms (10, 310, 320): the checks in RocketMQ's order, then the record.

A plain message to a known topic passes `send` alone; whatever is rarer is looked at outside it.
"""

from __future__ import annotations

import random
from collections.abc import Generator, Iterable
from math import inf

from msgspec.structs import replace

from pyromq.broker.config.broker_config import BrokerConfig
from pyromq.broker.messages.acknowledgements import public_reason
from pyromq.broker.messages.deferred_messages import DeferredMessages
from pyromq.broker.messages.flow_control import SendFlowControl
from pyromq.broker.messages.plain_batches import PlainBatches
from pyromq.broker.messages.retries import is_exhausted
from pyromq.broker.messages.sent_properties import PropertyWriter, stored_in_batch, waits_for_flush
from pyromq.broker.parts import Parts, Writing
from pyromq.broker.tables.topic_table import Topic
from pyromq.errors import (
    BrokerError,
    LocalProtocolError,
    MessageIllegal,
    MessageTooLarge,
    NoPermission,
    ServiceNotAvailable,
    StoreError,
    TopicNotFound,
)
from pyromq.protocol.bodies.json_steps import finish
from pyromq.protocol.codes import ONEWAY_FLAG, PERM_WRITE, RequestCode
from pyromq.protocol.command import RemotingCommand, response
from pyromq.protocol.frame_templates import send_answer
from pyromq.protocol.headers.send import (
    SendMessageRequestHeader,
    SendMessageRequestHeaderV2,
    SendMessageResponseHeader,
)
from pyromq.protocol.messages.batch import BatchElement, check_batch, decode_batch, has_few, parts_of_batch
from pyromq.protocol.messages.record import TRANSACTION_PREPARED, Record
from pyromq.protocol.names import DEFAULT_REGION, NO_SEND_TOPICS, RETRY_PREFIX, check_topic, dlq_topic
from pyromq.remoting.connection import Connection

BORN_HOST = "born_host"
"""The attribute of a connection that holds the peer's address as a record does."""

_PREPARED_WITHOUT_PROPERTY = "a message whose sysFlag says prepared needs the property TRAN_MSG"
_KINDS: dict[int, type[SendMessageRequestHeader]] = {RequestCode.SEND_MESSAGE: SendMessageRequestHeader}
STOCK_REGION = (DEFAULT_REGION, True)  # what the quick form of the answer says


FEW_IN_BATCH = 500
"""Messages of a batch that are stored at once, in about 10 ms; more of them in parts."""
BYTES_IN_PART = 64 * 1024
"""Bytes of the properties in such a part: they may hold thousands of keys."""


class SendHandler:
    """Stores what producers send; answers leave when the store's group is written."""

    def __init__(self, parts: Parts, writing: Writing, deferred: DeferredMessages, flow: SendFlowControl) -> None:
        config = parts.config
        self._put = writing.store.put
        self._flow = flow
        self._put_batch = writing.store.put_batch
        self._store_host = parts.store_host
        self._id_prefix = parts.store_host.hex().upper()
        self._topics = parts.topics
        self._new_topics = writing.new_topics
        self._new_queues = writing.new_queues
        self._must_wait = writing.new_queues.must_wait
        self._find_topic = parts.topics.by_name.get
        self._groups = parts.groups
        self._acknowledge = writing.acknowledgements.add
        self._expect_group = writing.acknowledgements.expect_group
        self._properties = PropertyWriter(config.cluster)
        self._put_plain_batch = PlainBatches(parts, writing, self._properties).put
        self._place = deferred.place
        self._answers_wait = writing.durability.waits
        self._max_message_size = config.store.max_message_size
        self.configure(config)
        self._accept_from_ms = config.accept_sends_from_ms
        self._region = config.region
        self._trace_on = config.trace_on
        self._answer = send_answer if (config.region, config.trace_on) == STOCK_REGION else self._regional_answer

    def configure(self, config: BrokerConfig) -> None:
        """Take over settings, at the start and when they change."""
        self._broker_writable = bool(config.open_for & PERM_WRITE)

    def send(
        self, request: RemotingCommand, connection: Connection
    ) -> RemotingCommand | Generator[None, None, RemotingCommand | None] | None:
        """Store one message or a batch of them.

        If its topic is new, as soon as the table of topics is saved; if its queue is new, as soon as that has a file.
        """
        try:
            if self._flow.refuses:
                self._flow.check()
            header = request.ext
            if not isinstance(header, SendMessageRequestHeaderV2):  # a signed one is a kind of it
                header = request.header(_KINDS.get(request.code, SendMessageRequestHeaderV2))
            topic = self._find_topic(header.topic)
            if topic is not None and topic.accepts_plain_sends and not self._accept_from_ms:
                queue_id = header.queue_id
                if not 0 <= queue_id < topic.queues:
                    queue_id = _queue(topic, queue_id)
            else:
                topic, queue_id = self.target(header, request, connection)
                if not self._topics.is_saved(topic):
                    self._new_topics.hold(request, connection)
                    return None
            if header.batch:
                if self._must_wait(topic.name, queue_id):
                    self._new_queues.hold(request, connection, topic.name, queue_id)
                    return None
                born_host: bytes = connection.attributes[BORN_HOST]  # type: ignore[assignment]  # set when it connected
                stored = self._put_plain_batch(header, request.body, topic, queue_id, born_host)
                if stored is not None:
                    self._acknowledge_batch(header, request, connection, queue_id, *stored)
                    return None
                if has_few(request.body, FEW_IN_BATCH):
                    return finish(self._send_batch(header, request, connection, topic, queue_id, inf))
                return self._send_batch(header, request, connection, topic, queue_id, BYTES_IN_PART)
            record = self.record(header, request, connection, topic, queue_id)
            record.properties, record.tags_code, special = self._properties.stored(header.properties)
            if special is not None:
                self._place(record, special)
                topic = self._find_topic(record.topic) or topic  # its own topic counts it when it is delivered
            elif self._must_wait(topic.name, queue_id):
                self._new_queues.hold(request, connection, topic.name, queue_id)
                return None
            if record.sys_flag & TRANSACTION_PREPARED:  # a rollback has this bit too: it would never be delivered
                raise NoPermission(_PREPARED_WITHOUT_PROPERTY)
            result = self._put(record)
        except (BrokerError, StoreError) as error:
            return self.failure(request, error)
        topic.count_put(result.size)
        if request.flag & ONEWAY_FLAG:
            self._expect_group()
        else:
            message_id = "%s%016X" % (self._id_prefix, result.physical_offset)  # noqa: UP031 (faster than f"")
            answer = self._answer(request, 0, queue_id, result.queue_offset, message_id)
            waits = not self._answers_wait or waits_for_flush(header.properties)
            self._acknowledge(connection, request, answer, waits)
        return None

    def _send_batch(
        self,
        header: SendMessageRequestHeader,
        request: RemotingCommand,
        connection: Connection,
        topic: Topic,
        queue_id: int,
        bytes_in_part: float,
    ) -> Generator[None, None, RemotingCommand | None]:
        """Store a batch: a small one all or none, a large one in parts, in as many rounds as it takes.

        Nothing is stored of a batch that cannot be read. If the store refuses a part of a large one, those before stay.
        """
        try:
            if header.sys_flag & TRANSACTION_PREPARED:
                raise NoPermission(_PREPARED_WITHOUT_PROPERTY)
            if len(request.body) > self._max_message_size:
                raise MessageIllegal(f"the batch has {len(request.body)} bytes, more than {self._max_message_size}")
            if bytes_in_part == inf:  # one part: reading it checks it
                parts: Iterable[list[BatchElement]] = [decode_batch(request.body)]
            else:
                yield from check_batch(request.body)
                parts = parts_of_batch(request.body, FEW_IN_BATCH, bytes_in_part)
            shared = self.record(header, request, connection, topic, queue_id)
            suffix = self._properties.batch_suffix(header.properties)
            first = None
            ids: list[str] = []  # one text of each part: a hundred thousand would take long to join, and to free
            for part in parts:
                if ids:
                    yield  # before each part but the first: the answer must join the group of the last
                records = []
                for flag, body, sent in part:
                    properties, tags_code = stored_in_batch(sent, suffix)
                    records.append(replace(shared, body=body, flag=flag, properties=properties, tags_code=tags_code))
                results = self._put_batch(records)
                first = first or results[0]
                topic.count_put(sum(result.size for result in results), len(results))
                ids.append(",".join([f"{self._id_prefix}{result.physical_offset:016X}" for result in results]))
                self._expect_group()
        except (BrokerError, StoreError) as error:
            return self.failure(request, error)
        if first is not None:
            self._acknowledge_batch(header, request, connection, queue_id, first.queue_offset, ",".join(ids))
        return None

    def _acknowledge_batch(
        self,
        header: SendMessageRequestHeader,
        request: RemotingCommand,
        connection: Connection,
        queue_id: int,
        queue_offset: int,
        ids: str,
    ) -> None:
        self._expect_group()
        if not request.flag & ONEWAY_FLAG:
            answer = self._answer(request, 0, queue_id, queue_offset, ids)
            self._acknowledge(connection, request, answer, not self._answers_wait or waits_for_flush(header.properties))

    def record(
        self,
        header: SendMessageRequestHeader,
        request: RemotingCommand,
        connection: Connection,
        topic: Topic,
        queue_id: int,
    ) -> Record:
        """Return what is to be stored, its properties still missing."""
        return Record(
            topic=topic.name,
            body=request.body,
            queue_id=queue_id,
            flag=header.flag,
            sys_flag=header.sys_flag | topic.sys_flag,
            born_timestamp_ms=header.born_timestamp,
            born_host=connection.attributes[BORN_HOST],  # type: ignore[arg-type]  # set when it connected
            store_host=self._store_host,
            reconsume_times=header.reconsume_times or 0,
        )

    def target(
        self, header: SendMessageRequestHeader, request: RemotingCommand, connection: Connection
    ) -> tuple[Topic, int]:
        """Make every check that RocketMQ makes, in its order; return the topic and queue to store in."""
        if connection.received_ms < self._accept_from_ms:
            raise BrokerError(f"this broker takes sends from {self._accept_from_ms} ms since the epoch on")
        topic = self._topics.get(header.topic)
        if topic is not None and topic.config.order and not self._broker_writable:
            raise NoPermission("this broker takes no messages now")
        _check_name(header.topic)
        if header.topic in NO_SEND_TOPICS:
            raise NoPermission(f"topic {header.topic} is the broker's own")
        topic = topic or self._create(header)
        if not topic.writable:
            raise NoPermission(f"topic {topic.name} may not be written to")
        queue_id = _queue(topic, header.queue_id)
        return self._retry_target(header, request, topic, queue_id) if topic.is_retry else (topic, queue_id)

    def _create(self, header: SendMessageRequestHeader) -> Topic:
        topic = self._topics.create_by_send(
            header.topic, header.default_topic, header.default_topic_queue_nums, header.unit_mode
        )
        if topic is not None:
            return topic
        if header.topic.startswith(RETRY_PREFIX):
            return self._topics.ensure(header.topic, 1, "for retries")
        raise TopicNotFound(f"topic {header.topic} does not exist, and a send may not create it: create it first")

    def _retry_target(
        self, header: SendMessageRequestHeader, request: RemotingCommand, topic: Topic, queue_id: int
    ) -> tuple[Topic, int]:
        """Send a message that was retried often enough to the group's dead letters."""
        name = header.topic.removeprefix(RETRY_PREFIX)
        group = self._groups.find_or_create(name)
        if not is_exhausted(group, header.reconsume_times or 0, header.max_reconsume_times, request.version):
            return topic, queue_id
        return self._topics.ensure(dlq_topic(name), 1, "for dead letters"), 0

    def _regional_answer(
        self, request: RemotingCommand, code: int, queue_id: int, queue_offset: int, msg_id: str
    ) -> bytes:
        header = SendMessageResponseHeader(
            msg_id=msg_id,
            queue_id=queue_id,
            queue_offset=queue_offset,
            msg_region=self._region,
            trace_on=self._trace_on,
        )
        return response(request, code, None, header).encode()

    def failure(self, request: RemotingCommand, error: BrokerError | StoreError) -> RemotingCommand:
        """Return the answer to a send that was not stored; producers look for the region in it too."""
        if isinstance(error, StoreError):
            kind = MessageIllegal if isinstance(error, MessageTooLarge) else ServiceNotAvailable
            error = kind(f"not stored: {public_reason(error)}")
        fields = {"MSG_REGION": self._region, "TRACE_ON": "true" if self._trace_on else "false"}
        return response(request, error.code, error.remark, fields)


def _queue(topic: Topic, queue_id: int) -> int:
    """Return the queue to store in; a negative id leaves the choice to the broker."""
    if queue_id >= topic.queues:
        raise BrokerError(f"queue {queue_id} of topic {topic.name} does not exist, it has {topic.queues}")
    if queue_id >= 0:
        return queue_id
    if topic.write_queues <= 0:
        raise BrokerError(f"topic {topic.name} has no queue to write to")
    return random.randrange(topic.write_queues)


def _check_name(name: str) -> None:
    try:
        check_topic(name)
    except LocalProtocolError as error:
        raise BrokerError(str(error)) from None
