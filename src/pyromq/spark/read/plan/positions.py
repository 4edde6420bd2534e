"""Turns the positions in the options into offsets, and reports messages that are gone."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from pyromq.errors import ConfigError, OffsetOutOfRange
from pyromq.protocol.messages.message import MessageQueue
from pyromq.spark.offsets import EARLIEST, LATEST, Offsets, QueueSlice, queue_name, slices
from pyromq.spark.options.read_options import AtTime, Position, ReadOptions
from pyromq.spark.read.plan.pushdown import Narrowing
from pyromq.spark.read.plan.queue_source import QueueSource

logger = logging.getLogger(__name__)

_FAR_FUTURE_MS = 1 << 60
GO_ON = "set failOnDataLoss=false to continue"


def resolve(
    source: QueueSource, position: Position, queues: Sequence[MessageQueue], group: str | None, unnamed: int = EARLIEST
) -> Offsets:
    """Return the offset of each queue at a position; `unnamed` is for queues that JSON offsets leave out.

    A queue without a committed offset counts as not read at all.
    """
    match position:
        case "earliest":
            return source.min_offsets(queues)
        case "latest":
            return source.max_offsets(queues)
        case "committed":
            return _numbered(source, source.committed_offsets(queues, group or ""), queues, EARLIEST)
        case AtTime(timestamp_ms):
            return source.offsets_since(queues, timestamp_ms, group)
        case _:
            _check_known(position, queues)
            return _numbered(source, position, queues, unnamed)


def _numbered(source: QueueSource, offsets: Offsets, queues: Sequence[MessageQueue], unnamed: int) -> Offsets:
    """Fill in missing queues, then look up what earliest and latest mean."""
    wanted = {queue: offsets.get(queue, unnamed) for queue in queues}
    earliest = source.min_offsets([queue for queue in queues if wanted[queue] == EARLIEST])
    latest = source.max_offsets([queue for queue in queues if wanted[queue] == LATEST])
    return wanted | earliest | latest


def _check_known(offsets: Offsets, queues: Sequence[MessageQueue]) -> None:
    unknown = sorted(offsets.keys() - set(queues))
    if unknown:
        raise ConfigError(f"offsets are given for queue {queue_name(unknown[0])}, which this read does not include")


def bounds(source: QueueSource, options: ReadOptions, narrowing: Narrowing | None = None) -> list[QueueSlice]:
    """Return the ranges that a batch read covers, limited to what the queues hold now."""
    queues = source.queues(source.topics(options.topics, options.pattern))
    first = source.min_offsets(queues)  # in this order, nothing that happens meanwhile looks like a loss
    start = resolve(source, options.start, queues, options.group)
    end = resolve(source, options.end, queues, options.group, unnamed=LATEST)
    last = source.max_offsets(queues)
    for queue in queues:
        if start[queue] < first[queue]:
            report_lost(options, queue, start[queue], first[queue])
        for wanted in (start[queue], end[queue]):
            if wanted > last[queue]:
                report_cut(options, queue, wanted, last[queue])
        start[queue], end[queue] = max(start[queue], first[queue]), min(end[queue], last[queue])
    return slices(start, end) if narrowing is None else _narrowed(source, slices(start, end), narrowing, options)


def _narrowed(
    source: QueueSource, ranges: Sequence[QueueSlice], narrowing: Narrowing, options: ReadOptions
) -> list[QueueSlice]:
    """Return what the pushed filters leave of the ranges."""
    left = [part for part in ranges if _is_in(narrowing.topics, part.queue.topic)]
    left = [part for part in left if _is_in(narrowing.queue_ids, part.queue.queue_id)]
    lowest, highest = narrowing.offsets
    left = [part._replace(start=max(part.start, lowest), stop=min(part.stop, highest + 1)) for part in left]
    since, until = narrowing.stored_ms
    if since > 0:
        begin = source.offsets_since([part.queue for part in left], since, options.group)
        left = [part._replace(start=max(part.start, begin[part.queue])) for part in left]
    if until < _FAR_FUTURE_MS:
        finish = source.offsets_since([part.queue for part in left], max(until, 0) + 1, options.group)
        left = [part._replace(stop=min(part.stop, finish[part.queue])) for part in left]
    return [part for part in left if part.start < part.stop]


def _is_in(wanted: frozenset[Any] | None, value: object) -> bool:
    return wanted is None or value in wanted


def report_lost(options: ReadOptions, queue: MessageQueue, wanted: int, available: int) -> None:
    """Raise OffsetOutOfRange, or log a warning if the options allow it: the first messages of a range are gone."""
    text = f"queue {queue_name(queue)}: wanted offset {wanted}, first available {available}"
    _report(options, f"{text}, {available - wanted} messages lost to retention")


def report_cut(options: ReadOptions, queue: MessageQueue, wanted: int, end: int) -> None:
    """Raise OffsetOutOfRange, or log a warning if the options allow it: a queue ends before an offset it had."""
    text = f"queue {queue_name(queue)}: wanted offset {wanted}, but it ends at {end}"
    _report(options, f"{text}; its topic was deleted or recreated, or its broker lost messages")


def report_unreadable(options: ReadOptions, unread: Mapping[MessageQueue, int]) -> None:
    """Raise OffsetOutOfRange, or log a warning if the options allow it: queues left their topic before they were read.

    `unread` is the number of messages left in each of them.
    """
    first, *others = sorted(unread)
    name = f"queue {queue_name(first)}" + (f" and {len(others)} more" if others else "")
    text = f"{name}: the topic no longer has it, and {sum(unread.values())} messages there are unread"
    _report(options, f"{text}; give the topic its queues back to read them")


def _report(options: ReadOptions, text: str) -> None:
    if options.fail_on_data_loss:
        raise OffsetOutOfRange(f"{text}; {GO_ON}")
    logger.warning("%s; continuing because failOnDataLoss=false", text)
