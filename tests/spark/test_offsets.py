from __future__ import annotations

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.errors import ConfigError
from pyromq.protocol.messages.message import MessageQueue
from pyromq.spark.offsets import Offsets, from_json, limited, queue_name, to_json

QUEUES = st.builds(
    MessageQueue,
    st.sampled_from(["orders", "%RETRY%g", "a|b"]),
    st.sampled_from(["broker-a", "broker-b"]),
    st.integers(0, 20),
)
OFFSETS = st.dictionaries(QUEUES, st.integers(0, 2**62), max_size=12)
ENDS = st.dictionaries(QUEUES, st.tuples(st.integers(0, 1000), st.integers(0, 1000)), max_size=12)


def start_and_end(ends: dict[MessageQueue, tuple[int, int]]) -> tuple[Offsets, Offsets]:
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
    start, end = start_and_end(ends)
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
