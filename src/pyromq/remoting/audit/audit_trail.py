"""AuditTrail: the audit log of a server. One line of JSON for each administrative request, in a file that is rotated.

    {"time": "2026-05-04T10:11:12.345Z", "server": "broker-a", "account": "ops", "from": "10.0.0.7:40112",
     "at": "10.0.0.1:10911", "subject": "topics", "request": "UPDATE_AND_CREATE_TOPIC", "result": "SUCCESS",
     "reason": "", "details": {"topic": "orders", …}, "before": null, "after": {"topicName": "orders", …}}

A change is written when it has its answer. Refused requests are written too, but a flood of them must not push changes
out of the files: at most ten in a second are, and the next one has in `left_out` how many were not.
"""

from __future__ import annotations

import json
import logging
import os
from collections import deque
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from pyromq.clock import Clock

logger = logging.getLogger(__name__)

FILE_NAME: Final = "audit.jsonl"
MAX_BYTES: Final = 10 << 20
"""Size at which the file becomes `audit.jsonl.1`, and the one before it `audit.jsonl.2`."""
KEPT_FILES: Final = 10
REMEMBERED: Final = 1_000
"""Newest entries that are answered without a look at the disk."""
REFUSED_A_SECOND: Final = 10
_MODE: Final = 0o640

Entry = dict[str, Any]


class AuditTrail:
    """Keeps the newest entries in memory and, with a path, all of them in files. The file is made with the first."""

    def __init__(self, server: str, path: Path | None, clock: Clock) -> None:
        self.server = server
        self.path = path
        self._clock = clock
        self._newest: deque[Entry] = deque(read_audit(path, REMEMBERED) if path else (), REMEMBERED)
        self._window = clock.monotonic()
        self._refused = 0
        self._left_out = 0
        self._has_failed = False

    def newest(self, limit: int) -> list[Entry]:
        """Return the newest entries, the oldest of them first."""
        return list(self._newest)[-limit:] if limit > 0 else []

    def write(self, entry: Mapping[str, Any], *, has_happened: bool) -> None:
        """Add an entry; one of a request that was refused may be left out."""
        if not has_happened and not self._has_room():
            self._left_out += 1
            return
        full = {"time": self._time(), "server": self.server, **entry}
        if self._left_out and not has_happened:
            full["left_out"], self._left_out = self._left_out, 0
        self._newest.append(full)
        if self.path is not None:
            self._append(self.path, full)

    def _has_room(self) -> bool:
        now = self._clock.monotonic()
        if now - self._window >= 1.0:
            self._window, self._refused = now, 0
        self._refused += 1
        return self._refused <= REFUSED_A_SECOND

    def _time(self) -> str:
        at = datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC)
        return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def _append(self, path: Path, entry: Entry) -> None:
        line = json.dumps(entry).encode() + b"\n"  # all ASCII: no stranger's text can break a line
        try:
            path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
            _rotate(path, len(line))
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, _MODE)
            try:
                os.write(descriptor, line)
            finally:
                os.close(descriptor)
            self._has_failed = False
        except OSError as error:
            if not self._has_failed:
                logger.error("the audit log cannot be written path=%s: %s", path, error)
            self._has_failed = True


def read_audit(path: Path, limit: int = REMEMBERED) -> list[Entry]:
    """Return the newest entries of an audit log and its rotated files, the oldest of them first.

    A line that is not whole, as after a power cut, is left out.
    """
    found: list[Entry] = []
    for number in range(KEPT_FILES + 1):
        if len(found) >= limit:
            break
        try:
            lines = _rotated(path, number).read_bytes().splitlines()
        except OSError:
            break
        found = [*_entries(lines[-(limit - len(found)) :]), *found]
    return found


def _entries(lines: list[bytes]) -> Iterator[Entry]:
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict):
            yield entry


def _rotated(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number}") if number else path


def _rotate(path: Path, more: int) -> None:
    if not path.exists() or path.stat().st_size + more <= MAX_BYTES:
        return
    for number in reversed(range(KEPT_FILES)):
        if _rotated(path, number).exists():
            _rotated(path, number).replace(_rotated(path, number + 1))
