"""Plain reads: what they answer is what the ordinary reader answers, in both lanes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyromq.lane import native
from pyromq.lane.pull_answers import AnswerPull, packed_codes, plain_answer
from pyromq.lane.pull_serving import KnownPull, ServePulls, plain_serve
from pyromq.lane.pull_shapes import plain_shape
from pyromq.protocol.command import RemotingCommand
from pyromq.protocol.frame_templates import pull_answer_head
from pyromq.protocol.tag_filter import tag_code
from pyromq.store.consume_queue import ConsumeQueue
from pyromq.store.message_store import GetStatus, MessageStore
from pyromq.store.read.plain_reader import PlainReader
from pyromq.store.read.read_guard import ReadGuard
from tests.lane.pull_desk import pull_frame
from tests.store.helpers import message, small_store

MODULE = native("pulls")
LANES: list[AnswerPull] = [plain_answer] if MODULE is None else [plain_answer, MODULE.answer]
both = pytest.mark.parametrize("answer", LANES, ids=["plain", "native"][: len(LANES)])
SERVING: list[ServePulls] = [plain_serve] if MODULE is None else [plain_serve, MODULE.serve]
both_serve = pytest.mark.parametrize("lane", SERVING, ids=["plain", "native"][: len(LANES)])

OPAQUE = 77
QUEUES = 3
MESSAGES = 120


def reader(store: MessageStore, answer: AnswerPull) -> PlainReader:
    """Return a plain reader of a store that uses the given lane."""
    guard = ReadGuard(store._log, store.fences, store.config.delay_levels_ms)
    return PlainReader(store, store._log, store._queues, guard, answer)


def ordinary(
    store: MessageStore, queue_id: int, offset: int, count: int, max_bytes: int | None, tags: frozenset[str] | None
) -> tuple[bytes, int] | None:
    """Return the answer of the ordinary path and the number of its messages; None if it finds none."""
    codes = None if tags is None else frozenset(map(tag_code, tags))
    result = store.get("orders", queue_id, offset, count, max_bytes=max_bytes, codes=codes)
    if result.status is not GetStatus.FOUND:
        return None
    request = RemotingCommand(11, OPAQUE)
    head = pull_answer_head(
        request, 0, "FOUND", 0, result.next_offset, result.min_offset, result.max_offset, result.size
    )
    return b"".join((head, *result.views)), result.count


@contextmanager
def filled_store(root: Path, **changes: Any) -> Iterator[MessageStore]:
    with small_store(root, **changes) as store:
        for index in range(MESSAGES):
            store.put(message(queue_id=index % QUEUES, body=bytes(index % 50), tag=f"tag{index % 7 // 2}"))
        store.commit()
        yield store


@pytest.fixture(scope="module")
def stores() -> Iterator[list[MessageStore]]:
    """Stores whose queues and logs have files of different sizes."""
    with (
        TemporaryDirectory() as one,
        TemporaryDirectory() as other,
        filled_store(Path(one)) as small,
        filled_store(Path(other), commit_log_file_size=1 << 20, consume_queue_file_size=20_000) as large,
    ):
        yield [small, large]


any_pull = given(  # which store, queue, offset, count, bytes, tags
    st.integers(0, 1),
    st.integers(-1, QUEUES),
    st.integers(-1, MESSAGES // QUEUES + 1),
    st.integers(-1, 60),
    st.one_of(st.none(), st.none(), st.integers(0, 5000)),
    st.one_of(st.none(), st.frozensets(st.sampled_from(["tag0", "tag1", "tag2", "tag3", "none"]), max_size=3)),
)


@both
@settings(deadline=None)
@any_pull
def test_a_plain_answer_is_the_ordinary_one(
    answer: AnswerPull,
    stores: list[MessageStore],
    which: int,
    queue_id: int,
    offset: int,
    count: int,
    max_bytes: int | None,
    tags: frozenset[str] | None,
) -> None:
    store = stores[which]
    codes = None if tags is None else packed_codes(frozenset(map(tag_code, tags)))
    found = reader(store, answer).get("orders", queue_id, offset, count, max_bytes, codes, 0, OPAQUE)
    if found is not None:
        assert found[:2] == ordinary(store, queue_id, offset, count, max_bytes, tags)
        assert found[3] == store.max_offset("orders", queue_id)


@both
@pytest.mark.parametrize("tags", [None, frozenset({"tag0"}), frozenset({"tag0", "tag1", "tag2", "tag3"})])
def test_reads_of_what_was_just_written_are_plain(
    answer: AnswerPull, stores: list[MessageStore], tags: frozenset[str] | None
) -> None:
    codes = None if tags is None else packed_codes(frozenset(map(tag_code, tags)))
    for offset in range(0, MESSAGES // QUEUES, 3):
        found = reader(stores[1], answer).get("orders", 1, offset, 32, None, codes, 0, OPAQUE)
        expected = ordinary(stores[1], 1, offset, 32, None, tags)
        assert found is not None or expected is None
        assert found is None or found[:2] == expected


@both
def test_a_read_over_two_files_of_the_log_is_not_plain(answer: AnswerPull, tmp_path: Path) -> None:
    with small_store(tmp_path, consume_queue_file_size=20_000) as store:
        for _ in range(6):
            store.put(message(body=bytes(1000)))
        store.commit()
        plain = reader(store, answer)
        sizes = [plain.get("orders", 0, offset, 32, None, None, 0, OPAQUE) for offset in range(6)]
        assert [found and found[1] for found in sizes] == [None, None, None, 3, 2, 1]


@both
def test_what_was_written_before_the_store_was_opened_is_looked_at_closely(answer: AnswerPull, tmp_path: Path) -> None:
    with filled_store(tmp_path, commit_log_file_size=1 << 20):
        pass
    with small_store(tmp_path, commit_log_file_size=1 << 20) as store:
        assert reader(store, answer).get("orders", 0, 0, 32, None, None, 0, OPAQUE) is None
        assert ordinary(store, 0, 0, 32, None, None) is not None


@both
def test_where_damage_is_known_nothing_is_plain(answer: AnswerPull, tmp_path: Path) -> None:
    with filled_store(tmp_path, commit_log_file_size=1 << 20) as store:
        plain = reader(store, answer)
        assert plain.get("orders", 0, 0, 32, None, None, 0, OPAQUE) is not None
        store.fences.add(0, 100, store._log.segments.path(0))
        assert plain.get("orders", 0, 0, 32, None, None, 0, OPAQUE) is None


@both
def test_messages_that_are_not_visible_are_not_read(answer: AnswerPull, tmp_path: Path) -> None:
    with small_store(tmp_path, commit_log_file_size=1 << 20, shows_confirmed_only=True) as store:
        place = [store.put(message()) for _ in range(3)]
        store.commit()
        plain = reader(store, answer)
        assert plain.get("orders", 0, 0, 32, None, None, 0, OPAQUE) is None
        store.confirm(place[2].physical_offset)
        found = plain.get("orders", 0, 0, 32, None, None, 0, OPAQUE)
        assert found is not None
        assert (found[1], found[3]) == (2, 2)


@both
def test_a_closed_store_has_no_answer(answer: AnswerPull, tmp_path: Path) -> None:
    with filled_store(tmp_path, commit_log_file_size=1 << 20) as store:
        plain = reader(store, answer)
    assert plain.get("orders", 0, 0, 32, None, None, 0, OPAQUE) is None


# --- pulls that are served one after the other


def served(
    lane: ServePulls,
    plain: PlainReader,
    queue_id: int,
    offset: int,
    count: int = 32,
    max_bytes: int | None = None,
    tags: frozenset[str] | None = None,
    now: float = 0.0,
) -> bytes | None:
    """Return the answer to a pull of a known shape; None if it is not plain."""
    codes = None if tags is None else packed_codes(frozenset(map(tag_code, tags)))
    queue = plain.queue("orders", queue_id)
    numbers = None if queue is None else plain.numbers(queue, count, max_bytes, codes, 0)
    if queue is None or numbers is None or not plain.is_on:
        return None
    frame = pull_frame("orders", offset, 0, OPAQUE)
    shape = plain_shape(frame)
    assert shape is not None
    known = {shape[0]: KnownPull(queue, codes, numbers, lambda *numbers: True)}
    scratch = memoryview(bytearray(300_000))
    answered, answers, more = lane([frame], 0, 1, known, plain.last_place(now), plain, scratch, None, 0)
    assert not more
    return bytes(answers) if answered else None


@both_serve
@settings(deadline=None)
@any_pull
def test_a_served_answer_is_that_of_a_single_read(
    lane: ServePulls,
    stores: list[MessageStore],
    which: int,
    queue_id: int,
    offset: int,
    count: int,
    max_bytes: int | None,
    tags: frozenset[str] | None,
) -> None:
    store = stores[which]
    codes = None if tags is None else packed_codes(frozenset(map(tag_code, tags)))
    expected = store.plain_reader.get("orders", queue_id, offset, count, max_bytes, codes, 0, OPAQUE)
    found = served(lane, store.plain_reader, queue_id, offset, count, max_bytes, tags)
    assert found == (expected and expected[0])


@both_serve
def test_consecutive_pulls_read_entries_once(lane: ServePulls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with filled_store(tmp_path, commit_log_file_size=1 << 20, consume_queue_file_size=20_000) as store:
        reads: list[tuple[int, int]] = []
        read = ConsumeQueue.read_cached

        def noted(self: ConsumeQueue, offset: int, count: int) -> Any:
            reads.append((offset, count))
            return read(self, offset, count)

        monkeypatch.setattr(ConsumeQueue, "read_cached", noted)
        for offset in range(0, 40, 5):
            expected = ordinary(store, 1, offset, 5, None, None)
            assert expected is not None
            assert served(lane, store.plain_reader, 1, offset, 5) == expected[0]
        assert reads == [(0, 40)]


@both_serve
def test_what_was_cut_off_or_mended_is_read_again(lane: ServePulls, tmp_path: Path) -> None:
    with small_store(tmp_path, commit_log_file_size=1 << 20, consume_queue_file_size=20_000) as store:
        plain = store.plain_reader

        def put(*bodies: bytes) -> None:
            for body in bodies:
                store.put(message(body=body))
            store.commit()

        def check(offset: int) -> None:
            expected = ordinary(store, 0, offset, 32, None, None)
            assert expected is not None
            assert served(lane, plain, 0, offset) == expected[0]

        put(b"one", b"two")
        middle = store.max_physical_offset
        put(b"three, which is longer", b"four")
        check(0)
        store.cut(middle)
        assert served(lane, plain, 0, 2) is None
        put(b"five", b"six", b"seven")
        check(2)
        queue = plain.queue("orders", 0)
        assert queue is not None
        assert queue.chunks
        queue.rewrite(3, queue.read(4, 1))  # another place is right after all
        expected = plain.get("orders", 0, 3, 1, None, None, 0, OPAQUE)
        assert expected is not None
        assert b"seven" in expected[0]
        assert served(lane, plain, 0, 3, 1) == expected[0]


@both_serve
def test_entries_of_many_queues_are_not_all_kept(
    lane: ServePulls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyromq.store.read.plain_reader._MOST_CHUNKS", 2)
    with filled_store(tmp_path, commit_log_file_size=1 << 20) as store:
        for queue_id in (0, 1, 2, 2, 1):
            assert served(lane, store.plain_reader, queue_id, 3) is not None
        queues = [store.plain_reader.queue("orders", queue_id) for queue_id in range(QUEUES)]
        assert [queue is not None and bool(queue.chunks) for queue in queues] == [False, True, True]


def test_a_stretch_of_the_log_is_believed_for_a_moment(tmp_path: Path) -> None:
    with filled_store(tmp_path, commit_log_file_size=1 << 20) as store:
        plain = store.plain_reader
        end = store.max_physical_offset
        assert plain.last_place(0.0) is None
        assert plain.place(end, end + 1) is None
        place = plain.place(0, end)
        assert place is not None
        assert plain.last_place(0.0) is place
        assert plain.last_place(float("inf")) is None
        place = plain.place(0, end)
        store.put(message())
        store.commit()
        assert plain.last_place(0.0) is None, "there is more of it"
        assert plain.place(0, end) is not None
        store._log.forget_maps()
        assert plain.last_place(0.0) is None, "its map is gone"


def test_no_map_of_a_file_that_goes_is_kept(tmp_path: Path) -> None:
    with filled_store(tmp_path) as store:
        log = store._log
        assert store.plain_reader.place(0, 100) is not None
        assert log.place is not None
        held = [found for _, found in log.drop_before(log.file_size)]
        assert log.place is None
        assert len(held) == 1, "the space of the file is free when this is gone"
