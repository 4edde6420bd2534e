"""Times as JSON shows them: ISO 8601 in UTC, with milliseconds."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

_SUFFIX = "_timestamp_ms"


def iso_time(timestamp_ms: int) -> str:
    """Return a time in milliseconds since the epoch as text; clients choose some, and may choose one of no calendar."""
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return f"{timestamp_ms} ms"
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def iso_moment(moment: datetime | None) -> str | None:
    """Return a datetime as text, None for None."""
    return None if moment is None else iso_time(int(moment.timestamp() * 1000))


def with_iso_times(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields with every `…_timestamp_ms` as a text `…_timestamp`; one that is not positive becomes None."""
    shown: dict[str, Any] = {}
    for name, value in fields.items():
        if name.endswith(_SUFFIX):
            shown[name.removesuffix("_ms")] = iso_time(value) if value > 0 else None
        else:
            shown[name] = value
    return shown
