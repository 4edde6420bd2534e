"""Filters that Spark pushes down narrow what is read, and never too much."""

from __future__ import annotations

import operator
import pickle
import random
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from pyspark.sql.datasource import (
    DataSourceReader,
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
)

from pyromq import Message, blocking
from pyromq.protocol.messages.message import MessageQueue
from pyromq.protocol.tag_filter import parse_tags
from pyromq.spark.offsets import Offsets
from pyromq.spark.options.read_options import read_options
from pyromq.spark.read.batch_reader import BatchReader, PushingBatchReader
from pyromq.spark.read.plan.partitions import Slices
from pyromq.spark.read.plan.positions import bounds
from pyromq.spark.read.plan.pushdown import as_expression, is_pushing
from pyromq.testing import LocalCluster
from tests.spark.conftest import Sent, send

NOW = datetime.now(UTC)


@pytest.fixture(scope="module")
def sent(producer: blocking.Producer) -> Sent:
    topics = ("pushed", "pushed-too")
    messages = [Message(topic=topics[number % 2], body=b"x", tags="ab"[number // 2 % 2]) for number in range(64)]
    return send(producer, messages)


def _ranges(cluster: LocalCluster, *filters: Filter, **options: str) -> list[tuple[str, int, int, int]]:
    given = {"namesrv": cluster.namesrv, "subscribe": "pushed,pushed-too"} | options
    reader = PushingBatchReader(read_options(given, streaming=False))
    assert list(reader.pushFilters(list(filters))) == list(filters), "Spark applies all of them to what arrives"
    reader = pickle.loads(pickle.dumps(reader))
    slices = [part for one in reader.partitions() if isinstance(one, Slices) for part in one.slices]
    return sorted((part.queue.topic, part.queue.queue_id, part.start, part.stop) for part in slices)


def test_no_filter_leaves_all(cluster: LocalCluster, sent: Sent) -> None:
    everything = _ranges(cluster)
    assert sum(stop - start for _, _, start, stop in everything) == 64
    others = [IsNotNull(("topic",)), Not(EqualTo(("topic",), "x")), EqualTo(("properties", "k"), "v")]
    assert _ranges(cluster, *others, EqualTo(("keys",), "k"), EqualNullSafe(("tags",), None)) == everything


def test_topics_queues_and_offsets_are_left_out(cluster: LocalCluster, sent: Sent) -> None:
    assert {row[0] for row in _ranges(cluster, EqualTo(("topic",), "pushed"))} == {"pushed"}
    assert _ranges(cluster, EqualTo(("topic",), "elsewhere")) == []
    chosen = _ranges(cluster, In(("topic",), ("pushed", None)), In(("queue_id",), (1, 2)), EqualTo(("queue_id",), 1))
    assert {row[:2] for row in chosen} == {("pushed", 1)}
    bounded = _ranges(cluster, GreaterThanOrEqual(("queue_offset",), 1), LessThanOrEqual(("queue_offset",), 2))
    assert {row[2:] for row in bounded} == {(1, 3)}
    assert {row[2:] for row in _ranges(cluster, EqualTo(("queue_offset",), 2))} == {(2, 3)}


def test_times_are_bounded_generously(cluster: LocalCluster, sent: Sent) -> None:
    everything = _ranges(cluster)
    day = timedelta(days=1)
    assert _ranges(cluster, GreaterThan(("store_timestamp",), NOW + day)) == []
    assert _ranges(cluster, LessThan(("store_timestamp",), NOW - day)) == []
    within = GreaterThan(("store_timestamp",), NOW - day), LessThan(("store_timestamp",), NOW + day)
    assert _ranges(cluster, *within) == everything
    assert _ranges(cluster, GreaterThan(("store_timestamp",), NOW + timedelta(seconds=30))) == everything


_HOLDS: dict[type[Filter], Callable[[Any, Any], bool]] = {
    EqualTo: operator.eq,
    LessThan: operator.lt,
    LessThanOrEqual: operator.le,
    GreaterThan: operator.gt,
    GreaterThanOrEqual: operator.ge,
    In: lambda found, wanted: found in wanted,
}
_VALUES: dict[str, list[Any]] = {
    "topic": ["pushed", "pushed-too", "elsewhere"],
    "queue_id": [-1, 0, 1, 2],
    "queue_offset": [-(1 << 63), *range(1, 13), (1 << 63) - 1],
    "tags": ["a", "b", "*", "", " a", "a || b"],
    "store_timestamp": [NOW + timedelta(seconds=seconds) for seconds in range(-100, 400, 7)],
}


def _filter(chooser: random.Random) -> Any:
    name, kind = chooser.choice(sorted(_VALUES)), chooser.choice(list(_HOLDS))
    values = chooser.choices(_VALUES[name], k=3)
    make: Any = kind
    return make((name,), tuple(values) if kind is In else values[0])


class _Queues:
    """Queues in memory, from offset 3 on; each clock sometimes goes back by less than a minute."""

    def __init__(self, times: Sequence[int]) -> None:
        names = [MessageQueue(topic, "broker-a", number) for topic in ("pushed", "pushed-too") for number in range(2)]
        self.times = {queue: times[number:] for number, queue in enumerate(names)}

    def topics(self, names: Sequence[str], pattern: str | None) -> Sequence[str]:
        return names

    def queues(self, topics: Iterable[str]) -> list[MessageQueue]:
        return list(self.times)

    def min_offsets(self, queues: Iterable[MessageQueue]) -> Offsets:
        return dict.fromkeys(queues, 3)

    def max_offsets(self, queues: Iterable[MessageQueue]) -> Offsets:
        return {queue: 3 + len(self.times[queue]) for queue in queues}

    def offsets_since(self, queues: Iterable[MessageQueue], timestamp_ms: int, group: str | None) -> Offsets:
        return {queue: 3 + bisect_left(self.times[queue], timestamp_ms) for queue in queues}

    def rows(self) -> Iterable[dict[str, Any]]:
        for queue, times in self.times.items():
            for number, time_ms in enumerate(times):
                time = datetime.fromtimestamp(time_ms / 1000, UTC)
                row = {"topic": queue.topic, "queue_id": queue.queue_id, "queue_offset": 3 + number}
                yield row | {"store_timestamp": time, "tags": ("a", "b", "*", " a")[number % 4]}


@pytest.mark.parametrize("seed", range(5))
def test_no_filter_costs_a_row(seed: int) -> None:
    chooser = random.Random(seed)
    for _ in range(100):
        filters = [_filter(chooser) for _ in range(chooser.randint(1, 3))]
        _check_that_no_row_is_lost(filters, [chooser.randrange(100_000) for _ in range(9)])


def _check_that_no_row_is_lost(filters: list[Any], steps: list[int]) -> None:
    start = int(NOW.timestamp() * 1000)
    source = _Queues([start + sum(steps[:number]) - step // 2 for number, step in enumerate(steps)])
    reader = PushingBatchReader(read_options({"namesrv": "a:1", "subscribe": "pushed,pushed-too"}, streaming=False))
    list(reader.pushFilters(filters))
    left = bounds(cast(Any, source), reader._options, reader._narrowing)
    tags = parse_tags(reader._options.tags)
    for row in source.rows():
        if all(_HOLDS[type(one)](row[one.attribute[0]], one.value) for one in filters):
            queue = MessageQueue(row["topic"], "broker-a", row["queue_id"])
            assert [part for part in left if part.queue == queue and part.start <= row["queue_offset"] < part.stop]
            assert tags.everything or row["tags"] in tags.tags


def test_tags_go_to_the_broker_unless_it_has_a_filter(cluster: LocalCluster, sent: Sent) -> None:
    def options(**given: str) -> Any:
        reader = PushingBatchReader(read_options({"namesrv": "a:1", "subscribe": "t"} | given, streaming=False))
        list(reader.pushFilters([In(("tags",), ("b", "a"))]))
        return reader._options

    assert options().tags == "a || b"
    assert options(tags="c").tags == "c"
    assert options(sql="x > 1").tags == "*"
    assert [as_expression(frozenset(tags)) for tags in ([], ["*"], ["a || b"], [" a"])] == [None] * 4


def test_a_plain_reader_takes_no_filters() -> None:
    assert BatchReader.pushFilters is DataSourceReader.pushFilters, "Spark would refuse every read"
    assert not is_pushing()
