"""AuditLog: who changed what through the console, one line of JSON for each change, in a file of bounded size.

Every change is written, those that failed and those that were refused too. Bodies and secrets are not.
"""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

logger = logging.getLogger(__name__)

MOST_BYTES: Final = 16 * 1024 * 1024
"""Size at which a file is put aside; one old file is kept."""
REMEMBERED: Final = 10_000
_LONGEST: Final = 2_000
_SECRET: Final = ("password", "secret", "csrf", "token", "body", "descriptor")


class ConsoleAuditEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One change."""

    at: float
    user: str
    """Empty where nobody signs in."""
    role: str
    address: str
    action: str
    target: str = ""
    path: str = ""
    fields: Mapping[str, str] = {}
    """What the form held, without secrets and bodies."""
    before: Any = None
    after: Any = None
    result: str = "done"
    """`done`, `failed` or `refused`."""
    reason: str = ""


class AuditLog:
    """Writes entries and keeps the last of them."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._entries: deque[ConsoleAuditEntry] = deque(maxlen=REMEMBERED)

    def load(self) -> None:
        """Read what was written before."""
        if self._path is None:
            return
        for path in (self._old, self._path):
            try:
                lines = path.read_bytes().splitlines() if path is not None else []
            except OSError:
                continue
            for line in lines[-REMEMBERED:]:
                try:
                    self._entries.append(msgspec.json.decode(line, type=ConsoleAuditEntry))
                except msgspec.MsgspecError:
                    continue  # the end of a line that a crash cut off

    def add(self, entry: ConsoleAuditEntry) -> None:
        """Keep an entry; one that cannot be written to disk is in the log of the server."""
        self._entries.append(entry)
        logger.info(
            "console change user=%s address=%s action=%r target=%r result=%s",
            *(entry.user, entry.address, entry.action, entry.target, entry.result),
        )
        if self._path is None:
            return
        try:
            self._write(msgspec.json.encode(entry, enc_hook=str) + b"\n")
        except OSError as error:
            logger.error("the audit log cannot be written: %s", error)

    def entries(self, *, limit: int = 100, before: float | None = None) -> list[ConsoleAuditEntry]:
        """Return the newest entries first; with `before`, only those that are older."""
        found = [entry for entry in reversed(self._entries) if before is None or entry.at < before]
        return found[:limit]

    @property
    def _old(self) -> Path | None:
        return None if self._path is None else self._path.with_suffix(".old.jsonl")

    def _write(self, line: bytes) -> None:
        assert self._path is not None
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as file:
            file.write(line)
            size = file.tell()
        if size > MOST_BYTES and self._old is not None:
            self._path.replace(self._old)


def shown_fields(fields: Mapping[str, str]) -> dict[str, str]:
    """Return what of a form goes into the audit log."""
    return {name: text[:_LONGEST] for name, text in fields.items() if not any(word in name.lower() for word in _SECRET)}
