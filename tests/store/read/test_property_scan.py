from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyromq.protocol.messages.properties import encode_properties
from pyromq.protocol.messages.record import Record, decode_messages
from pyromq.store.files import OsFiles
from pyromq.store.message_store import MessageStore
from pyromq.store.read.reader import StoreReader
from pyromq.store.results import GetStatus
from tests.store.helpers import HOST, small_store


class Wants:
    """Accepts what has this in its properties, and notes what it was asked about."""

    def __init__(self, needle: bytes = b"", scan_limit: int = 800, reads_bodies: bool = False) -> None:
        self.needle = needle
        self.reads_bodies = reads_bodies
        self.scan_limit = scan_limit
        self.asked: list[bytes] = []

    def accepts(self, properties: bytes, /) -> bool:
        self.asked.append(properties)
        return self.needle in properties


def put(store: MessageStore, body: bytes, **properties: str) -> None:
    raw = encode_properties(properties).encode()
    store.put(Record(topic="orders", body=body, properties=raw, store_host=HOST))
    store.commit()


def bodies(store: MessageStore | StoreReader, wants: Wants, count: int = 32) -> list[bytes]:
    result = store.get("orders", 0, 0, count, wants=wants)
    return [message.body for message in decode_messages(b"".join(result.views))]


@pytest.mark.parametrize("tail", [0, 1 << 20], ids=["from disk", "from memory"])
@pytest.mark.parametrize("size", [1, 900], ids=["small", "large"])
def test_records_are_chosen_by_their_stored_properties(tmp_path: Path, tail: int, size: int) -> None:
    with small_store(tmp_path, mapped_tail=tail, commit_log_file_size=1 << 16) as store:
        for number in range(8):
            put(store, b"%d" % number * size, a=str(number % 4))
        wants = Wants(b"a\x012")
        assert [body[:1] for body in bodies(store, wants)] == [b"2", b"6"]
        assert wants.asked == [f"a\x01{number % 4}".encode() for number in range(8)]


class CountedReads(OsFiles):
    """The real calls; `read` is how many bytes came from the disk."""

    read = 0

    def pread(self, descriptor: int, length: int, position: int) -> bytes:
        data = super().pread(descriptor, length, position)
        self.read += len(data)
        return data


def test_a_large_body_that_is_not_wanted_is_not_read_from_the_disk(tmp_path: Path) -> None:
    files = CountedReads()
    with small_store(tmp_path, files, mapped_tail=0, commit_log_file_size=1 << 20) as store:
        put(store, bytes(100_000), a="1")
        put(store, bytes(100_000), a="2")
        files.read = 0
        wants = Wants(b"nowhere")
        assert store.get("orders", 0, 0, 32, wants=wants).next_offset == 2
        assert wants.asked == [b"a\x011", b"a\x012"]
        assert files.read < 10_000


@pytest.mark.parametrize("tail", [0, 1 << 20], ids=["from disk", "from memory"])
def test_a_filter_that_asks_for_them_gets_whole_records(tmp_path: Path, tail: int) -> None:
    with small_store(tmp_path, mapped_tail=tail) as store:
        put(store, b"first", a="1")
        put(store, b"second", a="2")
        wants = Wants(b"seco", reads_bodies=True)
        assert bodies(store, wants) == [b"second"]
        assert [message.body for message in decode_messages(b"".join(wants.asked))] == [b"first", b"second"]


def test_what_does_not_match_is_passed(tmp_path: Path) -> None:
    with small_store(tmp_path, consume_queue_file_size=20_000) as store:
        for number in range(30):
            put(store, b"x", a=str(number))
        result = store.get("orders", 0, 0, 32, wants=Wants(b"nowhere"))
        assert (result.status, result.next_offset, result.count) == (GetStatus.NO_MATCHED_MESSAGE, 30, 0)


def test_no_more_is_looked_at_than_the_filter_allows(tmp_path: Path) -> None:
    with small_store(tmp_path, consume_queue_file_size=20_000) as store:
        for _ in range(30):
            put(store, b"x")
        wants = Wants(b"nowhere", scan_limit=7)
        assert store.get("orders", 0, 0, 32, wants=wants).next_offset == 7
        assert len(wants.asked) == 7


def test_nothing_is_looked_at_behind_a_full_answer(tmp_path: Path) -> None:
    with small_store(tmp_path) as store:
        for number in range(10):
            put(store, b"%d" % number)
        wants = Wants()
        result = store.get("orders", 0, 0, 2, wants=wants)
        assert (result.count, result.next_offset, len(wants.asked)) == (2, 2, 2)


def test_a_filter_by_tag_comes_first(tmp_path: Path) -> None:
    with small_store(tmp_path) as store:
        put(store, b"x")
        wants = Wants()
        result = store.get("orders", 0, 0, 32, codes=frozenset({7}), wants=wants)
        assert (result.status, wants.asked) == (GetStatus.NO_MATCHED_MESSAGE, [])


def test_a_read_only_view_filters_too(tmp_path: Path) -> None:
    with small_store(tmp_path) as store:
        for number in range(6):
            put(store, b"%d" % number, a=str(number % 2))
        with StoreReader(tmp_path) as reader:
            assert bodies(reader, Wants(b"a\x011")) == [b"1", b"3", b"5"]


@settings(max_examples=30, deadline=None)
@given(
    kinds=st.lists(st.sampled_from(["", "a", "b", "ab"]), max_size=40),
    needle=st.sampled_from([b"a", b"b", b"c"]),
    start=st.integers(0, 40),
    count=st.integers(1, 10),
)
def test_reading_on_gives_every_wanted_message_once_and_in_order(
    tmp_path_factory: pytest.TempPathFactory, kinds: list[str], needle: bytes, start: int, count: int
) -> None:
    with small_store(tmp_path_factory.mktemp("scan")) as store:
        for number, kind in enumerate(kinds):
            put(store, b"%d" % number, **dict.fromkeys(kind, "x"))
        found, offset = [], start
        while offset < len(kinds):
            result = store.get("orders", 0, offset, count, wants=Wants(needle, scan_limit=5))
            found += [int(message.body) for message in decode_messages(b"".join(result.views))]
            assert result.next_offset > offset
            offset = result.next_offset
    assert found == [number for number, kind in enumerate(kinds) if number >= start and needle.decode() in kind]
