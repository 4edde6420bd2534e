"""The tries of a dead letter: one copy of the message for each delivery, and what differs between them.

A message that fails is stored again: in the group's retry topic, at last among its dead letters. The copies keep the id
of the message, and each one says why the try before it failed. Copies older than the retention time are gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from msgspec import Struct

from pyromq.protocol.messages import properties as names
from pyromq.protocol.messages.message import MessageExt
from pyromq.protocol.names import DLQ_PREFIX


class PropertyChange(Struct, frozen=True, kw_only=True):
    """A property that differs from the copy before; None if a copy does not have it."""

    name: str
    before: str | None
    after: str | None


class Try(Struct, frozen=True, kw_only=True):
    """One copy of a message: a delivery that failed, or the dead letter at the end."""

    number: int
    """How often it had failed before."""
    message: MessageExt
    cause: str | None
    """Why this try failed; None of the dead letter itself, and if it was not recorded."""
    is_last: bool
    """True of the dead letter."""
    waited: float | None
    """Seconds since the copy before was stored; None of the first one."""
    changes: tuple[PropertyChange, ...]
    """Properties that differ from the copy before, without the ones in which every copy differs."""
    body_changed: bool
    """True if its body differs from that of the copy before."""

    @property
    def stored(self) -> datetime:
        """When it was stored."""
        return self.message.stored_at


_OF_EVERY_COPY = frozenset(
    {
        names.CAUSE, names.DELAY, names.REAL_TOPIC, names.REAL_QUEUE_ID, names.RETRY_TOPIC, names.ORIGIN_MESSAGE_ID,
        names.RECONSUME_TIME, names.MAX_RECONSUME_TIMES, names.WAIT, names.CLUSTER, *names.TIMER_NAMES,
    }
)  # fmt: skip


def tries_of(copies: Iterable[MessageExt]) -> list[Try]:
    """Return the copies of one message in order, each with what is new in it."""
    ordered = sorted(copies, key=lambda copy: (copy.store_timestamp_ms, copy.reconsume_times))
    causes = [copy.properties.get(names.CAUSE) for copy in ordered[1:]] + [None]
    return [_try(ordered, place, cause) for place, cause in enumerate(causes)] if ordered else []


def _try(ordered: Sequence[MessageExt], place: int, cause: str | None) -> Try:
    message = ordered[place]
    before = ordered[place - 1] if place else None
    return Try(
        number=message.reconsume_times,
        message=message,
        cause=cause,
        is_last=message.topic.startswith(DLQ_PREFIX),
        waited=None if before is None else (message.store_timestamp_ms - before.store_timestamp_ms) / 1000,
        changes=() if before is None else tuple(_changes(before.properties, message.properties)),
        body_changed=before is not None and before.stored_body != message.stored_body,
    )


def _changes(before: Mapping[str, str], after: Mapping[str, str]) -> Iterable[PropertyChange]:
    for name in sorted({*before, *after} - _OF_EVERY_COPY):
        if before.get(name) != after.get(name):
            yield PropertyChange(name=name, before=before.get(name), after=after.get(name))
