"""Makes the system forget the files of a running broker, so that it reads them from the disk again. Linux, as root.

Pages that a process has mapped stay in memory when a file is to be dropped, so they are taken from the processes first.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

_MADV_PAGEOUT = 21
_PROCESS_MADVISE, _CACHESTAT = 440, 451  # the same numbers on all architectures
_libc = ctypes.CDLL(None, use_errno=True)


class _Area(ctypes.Structure):
    _fields_ = (("start", ctypes.c_void_p), ("length", ctypes.c_size_t))


class _Range(ctypes.Structure):
    _fields_ = (("offset", ctypes.c_uint64), ("length", ctypes.c_uint64))


class _Counts(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint64) for name in ("cache", "dirty", "writeback", "evicted", "recently_evicted"))


def forget(files: Iterable[Path], pids: Iterable[int]) -> float:
    """Drop files from memory; return how many MiB of them are still there."""
    paths = {path.resolve() for path in files}
    os.sync()
    for pid in pids:
        _page_out(pid, list(_areas(pid, {str(path) for path in paths})))
    left = 0
    for path in paths:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            left += _cached(descriptor)
        finally:
            os.close(descriptor)
    return left * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def _areas(pid: int, paths: set[str]) -> Iterator[tuple[int, int]]:
    """Yield start and length of a process's mappings of these files."""
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        place, *_, path = line.split(maxsplit=5)
        if path in paths:
            start, end = (int(part, 16) for part in place.split("-"))
            yield start, end - start


def _page_out(pid: int, areas: Sequence[tuple[int, int]]) -> None:
    descriptor = os.pidfd_open(pid)
    try:
        for start, length in areas:
            area = _Area(start, length)
            _libc.syscall(_PROCESS_MADVISE, descriptor, ctypes.byref(area), 1, _MADV_PAGEOUT, 0)
    finally:
        os.close(descriptor)


def _cached(descriptor: int) -> int:
    """Return how many pages of a file are in memory."""
    whole, counts = _Range(0, 0), _Counts()
    if _libc.syscall(_CACHESTAT, descriptor, ctypes.byref(whole), ctypes.byref(counts), 0):
        raise OSError(ctypes.get_errno(), "cachestat: this kernel is older than 6.5")
    return int(counts.cache)
