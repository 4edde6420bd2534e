"""The store against a plain list for each queue: whatever is done to it, restarts and kills included, they agree."""

from __future__ import annotations

import shutil
import tempfile
from collections import defaultdict
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pyromq.protocol.messages.record import Record, decode_messages
from pyromq.protocol.tag_filter import tag_code
from pyromq.store.message_store import Arrival, GetStatus, MessageStore, PutResult
from pyromq.store.write.queue_tails import LIMIT
from tests.store.helpers import FakeTime, QuickFiles, message, small_config

TAGS = [None, "a", "b", "c"]
queues = st.tuples(st.sampled_from(["orders", "%RETRY%group"]), st.integers(0, 2))
sent = st.builds(lambda size, tag: (b"x" * size, tag), st.integers(0, 1200), st.sampled_from(TAGS))


class Stored:
    """A message the store has promised to keep."""

    def __init__(self, body: bytes, tag: str | None, place: PutResult) -> None:
        self.body = body
        self.tag = tag
        self.place = place


class StoreMachine(RuleBasedStateMachine):
    """Puts, commits, reads and restarts in any order."""

    @initialize(sync=st.booleans(), holds=st.booleans())
    def start(self, sync: bool, holds: bool) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="pyromq-model-"))
        self.holds = holds  # the newest entries in memory
        self.generation = 0
        self.flush = "SYNC_FLUSH" if sync else "ASYNC_FLUSH"
        self.time = FakeTime()
        self.stored: dict[tuple[str, int], list[Stored]] = defaultdict(list)
        self.pending: dict[tuple[str, int], list[Stored]] = defaultdict(list)
        self.open(self.directory / "0")

    def open(self, root: Path) -> None:
        config = small_config(root, flush_disk_type=self.flush, max_open_files=3, max_mapped_files=2)
        self.store = MessageStore(config, self.time, QuickFiles())
        self.store.open()
        self.store.tails.limit = LIMIT if self.holds else 0
        self.arrivals: list[Arrival] = []
        self.store.on_arrival = self.arrivals.extend

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
            shutil.rmtree(self.directory)

    @rule(queue=queues, sent=sent)
    def put(self, queue: tuple[str, int], sent: tuple[bytes, str | None]) -> None:
        self._expect(queue, [sent], [self.store.put(_record(queue, sent))])

    @rule(queue=queues, batch=st.lists(sent, min_size=1, max_size=3))
    def put_batch(self, queue: tuple[str, int], batch: list[tuple[bytes, str | None]]) -> None:
        batch = [(body[:300], tag) for body, tag in batch]
        self._expect(queue, batch, self.store.put_batch([_record(queue, one) for one in batch]))

    def _expect(self, queue: tuple[str, int], batch: list[tuple[bytes, str | None]], places: list[PutResult]) -> None:
        expected = len(self.stored[queue]) + len(self.pending[queue])
        assert [place.queue_offset for place in places] == list(range(expected, expected + len(batch)))
        self.pending[queue] += [Stored(body, tag, place) for (body, tag), place in zip(batch, places, strict=True)]

    @rule()
    def commit(self) -> None:
        self.store.commit()
        expected = [
            (*queue, one.place.queue_offset, tag_code(one.tag)) for queue, ones in self.pending.items() for one in ones
        ]
        assert sorted(self.arrivals) == sorted(expected)
        self.arrivals.clear()
        self._keep_pending()

    def _keep_pending(self) -> None:
        for queue, ones in self.pending.items():
            self.stored[queue] += ones
        self.pending.clear()

    @rule(most=st.integers(1, 4))
    def write_tails(self, most: int) -> None:
        self.store.tails.write_some(most)

    @rule()
    def checkpoint(self) -> None:
        self.store.flusher.checkpoint()

    @rule()
    def restart(self) -> None:
        self.store.close()
        self._keep_pending()
        self.open(self.store.config.root)

    @rule()
    def restart_after_a_kill(self) -> None:
        self.generation += 1
        root = self.directory / str(self.generation)
        shutil.copytree(self.store.config.root, root)
        self.store.close()
        shutil.rmtree(self.store.config.root)
        self.pending.clear()
        self.open(root)

    @rule(queue=queues, data=st.data())
    def get(self, queue: tuple[str, int], data: st.DataObject) -> None:
        stored = self.stored[queue]
        offset = data.draw(st.integers(0, len(stored)))
        count = data.draw(st.integers(1, 40))
        tags = data.draw(st.none() | st.sets(st.sampled_from(TAGS[1:])))
        codes = None if tags is None else frozenset(map(tag_code, tags))
        result = self.store.get(*queue, offset, count, codes=codes)
        if offset == len(stored):
            assert result.status in (GetStatus.OFFSET_OVERFLOW_ONE, GetStatus.NO_MESSAGE_IN_QUEUE)
            return
        seen = stored[offset : result.next_offset]
        wanted = [one for one in seen if tags is None or one.tag in tags]
        assert len(seen) > 0
        assert result.count == len(wanted) <= min(count, 32)
        _check(result.views, wanted)

    @rule(queue=queues, data=st.data())
    def find_by_time(self, queue: tuple[str, int], data: st.DataObject) -> None:
        stored = self.stored[queue]
        time = data.draw(st.integers(self.time.now_ms - 50, self.time.now_ms + 5))
        found = self.store.offset_at(*queue, time)
        if not stored:
            assert found == 0
            return
        distance = [abs(one.place.store_timestamp_ms - time) for one in stored]
        assert distance[found] == min(distance)

    @precondition(lambda self: hasattr(self, "store"))
    @invariant()
    def everything_stored_is_read_back(self) -> None:
        for queue, stored in self.stored.items():
            assert self.store.max_offset(*queue) == len(stored)
            assert self.store.next_offset(*queue) == len(stored) + len(self.pending[queue])
            offset = 0
            while offset < len(stored):
                result = self.store.get(*queue, offset, 32)
                _check(result.views, stored[offset : result.next_offset])
                offset = result.next_offset


def _record(queue: tuple[str, int], sent: tuple[bytes, str | None]) -> Record:
    return message(topic=queue[0], queue_id=queue[1], body=sent[0], tag=sent[1])


def _check(views: list[bytes | bytearray | memoryview], expected: list[Stored]) -> None:
    found = decode_messages(b"".join(views))
    assert [(one.body, one.tags) for one in found] == [(one.body, one.tag) for one in expected]
    assert [(one.queue_offset, one.physical_offset, one.store_timestamp_ms) for one in found] == [
        (one.place.queue_offset, one.place.physical_offset, one.place.store_timestamp_ms) for one in expected
    ]


StoreMachine.TestCase.settings = settings(
    max_examples=25, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
TestStoreAgainstAModel = StoreMachine.TestCase
