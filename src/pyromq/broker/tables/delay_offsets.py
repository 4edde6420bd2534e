"""delayOffset.json: how far each delay level has been delivered, in RocketMQ's format.

    {"offsetTable":{1:3,2:4}, "pyromqLogOffset":81920}

pyromqLogOffset is ours: from there on the log may hold deliveries that the table does not count. After a kill they are
searched for from that offset only. RocketMQ's brokers ignore it and drop it when they write the file.
"""

from __future__ import annotations

from concurrent.futures import Executor
from typing import Any, NamedTuple

from pyromq.broker.tables.saver import Saver
from pyromq.protocol.bodies.fastjson import dumps_pretty, loads
from pyromq.store.small_files.json_file import JsonFile


class DelayProgress(NamedTuple):
    """The next entry to deliver by level, and from where on the log may hold deliveries not counted there."""

    offsets: dict[int, int]
    log_offset: int | None = None


class DelayOffsets:
    """The file and its contents."""

    def __init__(self, file: JsonFile, executor: Executor | None = None) -> None:
        self._file = file
        self.saved = DelayProgress({})
        """What is in the file, or will be soon."""
        self.mark = 0
        """Grows with every change, for slaves."""
        self.saver = Saver(file, lambda: self.saved, encode_progress, executor)

    def load(self) -> DelayProgress:
        """Return the contents of the file; an empty table if there is none."""
        self.saved = self._file.load(decode_progress) or DelayProgress({})
        return self.saved

    def save(self, progress: DelayProgress) -> None:
        """Save this progress soon."""
        self.saved = progress
        self.mark += 1
        self.saver.request()


def encode_progress(progress: DelayProgress) -> bytes:
    """Return the text of delayOffset.json."""
    table: dict[str, object] = {"offsetTable": progress.offsets}
    if progress.log_offset is not None:
        table["pyromqLogOffset"] = progress.log_offset
    return dumps_pretty(table)


def decode_progress(text: bytes) -> DelayProgress:
    """Read delayOffset.json, whether we or RocketMQ wrote it."""
    table: dict[str, Any] = loads(text)
    offsets = {int(level): int(offset) for level, offset in table.get("offsetTable", {}).items()}
    log_offset = table.get("pyromqLogOffset")
    return DelayProgress(offsets, None if log_offset is None else int(log_offset))
