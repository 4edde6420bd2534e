"""Two small files that say how far the others can be trusted after a crash.

`checkpoint` is RocketMQ's: three store times in milliseconds, then zeros up to 4096 bytes.

    log 8 | consume queues 8 | index 8          all that was stored up to a time is flushed (3 s earlier, to be safe)

`pyromq.position` is ours: the same said in bytes of the log, which is exact, and said more often. It counts only while
one of its copies equals the checkpoint: a broker that knows nothing of it changes that one when it writes.

    format 4 | flushed end of the log 8 | end of what queues have flushed 8
    copy of the checkpoint 24 | copy of the one that is about to replace it 24 | CRC-32 of all before 4
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Final, NamedTuple

from pyromq.store.files import OsFiles, read_file, replace_file
from pyromq.store.small_files.sealed_file import read_packed, replace_packed

CHECKPOINT_NAME: Final = "checkpoint"
POSITION_NAME: Final = "pyromq.position"

_CHECKPOINT_LENGTH: Final = 4096
_SAFETY_MS: Final = 3_000
_TIMES = struct.Struct(">qqq")
_POSITION = struct.Struct(">qq24s24s")


class Checkpoint(NamedTuple):
    """Store times up to which log, consume queues and index are flushed."""

    log_timestamp_ms: int = 0
    queues_timestamp_ms: int = 0
    index_timestamp_ms: int = 0

    @property
    def trusted_timestamp_ms(self) -> int:
        """What was stored up to here is in the log and in the queues."""
        return max(0, min(self.log_timestamp_ms, self.queues_timestamp_ms) - _SAFETY_MS)


class Position(NamedTuple):
    """Bytes of the log that are flushed, and that the flushed queues know of."""

    flushed: int = 0
    dispatched: int = 0


class CheckpointFiles:
    """Reads and replaces both files."""

    def __init__(self, root: Path, files: OsFiles) -> None:
        self._files = files
        self._checkpoint = str(root / CHECKPOINT_NAME)
        self._position = str(root / POSITION_NAME)
        self._times = bytes(_TIMES.size)

    def read(self) -> tuple[Checkpoint, Position | None]:
        """Return what is there: zeros for a missing checkpoint, no position if it does not count."""
        data = read_file(self._files, self._checkpoint, _TIMES.size)
        if len(data) < _TIMES.size:
            return Checkpoint(), None
        self._times = data
        return Checkpoint(*_TIMES.unpack(data)), self._read_position()

    def _read_position(self) -> Position | None:
        found = self.read_position()
        return found[0] if found and self._times in found[1] else None

    def read_position(self) -> tuple[Position, list[bytes]] | None:
        """Return our position, and the checkpoints with which it counts; None if it is missing or damaged."""
        found = read_packed(self._files, self._position, _POSITION)
        if found is None:
            return None
        flushed, dispatched, *copies = found
        return Position(flushed, dispatched), copies

    def write(self, checkpoint: Checkpoint, position: Position) -> None:
        """Replace both, the position first: it counts with the old checkpoint and with the new one."""
        times = _TIMES.pack(*checkpoint)
        self._replace_position(position, times)
        replace_file(self._files, self._checkpoint, times.ljust(_CHECKPOINT_LENGTH, b"\0"))
        self._times = times

    def write_position(self, position: Position) -> None:
        """Replace the position alone."""
        self._replace_position(position, self._times)

    def _replace_position(self, position: Position, next_times: bytes) -> None:
        replace_packed(self._files, self._position, _POSITION, *position, self._times, next_times)
