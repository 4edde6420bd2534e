"""The seam between the store and the operating system: every file operation of the store goes through here."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import re
import threading
from contextlib import suppress
from typing import Final, NamedTuple

from pyromq.errors import DiskFull, StoreError

_NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_NOT_SUPPORTED: Final = frozenset({errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL})

_NOWAIT: Final = getattr(os, "RWF_NOWAIT", 0)  # Linux only
_syncfs: Final = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)  # Python's os module lacks it
_MAP_FAILED: Final = ctypes.c_void_p(-1).value
_PAGES_TAKEN: Final = re.compile(rb"^(?:pgsteal_file|drop_pagecache) (\d+)$", re.MULTILINE)
_IN_MEMORY: Final = bytes(range(1, 256, 2))  # what mincore says of a page: the lowest bit counts


def _memory_calls() -> ctypes.PyDLL | None:
    """Return the system's calls that tell what is in memory; Python's mmap module lacks mincore. None without them."""
    library = ctypes.PyDLL(None)  # they do not wait, so that the interpreter's lock need not be given up for them
    try:
        library.mmap.restype = ctypes.c_void_p
        library.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_int64)
        library.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
        library.mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p)
    except AttributeError:
        return None
    return library


_libc: Final = _memory_calls()


class DiskUsage(NamedTuple):
    """Bytes in use, and bytes that are left for us: what is kept for root is neither."""

    used: int
    usable: int


class SpareDescriptors:
    """A few open descriptors that are given up when a process has run out, so that the store can go on.

    Somebody else has then opened too many files or sockets. Nothing is wrong with the store's own, and a flush that
    only lacks a descriptor must not count as one that failed.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._guard = threading.Lock()
        self._spares: list[int] = []

    @property
    def is_short(self) -> bool:
        """Whether some were given up, or not opened yet."""
        return len(self._spares) < self._count

    def fill(self) -> None:
        """Open those that are missing, as far as that is possible."""
        with self._guard, suppress(OSError):
            while len(self._spares) < self._count:
                self._spares.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))

    def open(self, path: str, flags: int, mode: int = 0o777) -> int:
        """Open a file, in place of a spare descriptor if there is no other."""
        try:
            return os.open(path, flags, mode)
        except OSError as error:
            if not is_out_of_descriptors(error):
                raise
        with self._guard:
            if self._spares:
                os.close(self._spares.pop())
            return os.open(path, flags, mode)


_spares: Final = SpareDescriptors(4)

FILE_MODE: Final = 0o640
DIRECTORY_MODE: Final = 0o750
"""Messages are nobody's business but the server's, and that of programs in its group, which may read them."""


class OsFiles:
    """The system's file calls as an object: tests put another in its place to record calls or to break disks."""

    def open(self, path: str, *, create: bool = False) -> int:
        """Open for reading and writing."""
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return _spares.open(path, flags, FILE_MODE)

    def close(self, descriptor: int) -> None:
        os.close(descriptor)
        if _spares.is_short:
            _spares.fill()

    def pread(self, descriptor: int, length: int, position: int) -> bytes:
        return os.pread(descriptor, length, position)

    def pread_cached(self, descriptor: int, buffer: bytearray | memoryview, position: int) -> int:
        """Fill a buffer with bytes that are in the system's memory; return how many, -1 if the disk has to be read.

        Fewer than asked for are the last ones of the file. Where the system cannot tell, the disk is read.
        """
        if not _NOWAIT:
            return self._fill(descriptor, buffer, position)
        try:
            count = os.preadv(descriptor, (buffer,), position, _NOWAIT)
        except BlockingIOError:
            return -1
        except OSError as error:
            if error.errno not in _NOT_SUPPORTED:
                raise
            return self._fill(descriptor, buffer, position)  # a file system that lives in memory, for example
        if count < len(buffer) and position + count < os.fstat(descriptor).st_size:
            return -1
        return count

    def _fill(self, descriptor: int, buffer: bytearray | memoryview, position: int) -> int:
        data = self.pread(descriptor, len(buffer), position)
        buffer[: len(data)] = data
        return len(data)

    def is_cached(self, descriptor: int, length: int, position: int) -> bool:
        """Return True if the system says that it has all these bytes in memory; a position begins a page.

        To a user who neither owns the file nor may write to it, Linux says that of everything.
        """
        if _libc is None:
            return False
        pages = -(-length // mmap.PAGESIZE)
        address = _libc.mmap(None, length, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, position)
        if address == _MAP_FAILED:
            return False
        found = ctypes.create_string_buffer(pages)
        failed = _libc.mincore(address, length, found)
        _libc.munmap(address, length)
        return not failed and not found.raw.strip(_IN_MEMORY)

    def pages_taken(self) -> int | None:
        """Return a number that grows whenever the system takes pages of files out of its memory; None if unknown."""
        try:
            with open("/proc/vmstat", "rb") as file:
                found = _PAGES_TAKEN.findall(file.read())
        except OSError:
            return None
        return sum(map(int, found)) if len(found) == 2 else None

    def will_need(self, descriptor: int, length: int, position: int) -> None:
        """Have the system fetch bytes from the disk, where it can, without waiting for them."""
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(descriptor, position, length, os.POSIX_FADV_WILLNEED)

    def pwrite(self, descriptor: int, data: bytes | memoryview, position: int) -> int:
        """Write what fits; may be less than all."""
        return os.pwrite(descriptor, data, position)

    def ftruncate(self, descriptor: int, length: int) -> None:
        os.ftruncate(descriptor, length)

    def fallocate(self, descriptor: int, position: int, length: int) -> None:
        """Reserve space, where the file system can."""
        try:
            os.posix_fallocate(descriptor, position, length)
        except OSError as error:
            if error.errno not in _NOT_SUPPORTED:
                raise

    def fdatasync(self, descriptor: int) -> None:
        os.fdatasync(descriptor)

    def has_data(self, descriptor: int, position: int) -> bool:
        """Tell whether anything was ever written from a position on; reserved space does not count."""
        try:
            os.lseek(descriptor, position, os.SEEK_DATA)
        except OSError as error:
            return error.errno != errno.ENXIO
        return True

    def data_ranges(self, descriptor: int, position: int) -> list[tuple[int, int]]:
        """Return where a file may hold bytes from a position on; holes and most of what is only reserved are left out.

        What was read of reserved space lies in the cache and may be among them, as zeros.
        """
        ranges: list[tuple[int, int]] = []
        stop = position
        try:
            while True:
                start = os.lseek(descriptor, stop, os.SEEK_DATA)
                stop = os.lseek(descriptor, start, os.SEEK_HOLE)
                ranges.append((start, stop))
        except OSError as error:
            if error.errno == errno.ENXIO:
                return ranges
            return [(position, os.fstat(descriptor).st_size)]

    def mmap(self, descriptor: int, length: int) -> mmap.mmap:
        """Map for reading: what is written to the file shows at once."""
        return mmap.mmap(descriptor, length, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ)

    def rename(self, source: str, target: str) -> None:
        os.replace(source, target)

    def link(self, source: str, target: str) -> None:
        """Give a file a second name."""
        os.link(source, target)

    def unlink(self, path: str) -> None:
        os.unlink(path)

    def rmdir(self, path: str) -> None:
        os.rmdir(path)

    def makedirs(self, path: str) -> None:
        """Make a directory, and those above it that are missing, for this user and its group only."""
        if os.path.isdir(path):
            return
        self.makedirs(os.path.dirname(path) or ".")
        try:
            os.mkdir(path, DIRECTORY_MODE)
        except FileExistsError:
            if not os.path.isdir(path):  # a file; another process that made the directory is welcome
                raise

    def listdir(self, path: str) -> list[str]:
        return os.listdir(path)

    def subdirectories(self, path: str) -> list[str]:
        """Return the names of directories in a directory, links not among them; none if it is missing."""
        try:
            with os.scandir(path) as entries:
                return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
        except FileNotFoundError:
            return []

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def size(self, path: str) -> int:
        return os.stat(path).st_size

    def modified_ms(self, path: str) -> int:
        """Return when a file was last written to."""
        return os.stat(path).st_mtime_ns // 1_000_000

    def disk_usage(self, path: str) -> DiskUsage:
        """Return how full the file system of a path is."""
        found = os.statvfs(path)
        return DiskUsage((found.f_blocks - found.f_bfree) * found.f_frsize, found.f_bavail * found.f_frsize)

    def mode(self, path: str) -> int:
        """Return what kind of thing a path is, and who may do what with it; a link is a link."""
        return os.lstat(path).st_mode

    def sync_directory(self, path: str) -> None:
        """Make names created, renamed and removed in a directory durable."""
        descriptor = _spares.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def sync_file_system(self, path: str) -> None:
        """Make all that was written to the file system of a directory durable: one call instead of thousands."""
        if _syncfs is None:
            os.sync()
            return
        descriptor = _spares.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            if _syncfs(descriptor) != 0:
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number))
        finally:
            os.close(descriptor)


class ReadOnlyFiles(OsFiles):
    """The calls that only look: for a directory that belongs to somebody else, or lies on a disk without writing."""

    def open(self, path: str, *, create: bool = False) -> int:
        """Open for reading."""
        if create:
            raise _read_only(path)
        return _spares.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def pwrite(self, descriptor: int, data: bytes | memoryview, position: int) -> int:
        raise _read_only()

    def ftruncate(self, descriptor: int, length: int) -> None:
        raise _read_only()

    def fallocate(self, descriptor: int, position: int, length: int) -> None:
        raise _read_only()

    def rename(self, source: str, target: str) -> None:
        raise _read_only(target)

    def link(self, source: str, target: str) -> None:
        raise _read_only(target)

    def unlink(self, path: str) -> None:
        raise _read_only(path)

    def makedirs(self, path: str) -> None:
        raise _read_only(path)


def _read_only(path: str | None = None) -> OSError:
    return OSError(errno.EROFS, "this store is only read", path)


def make_directories(files: OsFiles, path: str) -> list[str]:
    """Make a directory and those above it that are missing; return the directories in which a name was added."""
    changed = []
    missing = path
    while not files.exists(missing):
        missing = os.path.dirname(missing)
        changed.append(missing)
    if changed:
        files.makedirs(path)
    return changed


def disk_usage(files: OsFiles, path: str) -> DiskUsage:
    """Return how full the file system is on which a path lies, or will lie."""
    while not files.exists(path):
        path = os.path.dirname(path)
    return files.disk_usage(path)


def write_all(files: OsFiles, descriptor: int, data: bytes, position: int) -> None:
    """Write all of the data: the system may take it in pieces."""
    written = files.pwrite(descriptor, data, position)
    while written < len(data):
        written += files.pwrite(descriptor, memoryview(data)[written:], position + written)


def read_file(files: OsFiles, path: str, limit: int) -> bytes:
    """Return the first bytes of a file; nothing if there is none."""
    try:
        descriptor = files.open(path)
    except FileNotFoundError:
        return b""
    try:
        return files.pread(descriptor, limit, 0)
    finally:
        files.close(descriptor)


def replace_file(files: OsFiles, path: str, data: bytes) -> None:
    """Replace a small file so that after a crash either the old or the new one is there, whole."""
    temporary = path + ".tmp"
    descriptor = files.open(temporary, create=True)
    try:
        files.ftruncate(descriptor, 0)
        write_all(files, descriptor, data, 0)
        files.fdatasync(descriptor)
    finally:
        files.close(descriptor)
    files.rename(temporary, path)
    files.sync_directory(os.path.dirname(path))


def store_error(action: str, path: str, error: OSError) -> StoreError:
    """Say in the store's words what the system refused: no space is one thing, anything else another."""
    kind = DiskFull if is_no_space(error) else StoreError
    return kind(f"cannot {action} {path}: {error.strerror or error}")


def is_out_of_descriptors(error: OSError) -> bool:
    """Return True if a file could not be opened because too many are: nothing is wrong with it."""
    return error.errno in (errno.EMFILE, errno.ENFILE)


def is_no_space(error: OSError) -> bool:
    """Tell whether there is no room: space, inodes or quota."""
    return error.errno in _NO_SPACE
