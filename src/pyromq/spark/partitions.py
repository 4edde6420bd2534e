"""How the work of one read is cut: ranges of queues, large ones divided, small ones joined."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from itertools import pairwise

from pyspark.sql.datasource import InputPartition

from pyromq.spark.offsets import QueueSlice

SMALL = 10_000
"""Rows below which a task costs more (about 30 ms) than reading them: such ranges share one."""
_LARGE = 250_000
"""Rows worth a task of their own, however few cores this machine has: those that read are elsewhere, maybe."""


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
    """Cut ranges into tasks of at most `max_records` offsets; into `min_partitions` or more if there are as many.

    Only where one of the two asks for it is a queue in several tasks: within a task its messages are in order.
    """
    slices = list(slices)
    total = sum(part.stop - part.start for part in slices)
    if min_partitions is not None:
        max_records = max(1, min(max_records, total // min_partitions))
    pieces = [piece for part in slices for piece in divided(part, max_records)]
    tasks = min_partitions or max(min(os.cpu_count() or 1, total // SMALL), total // _LARGE, 1)
    share = max(1, total // tasks)
    slack = share // 8 if min_partitions is None else 0  # queues are never quite equal
    return [Slices(group) for group in _joined(pieces, min(max_records, share + slack))]


def divided(part: QueueSlice, most: int) -> list[QueueSlice]:
    """Cut a range evenly into as few pieces as `most` allows."""
    size = part.stop - part.start
    count = -(-size // most)
    edges = [part.start + size * index // count for index in range(count + 1)]
    return [part._replace(start=start, stop=stop) for start, stop in pairwise(edges)]


def _joined(pieces: Sequence[QueueSlice], most: int) -> list[list[QueueSlice]]:
    """Group neighbours: several queues of one broker are read in one go, and cheaper for it."""
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
