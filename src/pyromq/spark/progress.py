"""A stream's lag for each queue, from the progress that Spark reports."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from pyromq.errors import ConfigError
from pyromq.spark.offsets import from_json


class QueueLag(NamedTuple):
    """Where a stream was in one queue, and where the queue ended at that time."""

    topic: str
    broker_name: str
    queue_id: int
    end: int
    latest: int

    @property
    def messages(self) -> int:
        """How many messages were waiting."""
        return max(0, self.latest - self.end)


def lag(progress: Any) -> list[QueueLag]:
    """Return the lag of each queue that a stream reads, from `query.lastProgress` or a listener's `event.progress`.

    A topic that a query reads through two sources appears once for each. The list is empty before the first progress.

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
    """Return offsets as a value: Spark's objects hold them as text, its JSON as values."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except json.JSONDecodeError:
        return None
