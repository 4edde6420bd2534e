"""A store that shows only confirmed messages against a plain list: whatever is done to it, they agree."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from pyromq.protocol.messages.properties import encode_properties
from pyromq.protocol.messages.record import Record
from pyromq.store.message_store import Arrival, MessageStore
from pyromq.store.read.readable import ReadableStore
from pyromq.store.read.reader import StoreReader
from pyromq.store.write.visibility import EVERYTHING
from tests.store.helpers import HOST, FakeTime, QuickFiles, read_queue, small_config
from tests.store.recovery.test_log_cut import problems

QUEUES = [("orders", 0), ("orders", 1), ("bills", 0)]


class Stored(NamedTuple):
    """A message in the log."""

    queue: tuple[str, int]
    body: bytes
    queue_offset: int
    end: int


def by_queue(arrivals: list[tuple[str, int, int]]) -> dict[tuple[str, int], list[int]]:
    """Return the offsets that arrived in each queue; those of a group arrive with a queue's side by side."""
    found: dict[tuple[str, int], list[int]] = {}
    for topic, queue_id, offset in arrivals:
        found.setdefault((topic, queue_id), []).append(offset)
    return found


class VisibilityMachine(RuleBasedStateMachine):
    """Puts, commits, flushes, confirmations, cuts and restarts in any order."""

    @initialize(sync=st.booleans())
    def start(self, sync: bool) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="pyromq-visible-"))
        self.sync = sync
        self.time = FakeTime()
        self.number = self.generation = 0
        self.log: list[Stored] = []
        self.pending: list[Stored] = []
        self.visible = 0  # how many of the log
        self.arrived: list[Stored] = []
        self.durable = self.confirmed = 0
        self.open(self.directory / "0", confirmed_only=True)

    def open(self, root: Path, *, confirmed_only: bool) -> None:
        flush = "SYNC_FLUSH" if self.sync else "ASYNC_FLUSH"
        config = small_config(root, flush_disk_type=flush, shows_confirmed_only=confirmed_only, max_open_files=3)
        self.calls: list[tuple[Any, ...]] = []
        self.store = MessageStore(
            config, self.time, QuickFiles(), call_threadsafe=lambda *call: self.calls.append(call)
        )
        self.arrivals: list[Arrival] = []
        self.store.on_arrival = self.arrivals.extend
        self.store.open()
        self._take_picture()

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
            shutil.rmtree(self.directory)

    @property
    def end(self) -> int:
        return self.log[-1].end if self.log else 0

    # --- what is done

    @rule(queue=st.sampled_from(QUEUES), length=st.integers(0, 900))
    def put(self, queue: tuple[str, int], length: int) -> None:
        self.number += 1
        body = b"%d-" % self.number + b"x" * length
        key = encode_properties({"KEYS": f"key{self.number}"}).encode()
        place = self.store.put(Record(topic=queue[0], queue_id=queue[1], body=body, properties=key, store_host=HOST))
        expected = sum(one.queue == queue for one in (*self.log, *self.pending))
        assert place.queue_offset == expected
        self.pending.append(Stored(queue, body, place.queue_offset, place.physical_offset + place.size))

    @rule()
    def commit(self) -> None:
        self.store.commit()
        self.log += self.pending
        self.pending.clear()
        if not self.sync:
            self.durable = self.end
        self._settle()

    @rule()
    def flush(self) -> None:
        self.store.flush()
        calls, self.calls = self.calls, []
        for function, *arguments in calls:
            function(*arguments)
        self.durable = self.end
        self._settle()

    @rule(data=st.data())
    def confirm(self, data: st.DataObject) -> None:
        ends = [0, EVERYTHING, *(one.end for one in self.log), *(one.end - 1 for one in self.log)]
        self.confirmed = data.draw(st.sampled_from(ends))
        self.store.confirm(self.confirmed)
        self._settle()

    @rule(data=st.data())
    def cut(self, data: st.DataObject) -> None:
        self.commit()
        kept = data.draw(st.integers(0, len(self.log)))
        end = self.log[kept - 1].end if kept else 0
        self.store.cut(end)
        if kept < len(self.log):
            self.durable = end
        del self.log[kept:]
        self.visible = min(self.visible, kept)
        self.confirmed = min(self.confirmed, end)
        self._settle()
        self.checkpoint()

    @rule()
    def checkpoint(self) -> None:
        self.store.flusher.checkpoint()
        self._take_picture()

    def _take_picture(self) -> None:
        """Keep what is on the disk for certain, but for the log: queues, index and small files."""
        self.flushed, self.flushed_visible = self.directory / "flushed", self.visible
        shutil.rmtree(self.flushed, ignore_errors=True)
        shutil.copytree(self.store.config.root, self.flushed)

    @rule()
    def restart(self) -> None:
        self.store.close()
        self.log += self.pending
        self.pending.clear()
        self.durable = self.end
        self._settle()
        self._check_arrivals()
        assert problems(self.store.config.root) == []
        self.read_the_files()
        self._open_again(self.store.config.root)

    @rule()
    def restart_after_a_kill(self) -> None:
        self.generation += 1
        root = self.directory / str(self.generation)
        shutil.copytree(self.store.config.root, root)
        self._check_arrivals()
        self.store.close()
        shutil.rmtree(self.store.config.root)
        self.pending.clear()
        self._open_again(root)

    @rule(written=st.sets(st.sampled_from(QUEUES)))
    def restart_after_a_power_cut(self, written: set[tuple[str, int]]) -> None:
        """Lose what was not flushed, but for the log and some of the queues."""
        root = self.store.config.root
        for topic, queue_id in written:
            current, kept = (base / "consumequeue" / topic / str(queue_id) for base in (root, self.flushed))
            if current.exists():
                shutil.copytree(current, kept, dirs_exist_ok=True)
        shutil.rmtree(self.flushed / "commitlog", ignore_errors=True)
        if (root / "commitlog").exists():
            shutil.copytree(root / "commitlog", self.flushed / "commitlog")
        self.generation += 1
        root = self.flushed.rename(self.directory / str(self.generation))
        self._check_arrivals()
        self.store.close()
        self.pending.clear()
        seen = [place + 1 for place, one in enumerate(self.log[: self.visible]) if one.queue in written]
        self.visible = max([self.flushed_visible, *seen])
        self._open_again(root)

    @rule()
    def restart_as_an_ordinary_store(self) -> None:
        self.restart()
        self.store.close()
        self.open(self.store.config.root, confirmed_only=False)
        self.visible = len(self.log)
        assert contents(self.store) == self._visible_contents()
        self.store.close()
        self._open_again(self.store.config.root)

    def _open_again(self, root: Path) -> None:
        self.durable = self.end
        self.confirmed = self.log[self.visible - 1].end if self.visible else 0
        self.open(root, confirmed_only=True)

    def _settle(self) -> None:
        end = min(self.durable, self.confirmed)
        while self.visible < len(self.log) and self.log[self.visible].end <= end:
            self.arrived.append(self.log[self.visible])
            self.visible += 1

    # --- what is seen

    def _visible_contents(self) -> dict[tuple[str, int], list[bytes]]:
        return {
            queue: [one.body for one in self.log[: self.visible] if one.queue == queue]
            for queue in QUEUES
            if any(one.queue == queue for one in self.log[: self.visible])
        }

    @invariant()
    def ends_are_right(self) -> None:
        if not hasattr(self, "store"):
            return
        hidden = self.visible < len(self.log)
        visible_end = self.log[self.visible - 1].end if self.visible else 0
        assert self.store.durable_offset >= min(self.durable, self.end)
        assert visible_end <= self.store.confirm_offset <= self.store.max_physical_offset
        assert not hidden or self.store.confirm_offset < self.log[self.visible].end
        assert hidden or self.store.confirm_offset == self.store.max_physical_offset
        self._check_arrivals()

    def _check_arrivals(self) -> None:
        expected = [(*one.queue, one.queue_offset) for one in self.arrived]
        assert by_queue([arrival[:3] for arrival in self.arrivals]) == by_queue(expected)
        self.arrivals.clear()
        self.arrived.clear()

    @rule()
    def read(self) -> None:
        assert contents(self.store) == self._visible_contents()

    @rule()
    def read_the_files(self) -> None:
        if (self.store.config.root / "commitlog").exists():
            with StoreReader(self.store.config.root) as reader:
                assert contents(reader) == self._visible_contents()

    @rule()
    def find(self) -> None:
        for place, one in enumerate(self.log):
            found = self.store.query(one.queue[0], "key" + one.body.split(b"-")[0].decode(), 9)
            assert len(found.records) == (place < self.visible)


def contents(store: ReadableStore) -> dict[tuple[str, int], list[bytes]]:
    """Return the bodies of all queues that have messages."""
    return {queue: [one.body for one in found] for queue in QUEUES if (found := read_queue(store, *queue))}


TestVisibility = VisibilityMachine.TestCase
TestVisibility.settings = settings(
    max_examples=25, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
