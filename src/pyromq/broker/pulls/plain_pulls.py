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
from pyromq.lane.pull_passes import GetCount, QuickNote
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
        self.peer = ""
        """Who is being served."""
        self.since = 0.0
        """When the pull that is being served began to be read, by perf_counter()."""
        self.offsets = parts.offsets
        self.stats = parts.stats
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
        self.peer, self.since = peer, perf_counter()
        found = self.reader.get(
            *(header.topic, header.queue_id, header.queue_offset, header.max_msg_nums, header.max_bytes),
            *(codes, suggest, opaque),
        )
        if found is None:
            return None
        frame, messages, size, max_offset = found
        is_noted = PullNotes(self, header).note(header.commit_offset, max_offset, messages, size)
        return frame if is_noted else None

    def commit(self, header: PullMessageRequestHeader, commit_offset: int) -> None:
        """Note a group's progress that is no mere step forward: there may be something to log."""
        served, Serving.peer = Serving.peer, self.peer
        try:
            self.offsets.commit(
                *(header.consumer_group, header.topic, header.queue_id, commit_offset, self.peer),
                only_forward=bool(header.sys_flag & PULL_FORWARD_FLAG),
            )
        finally:
            Serving.peer = served


class PullNotes:
    """Notes what pulls have consumed and what they get; they differ in their offsets only."""

    __slots__ = ("_advance", "_commits", "_count", "_header", "_is_forward", "_key", "_pulls", "_queue_id", "_stats")

    def __init__(self, pulls: PlainPulls, header: PullMessageRequestHeader) -> None:
        self._pulls = pulls
        self._header = header
        self._commits = bool(header.sys_flag & PULL_COMMIT_OFFSET_FLAG)
        self._is_forward = bool(header.sys_flag & PULL_FORWARD_FLAG)
        self._key = row_key(header.topic, header.consumer_group)
        self._queue_id = header.queue_id
        self._advance = pulls.offsets.advance
        self._stats = pulls.stats
        self._count: GetCount | None = None

    def note(self, commit_offset: int, end: int, messages: int, size: int) -> bool:
        """Note a pull before it is answered; return False if it must be served as usual."""
        # One that is ahead of the queue and may only go forward belongs to a topic that was deleted.
        commits = self._commits and not (self._is_forward and commit_offset > end)
        if commits and not self._advance(self._key, self._queue_id, commit_offset):
            try:
                self._pulls.commit(self._header, commit_offset)
            except BrokerError:
                return False
        count = self._count or self._find_count()
        pulls, now = self._pulls, perf_counter()
        took_ms = (now - pulls.since) * 1000
        pulls.since = now
        count.messages += messages
        count.bytes += size
        count.calls += 1
        count.read_ms += took_ms
        if took_ms > self._stats.longest_get_ms:
            self._stats.longest_get_ms = took_ms
        return True

    def _find_count(self) -> GetCount:
        self._count = self._stats.count_of(self._header.topic, self._header.consumer_group)
        return self._count

    def quick_note(self) -> QuickNote:
        """Return the same for a PullPass, which leaves it to `note` if a commit is no mere step forward."""
        offsets = self._pulls.offsets
        return QuickNote(
            *(offsets, offsets.saver, offsets.changed_keys, offsets.changed_keys.fresh, self._key, self._queue_id),
            *(self._commits, self._is_forward, self._stats, self._count or self._find_count()),
        )
