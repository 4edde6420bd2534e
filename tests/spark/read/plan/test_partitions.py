from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.protocol.messages.message import MessageQueue
from pyromq.spark.offsets import QueueSlice, slices
from pyromq.spark.read.plan.partitions import SMALL, Slices, plan
from tests.spark.test_offsets import ENDS, start_and_end


@given(ENDS, st.none() | st.integers(1, 30), st.integers(1, 700))
def test_a_plan_covers_every_offset_once_and_in_order(
    ends: dict[MessageQueue, tuple[int, int]], min_partitions: int | None, max_records: int
) -> None:
    start, end = start_and_end(ends)
    partitions = plan(slices(start, end), min_partitions, max_records)
    reached = dict(start)
    for part in (part for partition in partitions for part in partition.slices):
        assert part.start == reached[part.queue] < part.stop
        reached[part.queue] = part.stop
    assert reached == end
    sizes = [sum(part.stop - part.start for part in partition.slices) for partition in partitions]
    assert all(0 < size <= max_records for size in sizes)
    if min_partitions is not None:
        assert len(partitions) >= min(min_partitions, sum(sizes))


def _plan_sizes(sizes: list[int], min_partitions: int | None = None) -> list[list[int]]:
    queues = [MessageQueue("t", "b", number) for number in range(len(sizes))]
    parts = [QueueSlice(queue, 0, size) for queue, size in zip(queues, sizes, strict=True)]
    partitions = plan(parts, min_partitions, 10**6)
    assert all(isinstance(partition, Slices) for partition in partitions)
    return [[part.queue.queue_id for part in partition.slices] for partition in partitions]


def test_whole_queues_are_shared_out_to_tasks_that_are_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    assert _plan_sizes([SMALL // 8] * 8) == [[0, 1, 2, 3, 4, 5, 6, 7]]  # a task costs more than reading these
    assert _plan_sizes([SMALL, SMALL + 1, SMALL - 1, SMALL]) == [[0, 1], [2, 3]]  # one for each core
    assert _plan_sizes([500_000] * 4) == [[0], [1], [2], [3]]  # executors may have more cores
    assert _plan_sizes([500_000] * 4, min_partitions=2) == [[0, 1], [2, 3]]


def test_queues_that_are_too_large_are_cut_across_and_others_stay_whole() -> None:
    assert _plan_sizes([10**6 + 1, 2 * 10**6, 4, 3 * 10**6]) == [[2], *([[0, 1, 3]] * 7)]


@given(
    st.dictionaries(st.tuples(st.sampled_from("ab"), st.integers(0, 5)), st.integers(1, 10**6), min_size=1),
    st.none() | st.integers(1, 9),
    st.integers(10, 10**6),
)
def test_a_plan_across_queues_covers_every_offset_once_and_in_order(
    rows: dict[tuple[str, int], int], min_partitions: int | None, max_records: int
) -> None:
    end = {MessageQueue("t", broker, number): 7 + size for (broker, number), size in rows.items()}
    reached = dict.fromkeys(end, 7)
    partitions = plan(slices(reached, end), min_partitions, max(max_records, sum(rows.values()) // 500), across=True)
    for part in (part for partition in partitions for part in partition.slices):
        assert part.start == reached[part.queue] < part.stop
        reached[part.queue] = part.stop
    assert reached == end
    sizes = [sum(part.stop - part.start for part in partition.slices) for partition in partitions]
    assert all(0 < size <= max(max_records, sum(rows.values()) // 500) for size in sizes)
    assert len(partitions) >= min(min_partitions or 1, sum(sizes))


def test_a_large_batch_is_cut_across_the_queues_and_a_small_one_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)

    def planned(*sizes: int) -> list[list[tuple[int, int, int]]]:
        parts = [QueueSlice(MessageQueue("t", "b", number), 0, size) for number, size in enumerate(sizes)]
        partitions = plan(parts, None, 10**6, across=True)
        return [[(part.queue.queue_id, part.start, part.stop) for part in partition.slices] for partition in partitions]

    assert planned(100_000, 120_000) == [[(0, 0, 50_000), (1, 0, 60_000)], [(0, 50_000, 100_000), (1, 60_000, 120_000)]]
    assert planned(90_000, 90_000) == [[(0, 0, 90_000)], [(1, 0, 90_000)]]
    assert planned(400_000, 1) == [[(0, 0, 200_000)], [(0, 200_000, 400_000), (1, 0, 1)]], (
        "what cannot be cut stays whole"
    )
    assert len(planned(*[1] * 200_000)) == 2, "so many that cannot be cut are shared out"


def test_a_range_is_divided_evenly() -> None:
    (queue,) = [MessageQueue("t", "b", 0)]
    partitions = plan([QueueSlice(queue, 100, 100 + 250_000)], None, 100_000)
    assert [part.stop - part.start for partition in partitions for part in partition.slices] == [83333, 83333, 83334]
