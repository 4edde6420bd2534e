"""PlainPulls: pulls about which nothing is special, answered in as few steps as there can be.

Nearly all pulls with messages are such: of a group and topic that are well, by tags at most, from the end of the log.
The answer, the committed offset and the counts are those of the ordinary path. Whatever is not plain is left to that
one, with nothing changed.
"""

from __future__ import annotations

from time import perf_counter

from pyromq.broker.parts import Parts
from pyromq.broker.pulls.selection import MessageFilter
from pyromq.broker.tables.consumer_offsets import row_key
from pyromq.errors import BrokerError
from pyromq.lane.pull_answers import packed_codes
from pyromq.protocol.codes import PULL_COMMIT_OFFSET_FLAG, PULL_FORWARD_FLAG
from pyromq.protocol.headers.pull import PullMessageRequestHeader
from pyromq.remoting.round import Serving
from pyromq.store.message_store import MessageStore


class PlainPulls:
    """Answers plain pulls that have been checked."""

    def __init__(self, parts: Parts) -> None:
        store = parts.store
        self.reader = store.plain_reader if isinstance(store, MessageStore) else None
        """What reads for plain pulls; None if there can be none of this store."""
        self._offsets = parts.offsets
        self._stats = parts.stats
        self._lives = parts.lives

    def answer(
        self, header: PullMessageRequestHeader, wanted: MessageFilter, suggest: int, opaque: int, peer: str
    ) -> bytes | None:
        """Return the answer to a pull whose header is JSON; None if it is not plain."""
        codes = None
        if wanted.codes is not None:
            codes = packed_codes(wanted.codes)
            if codes is None:
                return None
        if wanted.properties is not None or (header.pyromq_deleted_at == -1 and self._lives.of(header.topic)):
            return None
        if self.reader is None:
            return None
        topic, group = header.topic, header.consumer_group
        started = perf_counter()
        found = self.reader.get(
            topic, header.queue_id, header.queue_offset, header.max_msg_nums, header.max_bytes, codes, suggest, opaque
        )
        if found is None:
            return None
        frame, messages, size, max_offset = found
        if header.sys_flag & PULL_COMMIT_OFFSET_FLAG:
            # One that is ahead of the queue and may only go forward belongs to a topic that was deleted.
            offset = header.commit_offset
            is_odd = header.sys_flag & PULL_FORWARD_FLAG and offset > max_offset
            if not is_odd and not self._offsets.advance(row_key(topic, group), header.queue_id, offset):
                try:
                    self.commit(header, offset, peer)
                except BrokerError:
                    return None
        self._stats.count_get(topic, group, messages, size, (perf_counter() - started) * 1000)
        return frame

    def commit(self, header: PullMessageRequestHeader, commit_offset: int, peer: str) -> None:
        """Note a group's progress that is no mere step forward: there may be something to log."""
        served, Serving.peer = Serving.peer, peer
        try:
            self._offsets.commit(
                *(header.consumer_group, header.topic, header.queue_id, commit_offset, peer),
                only_forward=bool(header.sys_flag & PULL_FORWARD_FLAG),
            )
        finally:
            Serving.peer = served
