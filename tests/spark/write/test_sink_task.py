"""Ids of a sink's messages: a task that runs again repeats them, and no two messages share one."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from pyromq.spark.write.sink_task import RowIds, SeenHashes, SinkTask, value_ids

TASK = SinkTask("query-7-3", 3)
row_lists = st.lists(st.sampled_from([b"", b"a", b"b", b"ab"]), min_size=1, max_size=30)


def _ids(rows: list[bytes], task: SinkTask = TASK, at_a_time: int = 7) -> list[tuple[bytes, str]]:
    """Return rows with their ids, made as in a task that gets a few rows at a time."""
    row_ids = RowIds(task)
    found: list[tuple[bytes, str]] = []
    for start in range(0, len(rows), at_a_time):
        some = rows[start : start + at_a_time]
        contents = pa.array([b"before", *some], pa.binary()).slice(1)
        found += zip(some, row_ids.ids(contents).to_pylist(), strict=True)
    return found


@given(row_lists, st.randoms())
def test_rows_have_the_same_ids_in_any_order_and_never_share_one(rows: list[bytes], chance: random.Random) -> None:
    first = _ids(rows)
    assert len({name for _, name in first}) == len(rows)
    again = rows.copy()
    chance.shuffle(again)
    assert Counter(_ids(again, at_a_time=5)) == Counter(first), "each message has its own ids, whatever comes before it"


def test_another_task_or_batch_has_other_ids() -> None:
    mine = {name for _, name in _ids([b"a"] * 5)}
    others = {name for _, name in _ids([b"a"] * 5, SinkTask("query-8-3", 3))}
    assert not mine & others


def test_an_id_has_no_time() -> None:
    for name in (*(name for _, name in _ids([b"a"])), *value_ids(pa.array(["a"])).to_pylist()):
        assert (len(name), name[20:28]) == (32, "00000000")


@given(st.lists(st.lists(st.integers(0, 9), max_size=20), max_size=20))
def test_equal_hashes_are_counted(batches: list[list[int]]) -> None:
    seen, before = SeenHashes(), Counter[int]()
    for batch in batches:
        expected = []
        for value in batch:
            expected.append(before[value])
            before[value] += 1
        assert seen.add(np.array(batch, np.uint64)).tolist() == expected
    assert len(seen._runs) <= 1 + sum(map(len, batches)).bit_length()
