"""Finding messages by key, through the store: what is visible is found at once, in the right order and time."""

from __future__ import annotations

import errno
import shutil
import subprocess
import sys
import tempfile
import threading
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from pyromq.errors import DiskFull, StoreError
from pyromq.protocol.messages.properties import encode_properties
from pyromq.protocol.messages.record import TRANSACTION_PREPARED, TRANSACTION_ROLLBACK, Record, decode_messages
from pyromq.store.index import message_index
from pyromq.store.index.index_file import HEADER
from pyromq.store.index.key_hash import key_hash
from pyromq.store.message_store import MessageStore
from tests.store.helpers import HOST, FakeTime, FaultyFiles, QuickFiles, small_config, small_store

TINY: dict[str, Any] = {"max_hash_slots": 8, "max_index_entries": 16}
KEYS = ["k1", "k2", "k3", "订单"]


def keyed(*keys: str, unique: str | None = None, topic: str = "orders", body: bytes = b"hello") -> Record:
    properties = ({"UNIQ_KEY": unique} if unique else {}) | ({"KEYS": " ".join(keys)} if keys else {})
    return Record(topic=topic, body=body, properties=encode_properties(properties).encode(), store_host=HOST)


def index_files(root: Path) -> list[Path]:
    return sorted((root / "index").iterdir())


def found(store: MessageStore, key: str, max_count: int = 64, topic: str = "orders", **times: int) -> list[bytes]:
    """Return the bodies of the messages that have a key, as a client would keep them."""
    records = store.query(topic, key, max_count, **times).records
    return [one.body for one in decode_messages(b"".join(records)) if key in (one.keys, *one.keys, one.message_id)]


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_a_message_is_found_by_each_key_as_soon_as_it_is_visible(tmp_path: Path, flush: str) -> None:
    with small_store(tmp_path, flush_disk_type=flush, **TINY) as store:
        store.put(keyed("a", "b", unique="U1", body=b"one"))
        assert found(store, "a") == []
        store.commit()
        for key in ("a", "b", "U1"):
            assert found(store, key) == [b"one"]
        assert found(store, "c") == []
        assert found(store, "a", topic="others") == []


def test_no_file_is_made_before_the_first_key(tmp_path: Path) -> None:
    with small_store(tmp_path, **TINY) as store:
        store.put(keyed())
        store.commit()
        assert store.query("orders", "a", 1).records == []
    assert not (tmp_path / "index").exists()


def test_the_newest_are_answered_in_the_order_of_the_log_with_how_far_the_index_reaches(tmp_path: Path) -> None:
    with small_store(tmp_path, **TINY) as store:
        places = []
        for number in range(50):
            places.append(store.put(keyed("same", body=b"%d" % number)))
            store.commit()
        assert found(store, "same", 3) == [b"47", b"48", b"49"]
        result = store.query("orders", "same", 1)
        assert (result.last_update_ms, result.last_update_offset) == (
            places[-1].store_timestamp_ms, places[-1].physical_offset,
        )  # fmt: skip
        assert len(index_files(tmp_path)) == 4


def test_a_query_answers_no_more_than_configured(tmp_path: Path) -> None:
    with small_store(tmp_path, max_query_count=5) as store:
        for _ in range(9):
            store.put(keyed("same"))
        store.commit()
        assert len(store.query("orders", "same", 100).records) == 5


def test_a_query_answers_no_more_bytes_than_a_frame_has(tmp_path: Path) -> None:
    with small_store(tmp_path, QuickFiles(), commit_log_file_size=16 << 20) as store:
        for number in range(4):
            store.put(keyed("same", body=b"%d" % number + b"x" * (3 << 20)))
            store.commit()
        assert [body[:1] for body in found(store, "same")] == [b"2", b"3"]


def test_times_are_exact(tmp_path: Path) -> None:
    time = FakeTime()
    with MessageStore(small_config(tmp_path, **TINY), time) as store:
        places = []
        for number in range(40):
            time.now_ms += 300
            places.append(store.put(keyed("same", body=b"%d" % number)))
            store.commit()
        moments = [place.store_timestamp_ms for place in places]
        assert found(store, "same", begin_ms=moments[7], end_ms=moments[7]) == [b"7"]
        assert found(store, "same", begin_ms=moments[7], end_ms=moments[22] - 1) == [b"%d" % n for n in range(7, 22)]
        assert found(store, "same", begin_ms=moments[-1] + 1) == []
        assert found(store, "same", end_ms=moments[0] - 1) == []
        assert len(found(store, "same", begin_ms=moments[0], end_ms=moments[-1])) == 40


def test_half_messages_are_found_and_rollbacks_are_not(tmp_path: Path) -> None:
    with small_store(tmp_path) as store:
        for body, kind in ((b"half", TRANSACTION_PREPARED), (b"rolled back", TRANSACTION_ROLLBACK)):
            record = keyed("a", body=body)
            record.sys_flag = kind
            store.put(record)
        store.commit()
        assert found(store, "a") == [b"half"]


def test_without_an_index_nothing_is_indexed_and_later_all_of_it_is(tmp_path: Path) -> None:
    with small_store(tmp_path, message_index=False) as store:
        store.put(keyed("a"))
        store.commit()
        assert found(store, "a") == []
    assert not (tmp_path / "index").exists()
    assert not (tmp_path / "pyromq.index").exists()
    with small_store(tmp_path) as store:
        assert found(store, "a") == [b"hello"]
    with small_store(tmp_path, message_index=False) as store:
        store.put(keyed("a", body=b"unseen"))
        store.commit()
        assert found(store, "a") == [b"hello"]
    with small_store(tmp_path) as store:
        assert found(store, "a") == [b"hello", b"unseen"]


def test_a_full_file_is_flushed_with_the_next_checkpoint(tmp_path: Path) -> None:
    with small_store(tmp_path, **TINY) as store:
        for number in range(20):
            store.put(keyed(f"k{number}"))
            store.commit()
        assert found(store, "k3") == [b"hello"]
        store.flusher.checkpoint()
        header = HEADER.unpack(index_files(tmp_path)[0].read_bytes()[:40])
        assert header[5] == 16
        checkpoint = (tmp_path / "checkpoint").read_bytes()
        assert checkpoint[16:24] == header[1].to_bytes(8, "big")
        assert found(store, "k3") == [b"hello"]


def test_many_keys_are_put_without_waiting_for_a_flush(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_index, "_BATCH", 8 * 4)
    monkeypatch.setattr(message_index, "_MOST_WAITING", 16 * 4)
    with small_store(tmp_path, **TINY) as store:
        for number in range(40):
            store.put(keyed(f"k{number}"))
            store.commit()
        assert index_files(tmp_path)
        assert all(found(store, f"k{number}") == [b"hello"] for number in range(40))


def test_a_full_disk_lets_keys_wait_then_refuses_messages_and_resumes_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(message_index, "_BATCH", 4 * 4)
    monkeypatch.setattr(message_index, "_MOST_WAITING", 8 * 4)
    files = _NoSpaceForIndex()
    with MessageStore(small_config(tmp_path, **TINY), FakeTime(), files) as store:
        files.full = True
        accepted = 0
        while accepted < 50 and _is_accepted(store, keyed(f"k{accepted}")):
            accepted += 1
        assert 8 <= accepted < 12
        assert "no space for the index" in caplog.text
        store.flusher.checkpoint()
        files.full = False
        store.put(keyed("more"))
        store.commit()
        assert found(store, "more") == [b"hello"]
        assert all(found(store, f"k{number}") == [b"hello"] for number in range(accepted))


def _is_accepted(store: MessageStore, record: Record) -> bool:
    try:
        store.put(record)
    except DiskFull:
        return False
    store.commit()
    return True


class _NoSpaceForIndex(QuickFiles):
    full = False

    def __init__(self) -> None:
        self._descriptors: set[int] = set()

    def open(self, path: str, *, create: bool = False) -> int:
        descriptor = super().open(path, create=create)
        (self._descriptors.add if "/index/" in path else self._descriptors.discard)(descriptor)
        return descriptor

    def pwrite(self, descriptor: int, data: bytes | memoryview, position: int) -> int:
        if self.full and descriptor in self._descriptors:
            raise OSError(errno.ENOSPC, "no space")
        return super().pwrite(descriptor, data, position)


def test_another_error_of_the_index_stops_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_index, "_MOST_WAITING", 4)
    monkeypatch.setattr(message_index, "_BATCH", 4)
    files = FaultyFiles()
    store = small_store(tmp_path, files, **TINY)
    store.open()
    store.put(keyed("a"))
    files.fail = lambda name, _: errno.EIO if name == "ftruncate" else None
    with pytest.raises(StoreError):
        store.commit()
    assert not store.writable
    store.close()


def test_files_whose_messages_are_gone_are_removed_but_never_the_last(tmp_path: Path) -> None:
    with small_store(tmp_path, **TINY) as store:
        for number in range(60):
            store.put(keyed(f"k{number}"))
            store.commit()
        assert found(store, "k59") == [b"hello"]
        store.flusher.checkpoint()
        files = index_files(tmp_path)
        assert len(files) == 4
        second_end = HEADER.unpack(files[1].read_bytes()[:40])[3]
        store._index.expire(second_end)
        assert index_files(tmp_path) == files[1:]
        store._index.expire(store.max_physical_offset)
        assert index_files(tmp_path) == files[3:]
        assert found(store, "k59") == [b"hello"]
        assert found(store, "k0") == []


def test_sends_go_on_while_an_expired_file_is_removed(tmp_path: Path) -> None:
    files = _SlowRemoval()
    with small_store(tmp_path, files, **TINY) as store:
        for number in range(60):
            store.put(keyed(f"k{number}"))
            store.commit()
        store.flusher.checkpoint()
        files.meanwhile = lambda: store.query("orders", "k59", 1)
        store._index.expire(store.max_physical_offset)
        assert files.waited == [False, False, False]


class _SlowRemoval(QuickFiles):
    """Something else is done while a file is being removed, in another thread; it must not have to wait for that."""

    def __init__(self) -> None:
        self.meanwhile: Callable[[], object] = lambda: None
        self.waited: list[bool] = []

    def unlink(self, path: str) -> None:
        if "/index/" in path:
            other = threading.Thread(target=self.meanwhile, daemon=True)
            other.start()
            other.join(10)
            self.waited.append(other.is_alive())
        super().unlink(path)


def test_an_expired_file_that_cannot_be_removed_is_tried_again(tmp_path: Path) -> None:
    files = FaultyFiles(flushes=False)
    with small_store(tmp_path, files, **TINY) as store:
        for number in range(60):
            store.put(keyed(f"k{number}"))
            store.commit()
        store.flusher.checkpoint()
        files.fail = lambda name, _: errno.EIO if name == "unlink" else None
        with pytest.raises(OSError, match="Input/output"):
            store._index.expire(store.max_physical_offset)
        assert len(index_files(tmp_path)) == 4
        files.fail = lambda name, _: None
        store._index.expire(store.max_physical_offset)
        assert len(index_files(tmp_path)) == 1


class IndexMachine(RuleBasedStateMachine):
    """Puts, queries, flushes, restarts and kills in any order, against a plain list for each key."""

    @initialize()
    def start(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="pyromq-index-"))
        self.generation = 0
        self.time = FakeTime()
        self.stored: dict[tuple[str, str], list[tuple[int, bytes]]] = defaultdict(list)
        self.number = 0
        self.open(self.directory / "0")

    def open(self, root: Path) -> None:
        self.store = MessageStore(small_config(root, **TINY), self.time, QuickFiles())
        self.store.open()

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
            shutil.rmtree(self.directory)

    @rule(
        topic=st.sampled_from(["orders", "others"]),
        sent=st.lists(st.lists(st.sampled_from(KEYS), max_size=3, unique=True), min_size=1, max_size=9),
        later_ms=st.integers(0, 5000),
    )
    def put(self, topic: str, sent: list[list[str]], later_ms: int) -> None:
        self.time.now_ms += later_ms
        for keys in sent:
            self.number += 1
            body = b"%d" % self.number
            place = self.store.put(keyed(*keys, unique=f"U{self.number}", topic=topic, body=body))
            for key in [*keys, f"U{self.number}"]:
                self.stored[topic, key].append((place.store_timestamp_ms, body))
        self.store.commit()

    @rule(topic=st.sampled_from(["orders", "others"]), key=st.sampled_from(KEYS), data=st.data())
    def query(self, topic: str, key: str, data: st.DataObject) -> None:
        begin_ms = data.draw(st.integers(self.time.now_ms - 20_000, self.time.now_ms))
        end_ms = data.draw(st.integers(begin_ms, self.time.now_ms))
        wanted = [body for time_ms, body in self.stored[topic, key] if begin_ms <= time_ms <= end_ms]
        answer = found(self.store, key, 64, topic, begin_ms=begin_ms, end_ms=end_ms)
        assert answer == wanted[len(wanted) - len(answer) :]
        # Other keys of the same slot are none of the same hash here, so nothing else takes their places.
        assert len({key_hash(topic, one) for topic in ("orders", "others") for one in KEYS}) == 8
        assert len(answer) == min(len(wanted), 64)

    @rule(data=st.data())
    def query_unique(self, data: st.DataObject) -> None:
        if self.number:
            number = data.draw(st.integers(1, self.number))
            topic = next(topic for topic in ("orders", "others") if self.stored.get((topic, f"U{number}")))
            assert found(self.store, f"U{number}", 32, topic) == [b"%d" % number]

    @rule()
    def checkpoint(self) -> None:
        self.store.flusher.checkpoint()

    @rule()
    def restart(self) -> None:
        self.store.close()
        self.open(self.store.config.root)

    @rule()
    def restart_after_a_kill(self) -> None:
        self.generation += 1
        root = self.directory / str(self.generation)
        shutil.copytree(self.store.config.root, root)
        self.store.close()
        shutil.rmtree(self.store.config.root)
        self.open(root)


IndexMachine.TestCase.settings = settings(
    max_examples=25, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
TestIndexAgainstAModel = IndexMachine.TestCase


def test_numpy_is_not_loaded_before_there_are_keys(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib; from pyromq.store.config import StoreConfig;"
        "from pyromq.store.message_store import MessageStore;"
        "store = MessageStore(StoreConfig(root=pathlib.Path(sys.argv[1])), lambda: 1_700_000_000_000);"
        "store.open(); store.query('orders', 'a', 1); store.close(); print('numpy' in sys.modules)"
    )
    answer = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "False"
