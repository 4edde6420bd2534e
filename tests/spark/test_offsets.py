from __future__ import annotations

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.errors import ConfigError
from pyromq.protocol.messages.message import MessageQueue
from pyromq.spark.offsets import Offsets, QueueSlice, from_json, limited, queue_name, slices, to_json
from pyromq.spark.read.plan.partitions import SMALL, Slices, plan

QUEUES = st.builds(
    MessageQueue,
    st.sampled_from(["orders", "%RETRY%g", "a|b"]),
    st.sampled_from(["broker-a", "broker-b"]),
    st.integers(0, 20),
)
OFFSETS = st.dictionaries(QUEUES, st.integers(0, 2**62), max_size=12)
ENDS = st.dictionaries(QUEUES, st.tuples(st.integers(0, 1000), st.integers(0, 1000)), max_size=12)


def _start_and_end(ends: dict[MessageQueue, tuple[int, int]]) -> tuple[Offsets, Offsets]:
    return {queue: start for queue, (start, _) in ends.items()}, {queue: sum(both) for queue, both in ends.items()}


@given(OFFSETS)
def test_offsets_survive_json(offsets: Offsets) -> None:
    assert from_json(json.loads(json.dumps(to_json(offsets)))) == offsets


@given(OFFSETS, st.randoms(use_true_random=False))
def test_the_same_offsets_are_always_the_same_text(offsets: Offsets, shuffler: random.Random) -> None:
    items = list(offsets.items())
    shuffler.shuffle(items)
    text = json.dumps(to_json(dict(items)))
    assert text == json.dumps(to_json(offsets)) == json.dumps(to_json(offsets), sort_keys=True)


def test_the_json_form_is_that_of_the_contract() -> None:
    offsets = {MessageQueue("orders", "broker-a", queue): queue + 5 for queue in (10, 2)}
    assert json.dumps(to_json(offsets)) == '{"orders": {"broker-a": {"10": 15, "2": 7}}}'
    assert queue_name(MessageQueue("orders", "broker-a", 3)) == "orders/broker-a/3"


@pytest.mark.parametrize(
    "value", [None, [], {"o": 1}, {"o": {"b": 1}}, {"o": {"b": {"0": "1"}}}, {"o": {"b": {"0": 1.5}}}]
)
def test_another_form_is_refused(value: object) -> None:
    with pytest.raises(ConfigError):
        from_json(value)


@given(ENDS, st.integers(1, 500))
def test_a_limit_is_kept_and_every_batch_gets_on(ends: dict[MessageQueue, tuple[int, int]], most: int) -> None:
    start, end = _start_and_end(ends)
    result = limited(start, end, most)
    assert result.keys() == end.keys()
    assert all(start[queue] <= result[queue] <= end[queue] for queue in end)
    taken, backlog = sum(result.values()) - sum(start.values()), sum(end.values()) - sum(start.values())
    assert taken == min(most, backlog)
    waiting = [queue for queue in end if end[queue] > start[queue]]
    assert len(waiting) > most or all(result[queue] > start[queue] for queue in waiting), "a small queue starves"


def test_a_limit_is_shared_out_by_backlog() -> None:
    one, two = MessageQueue("t", "b", 0), MessageQueue("t", "b", 1)
    assert limited({one: 0, two: 50}, {one: 9000, two: 1050}, 100) == {one: 90, two: 50 + 10}


@given(ENDS, st.none() | st.integers(1, 30), st.integers(1, 700))
def test_a_plan_covers_every_offset_once_and_in_order(
    ends: dict[MessageQueue, tuple[int, int]], min_partitions: int | None, max_records: int
) -> None:
    start, end = _start_and_end(ends)
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
    assert _plan_sizes([500_000] * 4) == [[0], [1], [2], [3]]  # those that read may have more cores
    assert _plan_sizes([500_000] * 4, min_partitions=2) == [[0, 1], [2, 3]]


def test_queues_that_are_too_large_are_cut_across_and_others_stay_whole() -> None:
    assert _plan_sizes([10**6 + 1, 2 * 10**6, 4, 3 * 10**6]) == [[2], *([[0, 1, 3]] * 7)]


def test_a_range_is_divided_evenly() -> None:
    (queue,) = [MessageQueue("t", "b", 0)]
    partitions = plan([QueueSlice(queue, 100, 100 + 250_000)], None, 100_000)
    assert [part.stop - part.start for partition in partitions for part in partition.slices] == [83333, 83333, 83334]
