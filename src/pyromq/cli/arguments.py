"""Arguments that many commands share: their types, and how to read times, durations and settings."""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from pyromq.errors import ClientError

Namesrv = Annotated[str | None, typer.Option("-n", "--namesrv", help="Name servers, host:port;host:port.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON lines.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and do nothing.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]

_UNITS = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhd])")


def namesrv_addresses(given: str | None) -> str:
    """Return the name servers to use: the option, else NAMESRV_ADDR, else the default."""
    return given or os.environ.get("NAMESRV_ADDR") or "127.0.0.1:9876"


def confirm(question: str) -> None:
    """Ask; raise ClientError unless the answer is yes."""
    try:
        confirmed = typer.confirm(question, err=True)
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
