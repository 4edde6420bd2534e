"""How far a stream has come: the progress that Spark reports, as lag of each queue."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from pyromq.errors import ConfigError
from pyromq.spark.offsets import from_json


class QueueLag(NamedTuple):
    """How far one queue was read, and how far it went at that time."""

    topic: str
    broker_name: str
    queue_id: int
    end: int
    latest: int

    @property
    def messages(self) -> int:
        """How many messages waited."""
        return max(0, self.latest - self.end)


def lag(progress: Any) -> list[QueueLag]:
    """Return the lag of each queue that a stream reads, from `query.lastProgress` or a listener's `event.progress`.

    A topic that a query reads by two sources counts once for each. Without progress, at the start, the list is empty.

    >>> sum(queue.messages for queue in lag(query.lastProgress))
    """
    if progress is None:
        return []
    if isinstance(progress, str):
        progress = json.loads(progress)
    return [queue for source in _get(progress, "sources") or () for queue in _lag_of(source)]


def _lag_of(source: Any) -> Iterable[QueueLag]:
    try:
        end, latest = (from_json(_parsed(_get(source, name)) or {}) for name in ("endOffset", "latestOffset"))
    except ConfigError:
        return []  # another format's source in the same query
    return [QueueLag(*queue, end=offset, latest=latest.get(queue, offset)) for queue, offset in sorted(end.items())]


def _get(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


def _parsed(value: Any) -> Any:
    """Return offsets as a value: Spark gives them as text in objects, and as values in JSON."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except json.JSONDecodeError:
        return None
