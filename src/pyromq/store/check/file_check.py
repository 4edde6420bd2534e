"""The files of a store as such: names, lengths, neighbours, and what would keep RocketMQ's broker from starting."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from stat import S_ISDIR
from typing import Final

from msgspec.structs import replace

from pyromq.store.check.findings import Finding, Severity, relative
from pyromq.store.consume_queue import ENTRY_SIZE
from pyromq.store.files import OsFiles
from pyromq.store.index.index_file import NAME_LENGTH
from pyromq.store.read.file_view import Segment, find_queues, find_segments, is_segment_name

_STRAY: Final = "does not belong here; RocketMQ's broker refuses to start"


class FileCheck:
    """Checks names and lengths; `is_live` leaves out what a broker may be about to change, `is_clean` if it has."""

    def __init__(
        self, root: str, log_directories: Sequence[str], files: OsFiles, *, is_live: bool, is_clean: bool
    ) -> None:
        self._root = root
        self._log_directories = log_directories
        self._files = files
        self._is_live = is_live
        self._is_clean = is_clean

    def run(self) -> Iterator[Finding]:
        """Give what is wrong with any file."""
        yield from self._run_of_files(self._log_directories, unit=1)
        for _, _, directory in find_queues(self._root, self._files):
            yield from self._run_of_files([directory], unit=ENTRY_SIZE)
            yield from self._empty_end(directory)
        yield from self._index()

    def _run_of_files(self, directories: Sequence[str], unit: int) -> Iterator[Finding]:
        for directory in directories:
            yield from self._strays(directory)
        segments = find_segments(directories, self._files)
        if segments:
            yield from self._lengths(segments, unit)
            yield from self._holes(segments)

    def _strays(self, directory: str) -> Iterator[Finding]:
        for name in sorted(self._listdir(directory)):
            path = f"{directory}/{name}"
            if not is_segment_name(name) or self._is_directory(path):
                yield replace(self._finding(path, _STRAY), is_stray=True)

    def _lengths(self, segments: list[Segment], unit: int) -> Iterator[Finding]:
        usual = usual_size(segments)
        for segment in segments:
            is_last = segment is segments[-1]
            if segment.size != usual and not (is_last and self._is_live):
                yield self._finding(
                    segment.path, f"has {segment.size} bytes, the others have {usual}", min(segment.size, usual)
                )
            elif segment.base % usual or usual % unit:
                yield self._finding(segment.path, f"its name is no multiple of its {usual} bytes")

    def _holes(self, segments: list[Segment]) -> Iterator[Finding]:
        usual = usual_size(segments)
        for before, after in pairwise(segments):
            if after.base < before.base + usual:
                yield self._finding(after.path, f"begins before the end of {relative(before.path, self._root)}")
            elif after.base > before.base + usual:
                missing = before.path[: -len(f"{0:020d}")] + f"{before.base + usual:020d}"
                count = (after.base - before.base) // usual - 1
                yield self._finding(missing, f"is missing: {count} file(s) before {relative(after.path, self._root)}")

    def _empty_end(self, directory: str) -> Iterator[Finding]:
        """Look for a last file that holds nothing: RocketMQ's brokers take it for entries, but for those of a crash."""
        segments = find_segments([directory], self._files)
        if not segments or self._is_live or any(self._first_bytes(segments[-1])):
            return
        finding = self._finding(segments[-1].path, "holds no entry; RocketMQ's broker would see messages in it", 0)
        if self._is_clean:
            yield finding
        else:
            yield replace(finding, severity=Severity.NOTE, text="holds no entry yet: the next start sees to it")

    def _first_bytes(self, segment: Segment) -> bytes:
        descriptor = self._files.open(segment.path)
        try:
            return self._files.pread(descriptor, ENTRY_SIZE, 0)
        finally:
            self._files.close(descriptor)

    def _index(self) -> Iterator[Finding]:
        for name in sorted(self._listdir(f"{self._root}/index")):
            if len(name) != NAME_LENGTH or not name.isdecimal():
                path = f"{self._root}/index/{name}"
                yield self._finding(path, "is no index file, and is not read", severity=Severity.NOTE)

    def _listdir(self, directory: str) -> list[str]:
        try:
            return self._files.listdir(directory)
        except FileNotFoundError:
            return []

    def _is_directory(self, path: str) -> bool:
        try:
            return S_ISDIR(self._files.mode(path))
        except FileNotFoundError:
            return False

    def _finding(
        self, path: str, text: str, offset: int | None = None, severity: Severity = Severity.PROBLEM
    ) -> Finding:
        return Finding(severity=severity, kind="file", file=relative(path, self._root), offset=offset, text=text)


def usual_size(segments: Sequence[Segment]) -> int:
    """Return the length that files of one run were made with: the one most of them have, the larger of two."""
    sizes = Counter(segment.size for segment in segments if segment.size)
    return max(sizes, key=lambda size: (sizes[size], size), default=1)
