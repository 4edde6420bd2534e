"""PlainBatches: the broker's side of the lane for batches.

The send handler has read the header of a batch and chosen its queue. If nothing about its messages is rare, the lane
(`lane/batches.py`) makes their records, entries, keys and ids in two calls; else the handler looks at each of them.
"""

from __future__ import annotations

from pyromq.broker.messages.sent_properties import PropertyWriter
from pyromq.broker.parts import Parts, Writing
from pyromq.broker.tables.topic_table import Topic
from pyromq.errors import BrokerError
from pyromq.lane.batches import Run, batch_lane, shared_head
from pyromq.protocol.headers.send import SendMessageRequestHeader
from pyromq.protocol.messages.record import TRANSACTION_MASK, V6_FLAGS
from pyromq.store.write.appender import RunPlace


class PlainBatches:
    """Lets the messages of plain batches join the store's open group."""

    def __init__(self, parts: Parts, writing: Writing, properties: PropertyWriter) -> None:
        self._store = writing.store
        self._properties = properties
        self._place = writing.store.lane_place()
        self._lane = batch_lane()
        self._store_host = parts.store_host
        self._id_prefix = parts.store_host.hex().upper().encode()
        self._suffix: tuple[str | None, bytes] | None = None
        """The properties of the last batch's header, and what its messages got from them: mostly they stay the same."""

    def put(
        self, header: SendMessageRequestHeader, body: bytes, topic: Topic, queue_id: int, born_host: bytes
    ) -> RunPlace | None:
        """Let all messages of a batch join; None if it is not plain, and nothing has changed.

        Raises DiskFull or another StoreError, as the store does: then nothing has changed either.
        """
        place = self._place
        queue = place.queues.by_topic.get(topic.name, {}).get(queue_id)
        sys_flag = (header.sys_flag | topic.sys_flag) & ~V6_FLAGS
        if (
            queue is None
            or sys_flag & TRANSACTION_MASK
            or len(body) > place.max_body
            or len(born_host) != 8
            or len(self._store_host) != 8
            or not self._store.writable
        ):
            return None
        name, suffix = queue.topic_name, self._suffix_for(header.properties)
        if suffix is None:
            return None
        measured = self._lane.measure(body, name, suffix, place.max_record, self._lane.most)
        if measured is None:
            return None
        indexed = topic.name if place.has_index else None

        def lay_out(position: int, queue_offset: int, now_ms: int) -> Run:
            fields = queue_id, sys_flag, header.born_timestamp, born_host, now_ms, self._store_host
            head = shared_head(*fields, header.reconsume_times or 0)
            return self._lane.lay_out(
                body, head, name, suffix, self._id_prefix, indexed, position, queue_offset, now_ms
            )

        count, size = measured
        stored = place.groups.put_run(queue, count, size, lay_out)
        topic.count_put(size, count)
        return stored

    def _suffix_for(self, sent: str | None) -> bytes | None:
        if self._suffix is None or self._suffix[0] != sent:
            try:
                self._suffix = sent, self._properties.batch_suffix(sent)
            except BrokerError:  # delayed, or part of a transaction
                return None
        return self._suffix[1]
