"""Divides the work of one read into tasks: splits large ranges of queues and joins small ones."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, pairwise

from pyspark.sql.datasource import InputPartition

from pyromq.spark.offsets import QueueSlice

SMALL = 10_000
"""Rows below which a task's fixed cost (about 30 ms) exceeds that of reading them; such ranges share a task."""
_STRETCH = 100_000
"""Rows of a task that reads all queues of a broker side by side, at least."""
_LARGE = 500_000
"""Rows that justify a task even if this machine has few cores: the executors may be elsewhere."""


class Slices(InputPartition):
    """The work of one task: a range of one queue, or small ranges of several queues."""

    def __init__(self, slices: Iterable[QueueSlice]) -> None:
        super().__init__(tuple(slices))

    @property
    def slices(self) -> tuple[QueueSlice, ...]:
        """The ranges, in reading order."""
        slices: tuple[QueueSlice, ...] = self.value
        return slices


def plan(
    slices: Iterable[QueueSlice], min_partitions: int | None, max_records: int, *, across: bool = False
) -> list[Slices]:
    """Divide ranges into tasks of at most `max_records` offsets, and into at least `min_partitions` if possible.

    A queue is split over several tasks only if one of the two requires it, since order holds only within a task; with
    `across` also where a task then reads a long stretch of a broker's log and not every other message of it.
    """
    slices = list(slices)
    total = sum(map(_size, slices))
    if min_partitions is not None:
        max_records = max(1, min(max_records, total // min_partitions))
    tasks = min_partitions or max(min(os.cpu_count() or 1, total // SMALL), total // _LARGE, 1)
    if across and (found := _across(slices, tasks, max_records)) is not None:
        return found
    whole = [part for part in slices if _size(part) <= max_records]
    large = [part for part in slices if _size(part) > max_records]
    share = max(1, total // tasks)
    slack = share // 8 if min_partitions is None else 0  # queues never have quite equal sizes
    joined = _joined(whole, min(max_records, share + slack))
    return [Slices(group) for group in (*joined, *_strips(large, max_records))]


def _across(slices: Sequence[QueueSlice], tasks: int, max_records: int) -> list[Slices] | None:
    """Cut all queues of each broker side by side; None if that makes short stretches, or if no queue would be split."""
    total = sum(map(_size, slices))
    to_cut = sum(_size(part) for part in slices if _size(part) >= tasks)
    groups = [list(group) for _, group in groupby(sorted(slices), key=lambda part: part.queue[:2])]
    if to_cut < tasks * _STRETCH or len(groups) >= tasks:
        return None
    found = []
    for group in groups:
        rows, room = sum(map(_size, group)), max_records - len(group)  # each piece may be one longer than its share
        if 2 * room <= max_records:
            return None
        count = max(-(-tasks * rows // total), -(-rows // room))
        found += [Slices(strip) for strip in _side_by_side(group, count)]
    return found


def _size(part: QueueSlice) -> int:
    return part.stop - part.start


def _joined(parts: Sequence[QueueSlice], most: int) -> list[list[QueueSlice]]:
    """Group neighbouring ranges: several queues of one broker are cheaper to read together."""
    groups: list[list[QueueSlice]] = []
    room = 0
    for part in parts:
        if _size(part) > room:
            groups.append([])
            room = most
        groups[-1].append(part)
        room -= _size(part)
    return groups


def _strips(parts: Sequence[QueueSlice], most: int) -> Iterator[list[QueueSlice]]:
    """Split queues too large for a task, together by broker, because their messages lie mixed in its log."""
    for _, group in groupby(sorted(parts), key=lambda part: part.queue[:2]):
        together = list(group)
        room = most - len(together)  # each piece may be one longer than its share
        if 2 * room <= most:
            yield from ([piece] for part in together for piece in divided(part, most))
            continue
        count = -(-sum(map(_size, together)) // room)
        yield from _side_by_side(together, count)


def _side_by_side(parts: Sequence[QueueSlice], count: int) -> Iterator[list[QueueSlice]]:
    for strip in zip(*(_cut(part, count) for part in parts), strict=True):
        if pieces := [piece for piece in strip if _size(piece)]:
            yield pieces


def divided(part: QueueSlice, most: int) -> list[QueueSlice]:
    """Split a range evenly into as few pieces as `most` allows."""
    return _cut(part, -(-_size(part) // most))


def _cut(part: QueueSlice, count: int) -> list[QueueSlice]:
    edges = [part.start + _size(part) * index // count for index in range(count + 1)]
    return [part._replace(start=start, stop=stop) for start, stop in pairwise(edges)]
