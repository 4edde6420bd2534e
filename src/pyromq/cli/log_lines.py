"""How servers write their log: one line for each event, as text or JSON, and not without bound.

Client ids, topics and reasons come from peers. A line break in one of them must not look like another event, an escape
sequence must not reach the terminal, and a peer that is refused a thousand times a second must not fill the disk.
"""

from __future__ import annotations

import json
import logging
import sys
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from pathlib import Path
from time import perf_counter
from typing import Final, TextIO

from msgspec import Struct

from pyromq.remoting.round import Serving, host_of
from pyromq.store.files import OsFiles

MOST_CHARACTERS: Final = 2_000
"""Of one message; the rest is left out."""
BURST: Final = 100
PERIOD: Final = 10.0
"""Of one kind of event, so many lines are written in so many seconds; the others are counted."""

OF_A_STRANGER: Final = 4
"""Lines that one address can cause at once, and in each second after that: never ten in a second."""

_MOST_KINDS: Final = 1_000
_MOST_STRANGERS: Final = 1_000
_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s %(message)s"


def _escaped(code: int) -> str:
    return {0x09: "\\t", 0x0A: "\\n", 0x0D: "\\r"}.get(code, f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")


# Control characters, and those that break lines or turn the direction of writing.
_UNSAFE: Final = (
    *range(0x20),
    *range(0x7F, 0xA0),
    0x061C,
    0x200E,
    0x200F,
    *range(0x2028, 0x202F),
    *range(0x2066, 0x206A),
)
_ESCAPES: Final = {code: _escaped(code) for code in (*_UNSAFE, *range(0xD800, 0xE000), 0xFEFF)}


def safe(text: str) -> str:
    """Return text that fits on one line and changes nothing on a terminal."""
    if text.isascii() and text.isprintable():
        return text
    return text.translate(_ESCAPES)


def _time(record: logging.LogRecord) -> str:
    """Return the time of an event: ISO 8601, UTC, with milliseconds."""
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _cut(text: str) -> str:
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}… ({len(text)} characters)"


class LineFormatter(logging.Formatter):
    """Writes an event as one line; the lines of a traceback are indented, so that none looks like an event."""

    def __init__(self) -> None:
        super().__init__(_FORMAT)

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:
        """Return the time, with its date: a file outlives the day."""
        return _time(record)

    def formatMessage(self, record: logging.LogRecord) -> str:
        """Return the line without the traceback."""
        record.message = safe(_cut(record.message))
        return super().formatMessage(record)

    def formatException(self, ei: object) -> str:
        """Return the traceback, indented."""
        lines = super().formatException(ei).splitlines()  # type: ignore[arg-type]  # logging's own type is private
        return "\n".join(f"    {safe(line[:MOST_CHARACTERS])}" for line in lines)


class JsonFormatter(logging.Formatter):
    """Writes an event as one JSON object in one line; a change has its fields below `access`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        fields: dict[str, object] = {
            "time": _time(record),
            "level": record.levelname,
            "logger": record.name,
            "message": _cut(record.getMessage()),
        }
        access = getattr(record, "access", None)
        if access is not None:
            fields["access"] = access
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps(fields)  # escapes all that is not ASCII, so control characters and lone surrogates too


class _Kind(Struct):
    """The events of one kind in the present period."""

    began: float
    written: int = 0
    left_out: int = 0


class _Allowance(Struct):
    """The lines that one address may still cause."""

    left: float
    at: float


class Bounding(logging.Handler):
    """Leaves out most of a flood of one kind or of one address, and says how many; mixed into handlers that write.

    A change that has happened is never left out: it cost more than its line, and a flood must not hide it. Errors count
    by their kind only: they are the server's own.
    """

    def __init__(self, *arguments: object, now: Callable[[], float] = perf_counter, **keywords: object) -> None:
        super().__init__(*arguments, **keywords)  # type: ignore[arg-type]  # those of the handler it is mixed into
        self._now = now
        self._kinds: OrderedDict[tuple[str, int, str], _Kind] = OrderedDict()
        self._strangers: OrderedDict[str, _Allowance] = OrderedDict()
        self._has_failed = False

    def emit(self, record: logging.LogRecord) -> None:
        """Write an event, unless there were too many of its kind a moment ago."""
        now = self._now()
        self._report(now)
        if not getattr(record, "never_left_out", False):
            kind = self._kind((record.name, record.levelno, str(record.msg)), now)
            if kind.written >= BURST or not self._may_cause(record, now):
                kind.left_out += 1
                return
            kind.written += 1
        super().emit(record)

    def _may_cause(self, record: logging.LogRecord, now: float) -> bool:
        """Return True if this line is nobody's, or its causer has not caused too many just now."""
        host = host_of(getattr(record, "peer", "") or Serving.peer)
        if not host or record.levelno >= logging.ERROR:
            return True
        allowance = self._strangers.get(host)
        if allowance is None:
            allowance = self._strangers[host] = _Allowance(OF_A_STRANGER, now)
            if len(self._strangers) > _MOST_STRANGERS:
                self._strangers.popitem(last=False)
        allowance.left = min(allowance.left + (now - allowance.at) * OF_A_STRANGER, OF_A_STRANGER)
        allowance.at = now
        if allowance.left < 1:
            return False
        allowance.left -= 1
        return True

    def close(self) -> None:
        """Say what was left out since the last line."""
        self._report(float("inf"))
        super().close()

    def handleError(self, record: logging.LogRecord) -> None:
        """Say once on standard error that the log cannot be written: a server goes on without it."""
        if not self._has_failed and sys.stderr is not None:
            self._has_failed = True
            print(f"pyromq: the log cannot be written: {sys.exc_info()[1]}", file=sys.stderr)

    def _kind(self, key: tuple[str, int, str], now: float) -> _Kind:
        kind = self._kinds.get(key)
        if kind is None:
            kind = self._kinds[key] = _Kind(now)
            if len(self._kinds) > _MOST_KINDS:
                self._kinds.popitem(last=False)
        return kind

    def _report(self, now: float) -> None:
        """End the periods that are over, the oldest first."""
        while self._kinds and now - next(iter(self._kinds.values())).began >= PERIOD:
            (name, level, message), kind = self._kinds.popitem(last=False)
            if kind.left_out:
                text = f"{kind.left_out} more events like {message!r} were not logged"
                super().emit(logging.LogRecord(name, level, __file__, 0, "%s", (text,), None))


class BoundedHandler(Bounding, logging.StreamHandler[TextIO]):
    """Writes events to a stream, standard error by default."""

    def __init__(self, stream: TextIO | None = None, now: Callable[[], float] = perf_counter) -> None:
        super().__init__(stream, now=now)
        self.setFormatter(LineFormatter())


class RotatedFile(Bounding, RotatingFileHandler):
    """Writes events to a file; when it is full it becomes FILE.1, the one before it FILE.2, and so on."""

    def __init__(self, path: Path, max_bytes: int, keep: int) -> None:
        """Open the file, and its directory; raise OSError if that is not possible. `keep` older files stay."""
        OsFiles().makedirs(str(path.parent))
        super().__init__(path, maxBytes=max_bytes, backupCount=keep, encoding="utf-8", errors="backslashreplace")
        self.setFormatter(LineFormatter())
