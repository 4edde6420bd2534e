"""The index after a restart: which files and entries are good, and from where on the log has to be indexed again.

- Our mark counts, for nobody else has written since: entries before it are good. After a clean stop the file in use
  is taken as it is, after a crash its slots are made anew from its entries.
- Another broker stopped properly: its files are taken as they are. RocketMQ's stops within five seconds even if it has
  keys to write, so from its last message on the log is met again, and that message gets the keys that it lacks.
- Another broker crashed: files up to the checkpoint's index time were flushed by it. Of the next one the entries are
  kept up to the first that cannot be right, without those of the last message, and all files behind it go.
- No file is left: all of the log is indexed.
"""

from __future__ import annotations

import logging
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

from pyromq.store.index.index_checkpoint import IndexCheckpoint
from pyromq.store.index.index_directory import IndexDirectory
from pyromq.store.index.index_file import Geometry, IndexFile

if TYPE_CHECKING:
    from pyromq.store.index.index_writer import IndexWriter

logger = logging.getLogger(__name__)


class LastIndexStop(NamedTuple):
    """What is known of how the index was left."""

    clean: bool
    is_ours: bool
    index_timestamp_ms: int
    log_start: int


class LoadedIndex(NamedTuple):
    """Good files, the one to go on with if that had to be mended, and from where on keys may be missing.

    Records from `known_end` on are not in the index, but for keys of the first that have one of `known_hashes`; `start`
    is where to look for them, None if there are none.
    """

    files: list[IndexFile]
    writer: IndexWriter | None
    start: int | None
    known_end: int
    known_hashes: frozenset[int] = frozenset()


def load_index(directory: IndexDirectory, stop: LastIndexStop) -> LoadedIndex:
    """Find out what is there; raises OSError if that cannot be read."""
    saved = directory.mark.read()
    if saved is not None:
        _keep_geometry(directory, saved[1])
    files = _usable(directory, directory.list(), may_be_cut=saved is not None and not stop.clean)
    if saved is not None and stop.is_ours:
        return _resume(directory, files, saved[0], stop)
    if stop.clean:
        return _take_over(directory, files, stop)
    return _salvage(directory, files, stop)


def _keep_geometry(directory: IndexDirectory, made_with: Geometry) -> None:
    if directory.geometry != made_with and min(made_with) > 1:
        logger.warning(
            "the index keeps the layout it was made with: maxHashSlotNum=%d maxIndexNum=%d, not %d and %d",
            *made_with,
            *directory.geometry,
        )
        directory.geometry = made_with


def _usable(directory: IndexDirectory, files: list[IndexFile], *, may_be_cut: bool) -> list[IndexFile]:
    """Return the files up to the first that is none; that and all behind it are set aside.

    A crash may leave the last one short. Where the layout is not known for sure, that says nothing.
    """
    for place, file in enumerate(files):
        is_cut = may_be_cut and file is files[-1] and directory.files.size(file.path) < directory.geometry.file_size
        if not directory.has_right_size(file) and not is_cut:
            for bad in files[place:]:
                directory.set_aside(bad)
            return files[:place]
    return files


def _resume(
    directory: IndexDirectory, files: list[IndexFile], mark: IndexCheckpoint, stop: LastIndexStop
) -> LoadedIndex:
    for file in files:
        if file.number > mark.file_number:
            directory.remove(file)
    files = [file for file in files if file.number <= mark.file_number]
    if mark.file_number and (not files or files[-1].number != mark.file_number):
        logger.warning("an index file is missing file=%s", directory.file_path(mark.file_number))
        return _again_from_the_end(files, stop)
    start = max(mark.end, stop.log_start)
    if not files:
        return LoadedIndex([], None, start, start)
    last = files[-1]
    if stop.clean and last.header.next_entry == mark.next_entry and directory.has_right_size(last):
        return LoadedIndex(files, None, start, start)
    if not _is_begun(last):
        return _again_without(directory, last, files[:-1], stop)
    writer = _mend(directory, last, mark.next_entry)
    if writer.header.next_entry == mark.next_entry:
        return LoadedIndex(files[:-1], writer, start, start)
    return _drop_last_message(directory, files[:-1], writer, stop)


def _take_over(directory: IndexDirectory, files: list[IndexFile], stop: LastIndexStop) -> LoadedIndex:
    files = [file for file in files if file.header.next_entry > 1]
    if not files:
        return LoadedIndex([], None, stop.log_start, stop.log_start)
    end = files[-1].header.end_offset
    ending_there = takewhile(lambda file: file.header.end_offset == end, reversed(files))
    hashes = frozenset(key_hash for file in ending_there for key_hash in directory.last_hashes(file))
    return LoadedIndex(files, None, end, end, hashes)


def _salvage(directory: IndexDirectory, files: list[IndexFile], stop: LastIndexStop) -> LoadedIndex:
    good = list(takewhile(lambda file: _was_flushed(directory, file, stop), files))
    rest = files[len(good) :]
    for file in rest[1:]:
        directory.remove(file)
    if not rest:
        return _again_from_the_end(good, stop)
    if not _is_begun(rest[0]):
        return _again_without(directory, rest[0], good, stop)
    return _drop_last_message(directory, good, _mend(directory, rest[0], rest[0].header.next_entry), stop)


def _was_flushed(directory: IndexDirectory, file: IndexFile, stop: LastIndexStop) -> bool:
    """Tell whether a file was full and is known to be on disk: RocketMQ's brokers flush no other."""
    is_full = file.header.next_entry >= directory.geometry.entries
    return is_full and 0 < file.header.end_ms <= stop.index_timestamp_ms


def _is_begun(file: IndexFile) -> bool:
    """Tell whether a file has a header: without one nothing says when its first message was stored."""
    return file.header.next_entry > 1 and file.header.begin_ms > 0


def _mend(directory: IndexDirectory, file: IndexFile, count: int) -> IndexWriter:
    writer = directory.writer(file)
    if not directory.has_right_size(file):
        directory.files.ftruncate(writer.descriptor, directory.geometry.file_size)
    writer.rebuild(file.header._replace(next_entry=min(count, directory.geometry.entries)))
    return writer


def _drop_last_message(
    directory: IndexDirectory, files: list[IndexFile], writer: IndexWriter, stop: LastIndexStop
) -> LoadedIndex:
    # Its last entry may stand across two pages of which one was lost, and some of its keys may be missing.
    start = writer.header.end_offset
    writer.cut(start)
    if writer.header.next_entry > 1:
        return LoadedIndex(files, writer, start, start)
    writer.close()
    return _again_without(directory, writer.file, files, stop)


def _again_without(
    directory: IndexDirectory, dropped: IndexFile, files: list[IndexFile], stop: LastIndexStop
) -> LoadedIndex:
    directory.remove(dropped)
    return _again_from_the_end(files, stop)


def _again_from_the_end(files: list[IndexFile], stop: LastIndexStop) -> LoadedIndex:
    """Index again from the last message that is known: some of its keys may have gone into the next file."""
    start = max([stop.log_start, *(file.header.end_offset for file in files)])
    return LoadedIndex(files, None, start, start)
