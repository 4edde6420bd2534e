"""delayOffset.json: how far each delay level is delivered, in RocketMQ's form.

    {"offsetTable":{1:3,2:4}, "pyromqLogOffset":81920}

A member of ours says from where on the log may hold deliveries that are not counted in the table: after a kill they
are looked for from there, and nowhere else. Other brokers leave it out when they write the file.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from pyromq.broker.tables.saver import Saver
from pyromq.protocol.bodies.fastjson import dumps_pretty, loads
from pyromq.store.small_files.json_file import JsonFile


class DelayProgress(NamedTuple):
    """The next entry to deliver, by level, and the offset of the log behind which that may be out of date."""

    offsets: dict[int, int]
    log_offset: int | None = None


class DelayOffsets:
    """The file, and what is to be in it."""

    def __init__(self, file: JsonFile) -> None:
        self._file = file
        self.saved = DelayProgress({})
        self.saver = Saver(file, lambda: self.saved, encode_progress)

    def load(self) -> DelayProgress:
        """Return what the file says; an empty table where there is none."""
        self.saved = self._file.load(decode_progress) or DelayProgress({})
        return self.saved

    def save(self, progress: DelayProgress) -> None:
        """Have the file say this soon."""
        self.saved = progress
        self.saver.request()


def encode_progress(progress: DelayProgress) -> bytes:
    """Return the text of delayOffset.json."""
    table: dict[str, object] = {"offsetTable": progress.offsets}
    if progress.log_offset is not None:
        table["pyromqLogOffset"] = progress.log_offset
    return dumps_pretty(table)


def decode_progress(text: bytes) -> DelayProgress:
    """Read delayOffset.json, whoever wrote it."""
    table: dict[str, Any] = loads(text)
    offsets = {int(level): int(offset) for level, offset in table.get("offsetTable", {}).items()}
    log_offset = table.get("pyromqLogOffset")
    return DelayProgress(offsets, None if log_offset is None else int(log_offset))
