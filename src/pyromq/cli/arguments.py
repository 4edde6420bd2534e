"""Times and durations as people write them."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

import typer

_UNITS = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhd])")


def parse_duration(text: str, option: str) -> timedelta:
    """Return the time that `90s`, `30m` or `1d12h` mean."""
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise typer.BadParameter(f"{option} is a time such as 500ms, 10s, 30m, 2h or 1d12h, not {text!r}")
    try:
        return sum((timedelta(**{_UNITS[unit]: float(number)}) for number, unit in parts), timedelta())
    except OverflowError:
        raise typer.BadParameter(f"{option} is too long: {text}") from None


def parse_time(text: str, option: str, other: str = "") -> datetime:
    """Return a moment; one without a zone is local. `other` names what the option may be as well."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{option} is {other}a time such as 2026-01-31T12:00, not {text!r}") from None
