"""Dead letters as lines, as a table of groups, and as files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Protocol

from rich.table import Column, Table

from pyromq.admin import DeadLetterTopic, Letter
from pyromq.admin.views.dead_letter_view import ORIGIN_FIELDS, dead_letter_fields, origin_fields
from pyromq.admin.views.iso_times import iso_moment
from pyromq.cli.show.lines import json_line, message_line, printable
from pyromq.cli.show.parquet_file import ParquetFile

PARQUET = ".parquet"


class WriteLetter(Protocol):
    """Writes one dead letter to a file."""

    def __call__(self, letter: Letter) -> None: ...


def dead_letter_line(letter: Letter) -> str:
    """Return one line for a person: the id first, then the cause, then the message."""
    cause = printable(letter.cause or "no cause known")
    tried = f"{letter.topic or '?'} after {letter.message.reconsume_times - 1} retries"
    return f"{letter.message.message_id} {tried}: {cause} | {message_line(letter.message)}"


@contextmanager
def dead_letter_file(path: Path | None) -> Iterator[WriteLetter]:
    """Open a file for dead letters: Parquet if its name ends so, otherwise JSON lines; None is standard output."""
    if path is None:
        yield lambda letter: print(json_line(dead_letter_fields(letter)))
    elif path.suffix == PARQUET:
        with _complete_file(path) as part, ParquetFile(part, ORIGIN_FIELDS) as table:
            yield lambda letter: table.add(letter.message, origin_fields(letter))
    else:
        with _complete_file(path) as part, part.open("w", encoding="utf-8", errors="backslashreplace") as lines:
            yield lambda letter: print(json_line(dead_letter_fields(letter)), file=lines)


@contextmanager
def _complete_file(path: Path) -> Iterator[Path]:
    """Yield where to write. The file gets its name when it is complete: a failure leaves an older one as it was."""
    if path.exists() and not path.is_file():
        yield path  # a pipe or a device
        return
    part = path.with_name(path.name + ".part")
    try:
        yield part
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def dead_letter_table(topics: Iterable[DeadLetterTopic], now: datetime) -> Table:
    """Return a table of groups; dead letters that expire soon are marked."""
    table = Table(Column("group", overflow="fold"), "dead letters", "oldest", "kept at least until")
    for topic in topics:
        until = iso_moment(topic.expires) or "-"
        if topic.expires is not None and topic.expires_soon:
            until = f"[bold red]{until} ({_left(topic.expires - now)})[/]"
        table.add_row(topic.group, f"{topic.count:,}", iso_moment(topic.oldest) or "-", until)
    return table


def expiry_warning(topics: Iterable[DeadLetterTopic]) -> str | None:
    """Return a warning about groups whose dead letters expire soon, None if there are none."""
    soon = [topic.group for topic in topics if topic.expires_soon]
    if not soon:
        return None
    return f"dead letters of {', '.join(soon)} expire soon: use `pyromq dlq export` or `pyromq dlq resend` before"


def _left(time: timedelta) -> str:
    hours = time.total_seconds() / 3600
    return f"{hours:.1f} h left" if hours > 0 else "any time now"
