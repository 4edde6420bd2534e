"""Several queues read at once give what each of them gives alone; whatever is not plain is left to the plain reader."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyromq.protocol.messages.record import decode_messages
from pyromq.protocol.tag_filter import tag_code
from pyromq.store.message_store import MessageStore
from pyromq.store.results import QueueRange
from tests.store.helpers import QuickFiles, log_files, message, read_queue, small_store

QUEUES = 3
SENDS = st.lists(
    st.tuples(
        st.sampled_from(["orders", "orders", "orders", "others"]),
        st.integers(0, QUEUES - 1),
        st.binary(max_size=300),
        st.sampled_from(["a", "b", None]),
    ),
    min_size=1,
    max_size=60,
)


def _fill(store: MessageStore, sends: list[tuple[str, int, bytes, str | None]]) -> None:
    for topic, queue_id, body, tag in sends:
        store.put(message(topic, body, queue_id, tag))
        store.commit()


def _read(
    store: MessageStore, max_count: int = 1000, max_bytes: int = 1 << 20, codes: frozenset[int] | None = None
) -> dict[int, list[tuple[int, bytes]]]:
    """Read all queues of `orders` together, answer by answer; return offsets and bodies by queue."""
    found: dict[int, list[tuple[int, bytes]]] = defaultdict(list)
    ranges = [QueueRange(queue_id, 0, store.max_offset("orders", queue_id)) for queue_id in range(QUEUES)]
    while any(part.start < part.stop for part in ranges):
        result = store.get_merged("orders", ranges, max_count, max_bytes, codes)
        assert result is not None
        data = b"".join(result.views)
        assert np.frombuffer(result.sizes, ">i4").sum() == len(data) == result.size
        messages = decode_messages(data)
        assert len(messages) == result.count <= max_count
        assert len(data) <= max_bytes or result.count == 1
        places = [message.physical_offset for message in messages]
        assert places == sorted(places), "in the order of the log"
        for one in messages:
            found[one.queue_id].append((one.queue_offset, one.body))
        assert result.next_offsets != [part.start for part in ranges]
        ranges = [part._replace(start=after) for part, after in zip(ranges, result.next_offsets, strict=True)]
    return dict(found)


def _expected(
    store: MessageStore, tags: tuple[str | None, ...] = ("a", "b", None)
) -> dict[int, list[tuple[int, bytes]]]:
    by_queue = {queue_id: read_queue(store, "orders", queue_id) for queue_id in range(QUEUES)}
    return {
        queue_id: rows
        for queue_id, found in by_queue.items()
        if (rows := [(one.queue_offset, one.body) for one in found if one.tags in tags])
    }


@pytest.fixture(scope="module", autouse=True)
def small_blocks() -> Iterator[None]:
    """Let blocks and gaps matter in files as small as those of these tests."""
    module = "pyromq.store.read.merged_reader"
    with patch(f"{module}._BLOCK", 900), patch(f"{module}._WIDEST_GAP", 250):
        yield


@settings(max_examples=40, deadline=None)
@given(SENDS, st.integers(1, 20), st.integers(200, 3000), st.booleans(), st.sampled_from([1, 2000, 10**9]))
def test_the_queues_together_give_what_each_gives_alone(
    sends: list[tuple[str, int, bytes, str | None]], max_count: int, max_bytes: int, is_reopened: bool, memory: int
) -> None:
    with TemporaryDirectory() as directory:
        with small_store(Path(directory), mapped_tail=memory) as store:
            _fill(store, sends)
            assert is_reopened or _read(store, max_count, max_bytes) == _expected(store)
        with small_store(Path(directory), mapped_tail=memory) as store:
            for _ in range(2):  # first what was not checked in this life of the store, then what is known to be sound
                assert _read(store, max_count, max_bytes) == _expected(store)
                assert _read(store, max_count, max_bytes, frozenset([tag_code("a")])) == _expected(store, ("a",))


def test_a_range_that_is_gone_or_not_there_yet_gives_nothing_and_says_where_the_queue_is(tmp_path: Path) -> None:
    with small_store(tmp_path) as store:
        _fill(store, [("orders", 0, b"x", None)] * 3)
        result = store.get_merged("orders", [QueueRange(0, 3, 9), QueueRange(7, 0, 5)], 10, 1000, None)
        assert result is not None
        assert (result.count, result.next_offsets, result.max_offsets) == (0, [3, 0], [3, 0])


@pytest.mark.parametrize("place", [4, 14, 25, 33, 90, 110])
def test_a_damaged_record_is_left_to_the_plain_reader(tmp_path: Path, place: int) -> None:
    with small_store(tmp_path) as store:
        _fill(store, [("orders", number % QUEUES, b"body %d" % number * 4, "a") for number in range(12)])
        damaged = read_queue(store, "orders", 1)[1].physical_offset
    with log_files(tmp_path)[0].open("r+b") as log:
        log.seek(damaged + place)
        byte = log.read(1)[0]
        log.seek(damaged + place)
        log.write(bytes([byte ^ 1]))
    with small_store(tmp_path) as store:
        ranges = [QueueRange(queue_id, 0, 4) for queue_id in range(QUEUES)]
        assert store.get_merged("orders", ranges, 100, 1 << 20, None) is None
        assert sum(len(rows) for rows in _expected(store).values()) == 11


def test_what_was_found_sound_once_is_not_checked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with small_store(tmp_path) as store:
        _fill(store, [("orders", number % QUEUES, b"x", None) for number in range(12)])
    with small_store(tmp_path) as store:
        first = _read(store)
        monkeypatch.setattr("pyromq.store.read.record_columns.RecordColumns.are_sound", None)
        assert _read(store, max_count=2) == first


class WatchedFiles(QuickFiles):
    """Keeps in mind what it was asked to fetch."""

    def __init__(self) -> None:
        self.ahead: list[tuple[int, int]] = []

    def will_need(self, descriptor: int, length: int, position: int) -> None:
        self.ahead.append((position, length))


@pytest.mark.parametrize(("memory", "is_cold"), [(1, True), (10**9, False)])
def test_what_comes_next_is_fetched_ahead_where_it_may_be_on_disk(tmp_path: Path, memory: int, is_cold: bool) -> None:
    files = WatchedFiles()
    ranges = [QueueRange(queue_id, 0, 2) for queue_id in range(QUEUES)]
    with small_store(tmp_path, files, mapped_tail=memory) as store:
        _fill(store, [("orders", number % QUEUES, b"x", None) for number in range(12)])
        result = store.get_merged("orders", ranges, 6, 1 << 20, None)
        assert result is not None
        assert files.ahead == ([(result.size, result.size)] if is_cold else [])
