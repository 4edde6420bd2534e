from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pyromq.store.consume_queue import ENTRY, ENTRY_SIZE, ConsumeQueue
from pyromq.store.queue_table import ConsumeQueues
from pyromq.store.recovery.queue_recovery import scan_queue
from pyromq.store.segments import DescriptorPool, DirtyFiles
from tests.store.helpers import FaultyFiles

FILE_SIZE = 300 * ENTRY_SIZE


def queue_with(root: Path, first: int, count: int, *, junk_at: int | None = None) -> tuple[ConsumeQueue, FaultyFiles]:
    """Return a queue with entries from an offset on, in a file of its own, and bytes behind them where asked for."""
    files = FaultyFiles()
    queues = ConsumeQueues(root, FILE_SIZE, files, DescriptorPool(files, 8), DirtyFiles())
    queue = queues.get("orders", 0)
    if count:
        queue.restore(first, b"".join(ENTRY.pack(1000 + number, 100, 0) for number in range(first, first + count)))
        if junk_at is not None and (first + count + junk_at) * ENTRY_SIZE < queue.segments.stop:
            queue.rewrite(first + count + junk_at, ENTRY.pack(77, 100, 0))
    files.calls.clear()
    return queue, files


@given(
    st.integers(0, 700), st.integers(0, 650), st.integers(-3, 3), st.none() | st.sampled_from((1, 100, 203, 204, 290))
)
@example(0, 300, 0, None)
@example(0, 299, 1, None)
@example(5, 204, 0, 205)
def test_whatever_end_is_likely_the_one_that_is_there_is_found(
    first: int, count: int, away: int, junk_at: int | None
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        queue, _ = queue_with(Path(directory), first, count, junk_at=junk_at)
        look = scan_queue(queue, first + count + away)
        if junk_at is None or look.end != first + count:
            assert look.end == queue.find_end()
        assert look.first == queue.entry(queue.segments.start // ENTRY_SIZE)
        assert look.last == queue.entry(look.end - 1)
        if not look.has_more:
            assert queue.segments.end_of_bytes(queue.segments.stop - FILE_SIZE) <= look.end * ENTRY_SIZE


@pytest.mark.parametrize("count", [1, 30, 204, 250])
def test_an_end_that_was_noted_costs_few_reads(tmp_path: Path, count: int) -> None:
    queue, files = queue_with(tmp_path, 0, count)
    look = scan_queue(queue, count)
    assert (look.end, look.has_more) == (count, False)
    assert files.calls["pread"] == (1 if count <= 204 else 2)


def test_bytes_far_behind_the_end_are_noticed(tmp_path: Path) -> None:
    queue, _ = queue_with(tmp_path, 0, 3, junk_at=280)
    assert scan_queue(queue, 3).has_more
