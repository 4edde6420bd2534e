"""How the work of one read is cut: ranges of queues, large ones divided, small ones joined."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from pyspark.sql.datasource import InputPartition

from pyromq.spark.offsets import QueueSlice

SMALL = 10_000
"""Rows below which a task costs more (about 30 ms) than reading them: such ranges share one."""


class Slices(InputPartition):
    """What one task reads: a range of one queue, or small ranges of several."""

    def __init__(self, slices: Iterable[QueueSlice]) -> None:
        super().__init__(tuple(slices))

    @property
    def slices(self) -> tuple[QueueSlice, ...]:
        """The ranges, in the order in which they are read."""
        slices: tuple[QueueSlice, ...] = self.value
        return slices


def plan(slices: Iterable[QueueSlice], min_partitions: int | None, max_records: int) -> list[Slices]:
    """Cut ranges into tasks of at most `max_records` offsets; into `min_partitions` or more if there are as many."""
    slices = list(slices)
    if min_partitions is not None:
        total = sum(part.stop - part.start for part in slices)
        max_records = max(1, min(max_records, total // min_partitions))
    pieces = [piece for part in slices for piece in divided(part, max_records)]
    if min_partitions is not None:
        return [Slices((piece,)) for piece in pieces]
    return [Slices(group) for group in _joined(pieces, min(SMALL, max_records))]


def divided(part: QueueSlice, most: int) -> list[QueueSlice]:
    """Cut a range evenly into as few pieces as `most` allows."""
    size = part.stop - part.start
    count = -(-size // most)
    edges = [part.start + size * index // count for index in range(count + 1)]
    return [part._replace(start=start, stop=stop) for start, stop in pairwise(edges)]


def _joined(pieces: Iterable[QueueSlice], most: int) -> list[list[QueueSlice]]:
    groups: list[list[QueueSlice]] = []
    room = 0
    for piece in pieces:
        size = piece.stop - piece.start
        if size > room:
            groups.append([])
            room = most
        groups[-1].append(piece)
        room -= size
    return groups
