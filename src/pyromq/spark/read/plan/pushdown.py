"""Turns filters that Spark pushes down into bounds of a read.

Bounds only narrow a read. Spark still applies all filters to what arrives, so a bound may be generous.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

from msgspec import Struct
from msgspec.structs import replace
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from pyromq.errors import LocalProtocolError
from pyromq.protocol.tag_filter import parse_tags

CLOCK_STEP_MS = 60_000
"""The search by time assumes rising times; a clock set back by less than this hides nothing."""
_PUSHING = "data_source_pushdown_filters"
_LOWEST, _HIGHEST = -(1 << 62), 1 << 62


class Narrowing(Struct, frozen=True, kw_only=True):
    """What is left to read. Bounds are inclusive. Plain values, since they travel to the executors."""

    topics: frozenset[str] | None = None
    queue_ids: frozenset[int] | None = None
    tags: frozenset[str] | None = None
    offsets: tuple[int, int] = (_LOWEST, _HIGHEST)
    stored_ms: tuple[int, int] = (_LOWEST, _HIGHEST)


def is_pushing() -> bool:
    """Return True if Spark started this process to push filters down; elsewhere a reader must accept none."""
    module = getattr(sys.modules["__main__"], "__spec__", None)
    return _PUSHING in " ".join([*sys.argv, str(getattr(module, "name", ""))])


def narrow(filters: Iterable[Filter]) -> Narrowing:
    """Return what is left to read if all filters must hold."""
    found = Narrowing()
    for one in filters:
        attribute: tuple[str, ...] = getattr(one, "attribute", ())
        apply = _COLUMNS.get(attribute[0]) if len(attribute) == 1 else None
        if apply is not None:
            found = apply(found, one)
    return found


def _set_of(field: str) -> Callable[[Narrowing, Any], Narrowing]:
    def apply(found: Narrowing, one: Any) -> Narrowing:
        if isinstance(one, (EqualTo, EqualNullSafe)) and one.value is not None:
            wanted = frozenset((one.value,))
        elif isinstance(one, In):
            wanted = frozenset(one.value) - {None}
        else:
            return found
        before = getattr(found, field)
        return replace(found, **{field: wanted if before is None else wanted & before})

    return apply


def _range_of(field: str, bound: Callable[[Any], tuple[int, int]]) -> Callable[[Narrowing, Any], Narrowing]:
    def apply(found: Narrowing, one: Any) -> Narrowing:
        low, high = getattr(found, field)
        if isinstance(one, (EqualTo, GreaterThan, GreaterThanOrEqual)):
            low = max(low, bound(one.value)[0])
        if isinstance(one, (EqualTo, LessThan, LessThanOrEqual)):
            high = min(high, bound(one.value)[1])
        return replace(found, **{field: (low, high)})

    return apply


def _around(time: datetime) -> tuple[int, int]:
    time_ms = int(time.timestamp() * 1000)
    return time_ms - CLOCK_STEP_MS, time_ms + CLOCK_STEP_MS


_COLUMNS = {
    "topic": _set_of("topics"),
    "queue_id": _set_of("queue_ids"),
    "tags": _set_of("tags"),
    "queue_offset": _range_of("offsets", lambda offset: (offset, offset)),
    "store_timestamp": _range_of("stored_ms", _around),
}


class PushesFilters:
    """Mixin for a reader that accepts filters; list it before the class whose `narrow_by` it calls."""

    narrow_by: Callable[[Narrowing], None]

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Use filters as bounds; return all of them, so that Spark applies them too."""
        self.narrow_by(narrow(filters))
        return filters


def as_expression(tags: frozenset[str]) -> str | None:
    """Return a filter expression for tags, or None if none means exactly these."""
    if not tags:
        return None
    expression = " || ".join(sorted(tags))
    try:
        return expression if frozenset(parse_tags(expression).tags) == tags else None
    except LocalProtocolError:
        return None
