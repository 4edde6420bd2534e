"""OFFSET_MOVED_EVENT: a message for every pull that asks for an offset that does not exist, for monitoring.

A consumer that keeps asking would fill the log, so a group is recorded once a second for each queue, and the number of
events a second is limited.
"""

from __future__ import annotations

import logging
import math

from pyromq.broker.parts import Parts, Writing
from pyromq.errors import StoreError
from pyromq.protocol.bodies import OffsetMovedEvent, encode
from pyromq.protocol.headers.pull import PullMessageRequestHeader
from pyromq.protocol.messages.message import MessageQueue
from pyromq.protocol.messages.properties import KEYS, TAGS, encode_properties
from pyromq.protocol.messages.record import Record
from pyromq.protocol.names import OFFSET_MOVED_TOPIC
from pyromq.protocol.tag_filter import tag_code
from pyromq.store.results import GetResult

logger = logging.getLogger(__name__)

QUIET_TIME = 1.0
MOST_EVENTS = 100  # within QUIET_TIME


class OffsetMovedEvents:
    """Records in a system topic which groups asked for a wrong offset."""

    def __init__(self, parts: Parts, writing: Writing) -> None:
        self._store_host = parts.store_host
        self._broker_name = parts.name
        self._clock = parts.clock
        self._store = writing.store
        self._topics = parts.topics
        self._acknowledgements = writing.acknowledgements
        self._noted: set[tuple[str, str, int]] = set()
        self._noted_since = -math.inf

    def moved(self, header: PullMessageRequestHeader, result: GetResult) -> None:
        """Record that a group asked for one offset and was sent to another."""
        if not self._is_due(header):
            return
        event = OffsetMovedEvent(
            consumer_group=header.consumer_group,
            message_queue=MessageQueue(header.topic, self._broker_name, header.queue_id),
            offset_request=header.queue_offset,
            offset_new=result.next_offset,
        )
        logger.info(
            "offset moved group=%s topic=%s queue=%d from=%d to=%d",
            *(header.consumer_group, header.topic, header.queue_id, header.queue_offset, result.next_offset),
        )
        self._put(header.consumer_group, encode(event))

    def _is_due(self, header: PullMessageRequestHeader) -> bool:
        now = self._clock.monotonic()
        if now - self._noted_since >= QUIET_TIME:
            self._noted.clear()
            self._noted_since = now
        key = header.consumer_group, header.topic, header.queue_id
        if key in self._noted or len(self._noted) >= MOST_EVENTS:
            return False
        self._noted.add(key)
        return True

    def _put(self, group: str, body: bytes) -> None:
        topic = self._topics.ensure(OFFSET_MOVED_TOPIC, 1, "for pulls of offsets that are not there")
        record = Record(
            topic=topic.name,
            body=body,
            properties=encode_properties({KEYS: group, TAGS: group}).encode(),
            tags_code=tag_code(group),
            born_timestamp_ms=self._clock.now_ms(),
            born_host=self._store_host,
            store_host=self._store_host,
        )
        try:
            stored = self._store.put(record)
        except StoreError as error:
            logger.debug("the event was not stored: %s", error)
            return
        topic.count_put(stored.size)
        self._acknowledgements.expect_group()
