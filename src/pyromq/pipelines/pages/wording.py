"""Figures as people write them: 1.2 M, 3.4 MiB, 41 %, 250 ms."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

_NAMES = ((1e9, "G"), (1e6, "M"), (1e3, "k"))
_BYTES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_TIMES_MS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))


def whole(number: float) -> str:
    """Return a number in full: 1,234,567."""
    return f"{number:,.0f}"


def short(number: float) -> str:
    """Return a number with about three digits: 1.23 M."""
    for size, name in _NAMES:
        if abs(number) >= size:
            return f"{_three_digits(number / size)} {name}"
    return _three_digits(number)


def size(octets: float) -> str:
    """Return a number of bytes: 3.4 MiB."""
    if abs(octets) < 1000:
        return f"{octets:.0f} B"
    unit = 0
    while abs(octets) >= 1000 and unit < len(_BYTES) - 1:  # 1000, not 1024: no "1,010 B"
        octets /= 1024
        unit += 1
    return f"{_three_digits(octets)} {_BYTES[unit]}"


def span(milliseconds: float) -> str:
    """Return a duration: 250 ms, 1.5 s, 2.3 d."""
    for length, name in _TIMES_MS:
        if abs(milliseconds) >= length:
            return f"{_three_digits(milliseconds / length)} {name}"
    return f"{_three_digits(milliseconds)} ms"


def share(part: float, total: float) -> str:
    """Return a share in per cent: 41 %; 0 % and 100 % only if exact."""
    if not total or not part:
        return "0 %"
    percent = 100 * part / total
    if percent < 0.1:
        return "under 0.1 %"
    if 99.9 < percent < 100:
        return "over 99.9 %"
    return f"{percent:.0f} %" if 10 <= percent <= 99 or percent == 100 else f"{percent:.1f} %"


def times(number: float) -> str:
    """Return a ratio: 5.1 times."""
    return f"{_three_digits(number)} times"


def many(number: int, noun: str, plural: str = "") -> str:
    """Return a number and its noun: 1 queue, 3 queues."""
    return f"{whole(number)} {noun if number == 1 else plural or noun + 's'}"


def listed(names: Sequence[str], most: int = 3) -> str:
    """Return names in a sentence: a, b and 4 more."""
    if len(names) <= 1:
        return "".join(names)
    if len(names) <= most:
        return f"{', '.join(names[:-1])} and {names[-1]}"
    return f"{', '.join(names[:most])} and {len(names) - most} more"


def moment(time: datetime) -> str:
    """Return a point in time, to the second, in UTC."""
    return time.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")


def cut(text: str, length: int) -> str:
    """Return a text shortened to at most `length` characters."""
    return text if len(text) <= length else text[: length - 1] + "…"


def cut_middle(text: str, length: int) -> str:
    """Return a text shortened to at most `length` characters, with its beginning and its end."""
    if len(text) <= length:
        return text
    tail = (length - 1) // 2
    return f"{text[: length - 1 - tail]}…{text[-tail:]}"


def cut_front(text: str, length: int) -> str:
    """Return the end of a text, at most `length` characters: names of queues differ at their ends."""
    return text if len(text) <= length else "…" + text[1 - length :]


def _three_digits(number: float) -> str:
    if abs(number) >= 100 or number == int(number):
        return f"{number:,.0f}"
    return f"{number:.3g}" if abs(number) >= 1 else f"{max(abs(number), 0.0001):.2g}"
