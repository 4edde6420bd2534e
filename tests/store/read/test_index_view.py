"""Finding messages by key in a directory that is only read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyromq.protocol.messages.record import decode_messages
from pyromq.store.index import message_index
from pyromq.store.message_store import MessageStore
from pyromq.store.read.reader import StoreReader
from tests.store.helpers import left_by_a_kill, small_store
from tests.store.index.test_message_index import index_files, keyed

COUNT = 300
MANY_SLOTS: dict[str, Any] = {"max_hash_slots": 20_000, "max_index_entries": 160, "commit_log_file_size": 1 << 20}


def fill(store: MessageStore) -> None:
    for number in range(COUNT):
        store.put(keyed(f"k{number}", "all", unique=f"U{number}", body=b"%d" % number))
    store.commit()
    store.flusher.checkpoint()


def bodies(reader: StoreReader, key: str, count: int = 64, **times: Any) -> list[bytes]:
    result = reader.read_found(reader.find("orders", key, count, **times), **times)
    return [one.body for one in decode_messages(b"".join(result.records)) if key in (*one.keys, one.message_id)]


def check(root: Path) -> None:
    with StoreReader(root) as reader:
        for number in range(0, COUNT, 7):
            assert bodies(reader, f"k{number}") == bodies(reader, f"U{number}") == [b"%d" % number]
        assert bodies(reader, "all", 3) == [b"297", b"298", b"299"]
        assert len(bodies(reader, "all", 1000)) == 64
        assert bodies(reader, "none") == []


def test_every_key_of_a_store_that_was_stopped_is_found(tmp_path: Path) -> None:
    with small_store(tmp_path, **MANY_SLOTS) as store:
        fill(store)
    assert len(index_files(tmp_path)) > 3
    check(tmp_path)


@pytest.mark.parametrize("slots", [5, 20_000])
def test_every_key_of_a_live_store_is_found_although_its_slots_are_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slots: int
) -> None:
    monkeypatch.setattr(message_index, "_PAGES_A_PASS", 1)
    with small_store(tmp_path, **MANY_SLOTS | {"max_hash_slots": slots}) as store:
        fill(store)
        check(tmp_path)


def test_every_key_that_a_killed_broker_had_flushed_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_index, "_PAGES_A_PASS", 1)
    with small_store(tmp_path / "a", **MANY_SLOTS) as store:
        fill(store)
        root = left_by_a_kill(store, tmp_path / "b")
    check(root)


def test_the_index_of_another_broker_is_read_by_the_size_of_its_files(tmp_path: Path) -> None:
    with small_store(tmp_path, **MANY_SLOTS | {"max_hash_slots": 100, "max_index_entries": 400}) as store:
        fill(store)
    (tmp_path / "pyromq.index").unlink()
    check(tmp_path)


def test_only_messages_of_the_time_and_of_the_log_are_found(tmp_path: Path) -> None:
    with small_store(tmp_path, **MANY_SLOTS) as store:
        fill(store)
        times = [one.store_timestamp_ms for one in decode_messages(b"".join(store.query("orders", "all", 64).records))]
    with StoreReader(tmp_path) as reader:
        assert bodies(reader, "all", begin_ms=times[-3], end_ms=times[-2]) == [b"297", b"298"]
        assert bodies(reader, "all", begin_ms=times[-1] + 1, end_ms=times[-1] + 5000) == []


def test_a_directory_without_an_index_has_no_keys(tmp_path: Path) -> None:
    with small_store(tmp_path, message_index=False) as store:
        store.put(keyed("a"))
    with StoreReader(tmp_path) as reader:
        assert reader.find("orders", "a", 8) == []
        assert reader.read_found([]).records == []
