"""Arguments that many commands share: their types, and how to read times, durations and settings."""

from __future__ import annotations

import os
import re
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from pyromq.errors import ClientError

Namesrv = Annotated[str | None, typer.Option("-n", "--namesrv", help="Name servers, host:port;host:port.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON lines.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and do nothing.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]

COMPLETION = "_PYROMQ_COMPLETE"
"""The variable that the script of a shell sets: then the command prints completions instead of running."""

_UNITS = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhd])")


question_label: ContextVar[str] = ContextVar("question_label", default="")
"""What stands before every question: the name of the context in its colour."""


def namesrv_addresses(given: str | None) -> str:
    """Return the name servers to use: the option, else NAMESRV_ADDR (a context sets it), else the default."""
    return given or os.environ.get("NAMESRV_ADDR") or "127.0.0.1:9876"


def confirm(question: str) -> None:
    """Ask; raise ClientError unless the answer is yes."""
    try:
        confirmed = typer.confirm(f"{question_label.get()}{question}", err=True)
    except typer.Abort:  # no answer: the input is at its end
        confirmed = False
        typer.echo(err=True)
    if not confirmed:
        raise ClientError("not confirmed, nothing was changed; --yes does not ask")


def split_assignment(text: str, option: str = "--set") -> tuple[str, str]:
    """Split `key=value`."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise typer.BadParameter(f"{option} must be key=value, not {text!r}")
    return key.strip(), value.strip()


def parse_duration(text: str, option: str) -> timedelta:
    """Return the duration that `90s`, `30m` or `1d12h` means."""
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise typer.BadParameter(f"{option} must be a duration such as 500ms, 10s, 30m, 2h or 1d12h, not {text!r}")
    try:
        return sum((timedelta(**{_UNITS[unit]: float(number)}) for number, unit in parts), timedelta())
    except OverflowError:
        raise typer.BadParameter(f"{option} is too long: {text}") from None


def parse_time(text: str, option: str, other: str = "") -> datetime:
    """Return a time; one without a zone is local. `other` names further values that the option accepts."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{option} must be {other}a time such as 2026-01-31T12:00, not {text!r}") from None
    try:
        time.astimezone(UTC)
    except (ValueError, OverflowError):  # in the first and the last year, a zone may leave the calendar
        raise typer.BadParameter(f"{option}: {text} is out of range") from None
    return time


def parse_time_range(text: str, option: str, now: datetime) -> tuple[datetime | None, datetime | None]:
    """Return the times that `FROM`, `FROM..TO`, `..TO` or `FROM..` mean; a duration such as 10m is so long ago."""
    begin, dots, end = text.partition("..")
    if not begin and not end:
        raise typer.BadParameter(f"{option} must be FROM, FROM..TO or ..TO, not {text!r}")
    return _time_or_ago(begin, option, now), _time_or_ago(end, option, now) if dots else None


def _time_or_ago(text: str, option: str, now: datetime) -> datetime | None:
    if not text:
        return None
    if _PART.match(text):
        return now - parse_duration(text, option)
    return parse_time(text, option, "10m, 2h (so long ago) or ")
