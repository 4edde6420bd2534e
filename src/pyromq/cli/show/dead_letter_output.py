"""How dead letters look: a line, a whole page, a table of groups, JSON, and files of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

from rich.table import Table

from pyromq.admin import DeadLetterTopic, Letter
from pyromq.admin.views.message_view import iso_moment, message_as_line, message_fields
from pyromq.cli.show.parquet_file import ParquetFile

PARQUET = ".parquet"
_ORIGIN = ("group", "origin_topic", "origin_message_id", "cause")


class WriteLetter(Protocol):
    """Takes dead letters one by one."""

    def __call__(self, letter: Letter) -> None: ...


def origin(letter: Letter) -> dict[str, str | None]:
    """Return what is known of a dead letter beyond the message itself."""
    values = (letter.group, letter.topic, letter.origin_id, letter.cause)
    return dict(zip(_ORIGIN, values, strict=True))


def letter_as_json(letter: Letter) -> str:
    """Return one JSON line."""
    fields = message_fields(letter.message) | origin(letter) | {"resends": letter.resends}
    return json.dumps(fields, ensure_ascii=False)


def letter_as_line(letter: Letter) -> str:
    """Return one line for a person: the id first, then why, then the message."""
    said = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in letter.cause or "no cause known")
    tried = f"{letter.topic or '?'} after {letter.message.reconsume_times - 1} retries"
    return f"{letter.message.message_id} {tried}: {said} | {message_as_line(letter.message)}"


@contextmanager
def letter_file(path: Path | None) -> Iterator[WriteLetter]:
    """Open a file for dead letters, Parquet if it is called so, else JSON lines; None is standard output."""
    if path is not None and path.suffix == PARQUET:
        with ParquetFile(path, _ORIGIN) as table:
            yield lambda letter: table.add(letter.message, origin(letter))
    elif path is not None:
        with path.open("w", encoding="utf-8") as lines:
            yield lambda letter: print(letter_as_json(letter), file=lines)
    else:
        yield lambda letter: print(letter_as_json(letter))


def topic_as_json(topic: DeadLetterTopic) -> str:
    """Return one JSON line about a group."""
    fields: dict[str, Any] = {
        "group": topic.group,
        "topic": topic.topic,
        "messages": topic.count,
        "oldest": iso_moment(topic.oldest),
        "expires": iso_moment(topic.expires),
        "expires_soon": topic.expires_soon,
    }
    return json.dumps(fields, ensure_ascii=False)


def topics_as_table(topics: Iterable[DeadLetterTopic], now: datetime) -> Table:
    """Return a table of groups; what expires soon is marked."""
    table = Table("group", "dead letters", "oldest", "kept at least until")
    for topic in topics:
        until = iso_moment(topic.expires) or "-"
        if topic.expires is not None and topic.expires_soon:
            until = f"[bold red]{until} ({_left(topic.expires - now)})[/]"
        table.add_row(topic.group, f"{topic.count:,}", iso_moment(topic.oldest) or "-", until)
    return table


def warning(topics: Iterable[DeadLetterTopic]) -> str | None:
    """Return the line that tells of groups whose dead letters expire soon, None if there are none."""
    soon = [topic.group for topic in topics if topic.expires_soon]
    if not soon:
        return None
    return f"dead letters of {', '.join(soon)} expire soon: `pyromq dlq export` or `pyromq dlq resend` them before"


def _left(time: timedelta) -> str:
    hours = time.total_seconds() / 3600
    return f"{hours:.1f} h left" if hours > 0 else "any time now"
