"""The small files of a store: the tables in `config`, the checkpoint, and those of ours."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from pyromq.errors import ProtocolError
from pyromq.protocol.bodies.fastjson import loads
from pyromq.store.check.findings import Finding, Severity
from pyromq.store.files import OsFiles, read_file
from pyromq.store.index.index_checkpoint import INDEX_CHECKPOINT_NAME, IndexCheckpointFile
from pyromq.store.retention.deletions import DELETIONS_NAME
from pyromq.store.small_files.checkpoint import CHECKPOINT_NAME, POSITION_NAME, Checkpoint, CheckpointFiles
from pyromq.store.small_files.confirmed_end import CONFIRMED_NAME, ConfirmedLog
from pyromq.store.small_files.fences import FENCES_NAME, FencedRange
from pyromq.store.small_files.json_file import unsealed
from pyromq.store.small_files.queue_ends import QUEUES_NAME, EndsByTopic
from pyromq.store.small_files.sealed_file import read_sealed
from pyromq.store.small_files.table_file import read_with_journal
from pyromq.store.small_files.table_formats import TABLE_FORMATS
from pyromq.store.small_files.table_journal import JOURNAL

CONFIG_NAME: Final = "config"
BACKUP: Final = ".bak"

_MOST_BYTES: Final = 1 << 30
_TIMES = struct.Struct(">qqq")
_TIME_NAMES: Final = ("log", "consume queues", "index")


def delay_offsets(text: bytes) -> dict[int, int]:
    """Read delayOffset.json: how far each delay level is."""
    table: dict[str, Any] = loads(text).get("offsetTable", {})
    return {int(level): int(offset) for level, offset in table.items()}


TABLES: Final[dict[str, Callable[[bytes], Any]]] = {
    **{format.name: format.decode for format in TABLE_FORMATS},
    "delayOffset.json": delay_offsets,
}
"""How each table is read; others are read as any JSON."""


class TableCheck:
    """Reads every table, its backup and its journal."""

    def __init__(self, root: str, files: OsFiles) -> None:
        self._directory = f"{root}/{CONFIG_NAME}"
        self._files = files

    def run(self) -> Iterator[Finding]:
        """Give the tables that cannot be read."""
        try:
            names = self._files.listdir(self._directory)
        except FileNotFoundError:
            return
        for name in sorted(names):
            if name.endswith(JOURNAL):
                yield from self._journal(name)
            elif name.removesuffix(BACKUP).endswith(".json") and (reason := self.unreadable(name)):
                yield Finding(kind="table", file=f"{CONFIG_NAME}/{name}", text=reason)

    def _journal(self, name: str) -> Iterator[Finding]:
        file = f"{CONFIG_NAME}/{name}"
        table = next((format for format in TABLE_FORMATS if format.name + JOURNAL == name), None)
        found = None if table is None else read_with_journal(Path(self._directory), table, self._files)
        if found is None or found.is_foreign:
            text = "does not belong to the table, and is left out"
            yield Finding(severity=Severity.NOTE, kind="table", file=file, text=text)
            return
        if found.damaged:
            yield Finding(kind="table", file=file, text=f"{found.damaged} lines cannot be read")
        if found.folded:
            text = f"{found.folded} changes are not in the table yet: a start or a repair of ours folds them in"
            yield Finding(severity=Severity.NOTE, kind="table", file=file, text=text)

    def unreadable(self, name: str) -> str:
        """Return why a table cannot be read; empty if it can."""
        text = read_file(self._files, f"{self._directory}/{name}", _MOST_BYTES)
        if not text.strip():
            return "is empty"
        try:
            TABLES.get(name.removesuffix(BACKUP), loads)(unsealed(text))
        except (ProtocolError, ValueError, TypeError, AttributeError) as error:
            return f"cannot be read: {error}"
        return ""


class SmallFileCheck:
    """Checks the checkpoint and the files that are ours."""

    def __init__(self, root: str, files: OsFiles) -> None:
        self._root = root
        self._files = files

    def run(self, log_end: int, last_timestamp_ms: int, *, is_settled: bool) -> Iterator[Finding]:
        """Give what cannot be; `is_settled` if no broker is at work and the last one stopped cleanly."""
        yield from self._checkpoint(last_timestamp_ms)
        if is_settled:
            yield from self._copy_of_checkpoint(log_end, last_timestamp_ms)
        for name, is_sound in (
            (POSITION_NAME, self._has_sound_position),
            (FENCES_NAME, lambda: self._sealed(FENCES_NAME, list[FencedRange])),
            (QUEUES_NAME, lambda: self._sealed(QUEUES_NAME, EndsByTopic)),
            (CONFIRMED_NAME, lambda: self._sealed(CONFIRMED_NAME, ConfirmedLog)),
            (DELETIONS_NAME, lambda: self._sealed(DELETIONS_NAME, dict[str, int])),
            (INDEX_CHECKPOINT_NAME, lambda: IndexCheckpointFile(Path(self._root), self._files).read() is not None),
        ):
            if self._files.exists(f"{self._root}/{name}") and not is_sound():
                yield Finding(kind="checkpoint", file=name, offset=0, text="does not match its own checksum")

    def _checkpoint(self, last_timestamp_ms: int) -> Iterator[Finding]:
        data = read_file(self._files, f"{self._root}/{CHECKPOINT_NAME}", _MOST_BYTES)
        if not data:
            return
        if len(data) < _TIMES.size:
            yield self._wrong(0, f"has {len(data)} bytes, three times take {_TIMES.size}")
            return
        for index, timestamp_ms in enumerate(_TIMES.unpack_from(data)):
            if timestamp_ms < 0 or (last_timestamp_ms and timestamp_ms > last_timestamp_ms):
                text = f"the time of the {_TIME_NAMES[index]} is {timestamp_ms}, the last message's {last_timestamp_ms}"
                yield self._wrong(8 * index, text)
        rest = data[_TIMES.size :]
        if rest.strip(b"\0"):
            zeros = len(rest) - len(rest.lstrip(b"\0"))
            yield self._wrong(_TIMES.size + zeros, "only three times belong here, and zeros")

    def _copy_of_checkpoint(self, log_end: int, last_timestamp_ms: int) -> Iterator[Finding]:
        """Compare the checkpoint with its copies in our position, unless another broker has written since."""
        files = CheckpointFiles(Path(self._root), self._files)
        found = files.read_position()
        if found is None or found[0].flushed != log_end:
            return
        checkpoint, position = files.read()
        ours = {Checkpoint(*_TIMES.unpack(copy)).queues_timestamp_ms for copy in found[1]}
        # After a crash of ours another broker reads the log again, and then says so even if it has stored nothing.
        was_read_again = checkpoint.queues_timestamp_ms == last_timestamp_ms and last_timestamp_ms not in ours
        if position is None and not was_read_again:
            yield self._wrong(0, f"differs from its copy in {POSITION_NAME}, although nothing was stored since")

    def _has_sound_position(self) -> bool:
        return CheckpointFiles(Path(self._root), self._files).read_position() is not None

    def _sealed(self, name: str, kind: type[Any]) -> bool:
        return read_sealed(self._files, f"{self._root}/{name}", kind) is not None

    def _wrong(self, offset: int, text: str) -> Finding:
        return Finding(severity=Severity.PROBLEM, kind="checkpoint", file=CHECKPOINT_NAME, offset=offset, text=text)
