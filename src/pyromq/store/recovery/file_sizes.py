"""How large the files of an existing store are: they keep the size they were made with, whatever is configured.

Most files of a directory have that size. A single one that is shorter than configured may also have lost its length to
a crash while it was cut: then it ends with the last entry or record that was kept. A file made smaller ends with
zeros, which nothing has filled yet.
"""

from __future__ import annotations

import logging
from collections import Counter
from itertools import islice
from typing import Final

from pyromq.store.files import OsFiles

logger = logging.getLogger(__name__)

_NAME_LENGTH: Final = 20
_TAIL: Final = 20  # a whole entry: its tags code alone may be 0
_ENTRY: Final = 20
_PAGE: Final = 4096
_QUEUES_LOOKED_AT: Final = 64


def log_file_size(files: OsFiles, directory: str, configured: int) -> int:
    """Return the size of a log's files; the configured one if there are none."""
    found = _size_in(files, directory, configured, _PAGE) or configured
    return _noted("mappedFileSizeCommitLog", found, configured)


def queue_file_size(files: OsFiles, root: str, configured: int) -> int:
    """Return the size of the files of consume queues below a directory; the configured one if there are none."""
    directories = (
        f"{root}/{topic}/{queue}"
        for topic in files.subdirectories(root)
        for queue in files.subdirectories(f"{root}/{topic}")
        if queue.isdigit()
    )
    sizes = {_size_in(files, directory, configured, _ENTRY) for directory in islice(directories, _QUEUES_LOOKED_AT)}
    found = configured if configured in sizes else max(sizes, default=0) or configured
    return _noted("mappedFileSizeConsumeQueue", found, configured)


def _size_in(files: OsFiles, directory: str, configured: int, unit: int) -> int:
    """Return what the files of a directory say; 0 if they say nothing. A size is a multiple of the unit."""
    lengths = _lengths(files, directory)
    if configured in lengths.values():
        return configured
    sizes = Counter(length for length in lengths.values() if length % unit == 0)
    if len(lengths) == 1 and sizes and not _is_whole(files, *lengths.popitem(), configured):
        return 0
    return max(sizes, key=lambda size: (sizes[size], size), default=0)


def _is_whole(files: OsFiles, path: str, length: int, configured: int) -> bool:
    does_not_fit = int(path[-_NAME_LENGTH:]) % configured != 0
    return length > configured or does_not_fit or _ends_with_zeros(files, path, length)


def _lengths(files: OsFiles, directory: str) -> dict[str, int]:
    try:
        names = [name for name in files.listdir(directory) if len(name) == _NAME_LENGTH and name.isdigit()]
    except FileNotFoundError:
        return {}
    return {path: length for name in names if (length := files.size(path := f"{directory}/{name}"))}


def _ends_with_zeros(files: OsFiles, path: str, length: int) -> bool:
    descriptor = files.open(path)
    try:
        return not any(files.pread(descriptor, _TAIL, max(length - _TAIL, 0)))
    finally:
        files.close(descriptor)


def _noted(key: str, found: int, configured: int) -> int:
    if found != configured:
        logger.warning("the store keeps the file size it was made with: %s=%d, not %d", key, found, configured)
    return found
