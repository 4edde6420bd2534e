"""Deliveries: puts delayed messages that are due into their own topics."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from pyromq.broker.tables.topic_table import TopicTable
from pyromq.errors import LocalProtocolError, MessageTooLarge
from pyromq.protocol.messages.message import MessageExt
from pyromq.protocol.messages.properties import REAL_QUEUE_ID, REAL_TOPIC, TAGS
from pyromq.protocol.messages.record import Record
from pyromq.protocol.names import TRANSACTION_HALF_TOPIC, check_topic
from pyromq.protocol.tag_filter import tag_code
from pyromq.store.message_store import MessageStore, PutResult

logger = logging.getLogger(__name__)

_MOST_REMEMBERED = 1000


class Deliveries:
    """Puts messages that are due into their topics."""

    def __init__(self, store: MessageStore, topics: TopicTable) -> None:
        self._store = store
        self._topics = topics
        self._unknown: set[str] = set()
        self.count = 0
        """How many messages were delivered since the start."""

    def put(self, message: MessageExt) -> PutResult | None:
        """Put a message into the open group, in its own topic; return None if it can never be delivered.

        Raise StoreError if the store accepts no messages now.
        """
        try:
            record = delivered_record(message)
            self._keep_readable(record)
            place = self._store.put(record)
        except (ValueError, LocalProtocolError, MessageTooLarge) as error:
            logger.error("a delayed message cannot be delivered id=%s reason=%s", message.offset_message_id, error)
            return None
        self._count(record.topic, place.size)
        return place

    def _keep_readable(self, record: Record) -> None:
        """Choose another queue if the topic has lost the one for which the message was sent: nobody would read it."""
        topic = self._topics.get(record.topic)
        if topic is not None and 0 < topic.queues <= record.queue_id:
            record.queue_id %= topic.queues

    def _count(self, name: str, size: int) -> None:
        self.count += 1
        topic = self._topics.get(name)
        if topic is not None:
            topic.count_put(size)
        elif name not in self._unknown and len(self._unknown) < _MOST_REMEMBERED:
            self._unknown.add(name)
            logger.warning(
                "delayed messages are stored for a deleted topic; they are readable if it is created again topic=%s",
                name,
            )


def delivered_record(message: MessageExt) -> Record:
    """Return the record of a delayed message as its consumers get it.

    As in RocketMQ, all properties stay, and so does the address of the broker that stored it first. Raise ValueError or
    LocalProtocolError if the properties do not name its topic and queue.
    """
    return stored_again(message, _real_topic(message.properties), _real_queue_id(message.properties))


def stored_again(message: MessageExt, topic: str, queue_id: int) -> Record:
    """Return the record that stores a message again, in this queue; nothing else changes."""
    return Record(
        topic=topic,
        body=message.stored_body,
        properties=message.raw_properties,
        queue_id=queue_id,
        tags_code=tag_code(message.properties.get(TAGS)),
        flag=message.flag,
        sys_flag=message.sys_flag,
        born_timestamp_ms=message.born_timestamp_ms,
        born_host=message.raw_born_host,
        store_host=message.raw_store_host,
        reconsume_times=message.reconsume_times,
    )


def _real_topic(properties: Mapping[str, str]) -> str:
    topic = properties.get(REAL_TOPIC, "")
    check_topic(topic)
    if topic == TRANSACTION_HALF_TOPIC:  # as in RocketMQ, nobody may consume a half message
        raise ValueError("it is a half message")
    return topic


def _real_queue_id(properties: Mapping[str, str]) -> int:
    queue_id = int(properties.get(REAL_QUEUE_ID, ""))
    if not 0 <= queue_id < 1 << 31:
        raise ValueError(f"its queue is {queue_id}")
    return queue_id
