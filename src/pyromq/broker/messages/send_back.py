"""CONSUMER_SEND_MSG_BACK (36): a copy of a message that was not consumed, for the group's retry topic.

It comes again after level 3, then 4, and so on, or when the consumer says; one that was tried often enough, or that the
consumer gives up, goes to the group's dead letters. The message is found by its physical offset. Once that file of the
log has been removed the answer is SYSTEM_ERROR, as Apache's: clients then send a copy of what they hold in memory.

A retry topic may be missing in the table after a crash: the heartbeats of its group create it again. A new topic of
dead letters is saved first.
"""

from __future__ import annotations

import random

from pyromq.access.account import SUB
from pyromq.access.message_topic import message_topic
from pyromq.broker.config.broker_config import BrokerConfig
from pyromq.broker.messages.acknowledgements import public_reason
from pyromq.broker.messages.deferred_messages import DelayedMessages
from pyromq.broker.messages.retries import FailedMessage, is_exhausted
from pyromq.broker.parts import Parts, Writing
from pyromq.broker.tables.topic_table import Topic
from pyromq.errors import BrokerError, NoPermission, StoreError
from pyromq.protocol.bodies import SubscriptionGroupConfig
from pyromq.protocol.codes import ONEWAY_FLAG, PERM_WRITE, TOPIC_UNIT_SUBSCRIPTION_FLAG
from pyromq.protocol.command import RemotingCommand, response
from pyromq.protocol.delay_levels import FIRST_RETRY_LEVEL
from pyromq.protocol.headers.send import ConsumerSendMsgBackRequestHeader
from pyromq.protocol.messages.properties import DELAY, TIMER_DELAY_MS
from pyromq.protocol.messages.record import Record
from pyromq.protocol.names import dlq_topic, retry_topic
from pyromq.remoting.connection import Connection


class SendBackHandler:
    """Keeps what consumers send back."""

    def __init__(self, parts: Parts, writing: Writing, delayed: DelayedMessages) -> None:
        self.configure(parts.config)
        self._access = parts.access
        self._stats = parts.stats
        self._store = writing.store
        self._topics = parts.topics
        self._groups = parts.groups
        self._acknowledgements = writing.acknowledgements
        self._new_topics = writing.new_topics
        self._delays = delayed

    def configure(self, config: BrokerConfig) -> None:
        """Take over settings, at the start and when they change."""
        self._broker_writable = bool(config.open_for & PERM_WRITE)

    def send_back(self, request: RemotingCommand, connection: Connection) -> RemotingCommand | None:
        """Store a copy for later, or among the dead letters; answer when that is stored."""
        header = request.header(ConsumerSendMsgBackRequestHeader)
        group = self._groups.find_or_create(header.group)
        if not self._broker_writable:
            raise NoPermission("this broker takes no messages now")
        if group.retry_queue_nums <= 0:
            return response(request)  # such a group has no retries: what fails is dropped
        topic = self._retry_topic(group, header.unit_mode)
        stored = self._find(header)
        self._access.need(request, connection, SUB, message_topic(stored))
        message = FailedMessage(stored, header.pyromq_cause)
        if header.delay_level < 0 or is_exhausted(group, message.times, header.max_reconsume_times, request.version):
            topic = self._topics.ensure(dlq_topic(group.group_name), 1, "for dead letters")
            if not self._topics.is_saved(topic):
                self._new_topics.hold(request, connection)
                return None
            record, _ = message.record(topic.name, 0, {DELAY: "0"})
        else:
            record = self._delayed(message, topic, header)
        self._put(record, topic)
        self._stats.count("SNDBCK_PUT_NUMS", f"{message.origin_topic}@{group.group_name}")
        self._answer(request, connection)
        return None

    def _retry_topic(self, group: SubscriptionGroupConfig, unit_mode: bool) -> Topic:
        flag = TOPIC_UNIT_SUBSCRIPTION_FLAG if unit_mode else 0
        topic = self._topics.ensure(retry_topic(group.group_name), group.retry_queue_nums, "for retries", flag)
        if not topic.writable:
            raise NoPermission(f"topic {topic.name} may not be written to")
        return topic

    def _find(self, header: ConsumerSendMsgBackRequestHeader) -> bytes:
        try:
            stored = self._store.read(header.offset)
        except StoreError as error:
            raise BrokerError(f"the store cannot be read: {public_reason(error)}") from error
        if stored is None:
            raise BrokerError(f"no message is at physical offset {header.offset}, or it is no longer there")
        return stored

    def _delayed(self, message: FailedMessage, topic: Topic, header: ConsumerSendMsgBackRequestHeader) -> Record:
        """Return the copy that comes again, placed where it waits for that."""
        queue_id = random.randrange(max(topic.write_queues, 1))
        delay_ms = header.pyromq_delay_ms
        if delay_ms is not None and delay_ms <= 0:
            return message.record(topic.name, queue_id, {})[0]
        if delay_ms is not None:
            try:
                record, properties = message.record(topic.name, queue_id, {TIMER_DELAY_MS: str(delay_ms)})
                self._delays.by_time(record, properties)
            except BrokerError:
                pass  # no timer here, or too long for it: the level that came along has to do
            else:
                return record
        level = header.delay_level or FIRST_RETRY_LEVEL + message.times
        record, properties = message.record(topic.name, queue_id, {DELAY: str(level)})
        self._delays.by_level(record, properties)
        return record

    def _put(self, record: Record, topic: Topic) -> None:
        try:
            size = self._store.put(record).size
        except StoreError as error:
            raise BrokerError(f"not stored: {public_reason(error)}") from error
        topic.count_put(size)

    def _answer(self, request: RemotingCommand, connection: Connection) -> None:
        if request.flag & ONEWAY_FLAG:
            self._acknowledgements.expect_group()
        else:
            self._acknowledgements.add(connection, request, response(request).encode())
