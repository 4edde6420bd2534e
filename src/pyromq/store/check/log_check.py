"""Every record of the log: sizes, magic, checksum, its own offset, one after the other, blank records at file ends.

A bad record is damage if the log is known to go on behind it, and the end of the log otherwise: a broker may leave
anything behind its end. After damage the next record that stands at its own offset is looked for.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from pyromq.store.check.findings import Finding, relative
from pyromq.store.files import OsFiles
from pyromq.store.read.file_view import SegmentView
from pyromq.store.read.log_walk import LogWalk, WalkedRecord
from pyromq.store.segments import DescriptorPool
from pyromq.store.small_files.fences import FencedRange

_PAGE: Final = 4096
_PROGRESS_STEP: Final = 8 << 20


class KnownEnd(NamedTuple):
    """What is known of the log's end before it is read."""

    end: int
    """Records before this were stored for certain."""
    named: Mapping[int, int]
    """Where queues say that records begin, the last of each, and how large these are."""


class LogCheck:
    """Walks the log once; `end`, `damage` and `last_timestamp_ms` are known when that is done."""

    def __init__(
        self,
        segments: SegmentView,
        root: str,
        known: KnownEnd,
        fences: list[FencedRange],
        on_progress: Callable[[int], None],
    ) -> None:
        self._segments = segments
        self._root = root
        self._known = known
        self._fences = fences
        self._on_progress = on_progress
        self.end = segments.start
        """Behind the last sound record."""
        self.records = 0
        self.last_timestamp_ms = 0
        self.damage: list[range] = []

    def run(self) -> Iterator[WalkedRecord | Finding]:
        """Give every sound record, and a finding for every place that should have one."""
        walk = LogWalk(self._segments, self._segments.start)
        told = walk.position
        while True:
            for record in walk.records(self._segments.stop):
                if self._fences and self._is_fenced(record[0], walk.position):
                    yield self._damaged(record[0], walk.position)
                    continue
                self.records += 1
                self.last_timestamp_ms = record[5]
                yield record
                if walk.position - told > _PROGRESS_STEP:
                    told = walk.position
                    self._on_progress(told)
            self.end = walk.position
            if not self._goes_on(walk):
                return
            yield self._damaged(self.end, walk.position)

    def _goes_on(self, walk: LogWalk) -> bool:
        """Move over damage; False if this is the end of the log."""
        position = walk.position
        segment = self._segments.find(position)
        if position >= self._known.end:
            walk.position += self._known.named.get(position, 0)
        elif segment is None:  # a file is missing, or short
            later = (one.base for one in self._segments.segments if one.base > position)
            walk.position = next(later, self._known.end)
        else:
            walk.find_next(min(self._known.end, segment.end))
        return position < walk.position

    def _damaged(self, start: int, stop: int) -> Finding:
        self.damage.append(range(start, stop))
        file_start = self._segments.file_start(start)
        finding = Finding(
            kind="record",
            file=relative(self._segments.path(file_start), self._root),
            offset=start - file_start,
            text=f"no sound record at physical offset {start}; {stop - start} bytes up to {stop} cannot be read",
        )
        return finding.as_note(", and are fenced") if self._is_fenced(start, stop) else finding

    def _is_fenced(self, start: int, stop: int) -> bool:
        return any(fence.start <= start and stop <= fence.end for fence in self._fences)


class TolerantSegments(SegmentView):
    """Files on a disk that may fail: a page that it does not give counts as zeros, and is remembered."""

    __slots__ = ("unreadable",)

    def __init__(self, directories: Sequence[str], files: OsFiles, pool: DescriptorPool) -> None:
        super().__init__(directories, files, pool)
        self.unreadable: dict[int, str] = {}

    def pread(self, position: int, length: int) -> bytes:
        """Read what the disk gives."""
        try:
            return super().pread(position, length)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
        stop = position + length
        return b"".join(self._page(start, min(_PAGE, stop - start)) for start in range(position, stop, _PAGE))

    def _page(self, position: int, length: int) -> bytes:
        try:
            return super().pread(position, length)
        except OSError as error:
            self.unreadable[position] = error.strerror or str(error)
            return bytes(length)

    def findings(self, root: str) -> Iterator[Finding]:
        """Name the pages that the disk did not give."""
        for position, reason in sorted(self.unreadable.items()):
            start = self.file_start(position)
            text = f"the disk does not give this page: {reason}"
            yield Finding(kind="record", file=relative(self.path(start), root), offset=position - start, text=text)
