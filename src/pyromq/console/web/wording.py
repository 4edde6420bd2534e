"""Numbers, sizes and times as the console writes them: the filters of the templates."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from markupsafe import Markup, escape

_UNITS: Final = ("B", "KB", "MB", "GB", "TB", "PB")
_LARGE: Final = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e4, "k"))
NOTHING: Final = "–"


def number(value: float | None) -> str:
    """Return a count with separators: 12,345."""
    if value is None:
        return NOTHING
    return f"{value:,.0f}" if float(value).is_integer() or abs(value) >= 100 else f"{value:,.1f}"


def short(value: float | None) -> str:
    """Return a count in few characters: 9,999, 12.3k, 4.56M."""
    if value is None:
        return NOTHING
    for size, unit in _LARGE:
        if abs(value) >= size:
            scaled = value / (1000.0 if unit == "k" else size)
            return f"{scaled:.3g}{unit}" if scaled < 1000 else f"{scaled:,.0f}{unit}"
    return number(value)


def rate(value: float | None) -> str:
    """Return a rate a second in few characters."""
    if value is None:
        return NOTHING
    if value and abs(value) < 0.05:
        return "<0.1"
    return short(value) if value >= 100 else f"{value:.3g}" if value >= 10 else f"{value:.2g}"


def size(value: float | None) -> str:
    """Return bytes: 1.4 MB."""
    if value is None:
        return NOTHING
    scaled = float(value)
    for unit in _UNITS:
        if abs(scaled) < 1000 or unit == _UNITS[-1]:
            break
        scaled /= 1000
    return f"{scaled:,.0f} {unit}" if unit == "B" or scaled >= 100 else f"{scaled:.3g} {unit}"


def duration(seconds: float | None) -> str:
    """Return a length of time: 350 ms, 4 s, 3 min, 2.5 h, 9 days."""
    if seconds is None:
        return NOTHING
    if seconds == 0:
        return "0 s"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    for limit, length, unit in ((120, 1, "s"), (7200, 60, "min"), (172_800, 3600, "h")):
        if seconds < limit:
            return f"{seconds / length:.3g} {unit}" if unit == "h" else f"{seconds / length:.0f} {unit}"
    return f"{seconds / 86400:,.0f} d"


def percent(share: float | None) -> str:
    """Return a share from 0 to 1 in percent."""
    return NOTHING if share is None else f"{share * 100:.3g} %"


def time(value: datetime | float | None) -> Markup | str:
    """Return a point in time as an element that app.js shows in the zone of the reader; UTC without it."""
    if value is None:
        return NOTHING
    moment = value if isinstance(value, datetime) else datetime.fromtimestamp(value, UTC)
    moment = moment.astimezone(UTC)
    text = moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    shown = escape(f"{moment:%Y-%m-%d %H:%M:%S} UTC")
    return Markup(f'<time datetime="{escape(text)}">{shown}</time>')  # noqa: S704 (both parts are escaped)


FILTERS: Final = {
    "number": number,
    "short": short,
    "rate": rate,
    "bytes": size,
    "duration": duration,
    "percent": percent,
    "time": time,
}
