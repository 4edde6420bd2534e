"""A queue whose newest entries are in memory against one that writes each at once: they never differ."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pyromq.store.consume_queue import ENTRY, ENTRY_SIZE, ConsumeQueue
from pyromq.store.queue_table import ConsumeQueues
from pyromq.store.segments import DescriptorPool, DirtyFiles
from tests.store.helpers import QUEUE_FILE_SIZE, QuickFiles

SIZE = 100


class TailMachine(RuleBasedStateMachine):
    """Entries come, and whatever else can happen to a queue does, in any order."""

    @initialize()
    def start(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="pyromq-tails-"))
        files = QuickFiles()
        self.queues = [
            ConsumeQueues(self.directory / name, QUEUE_FILE_SIZE, files, DescriptorPool(files, 2), DirtyFiles()).get(
                "orders", 0
            )
            for name in ("held", "plain")
        ]
        self.held, self.plain = self.queues
        self.physical = 1000
        self.log_start = 0

    def teardown(self) -> None:
        if hasattr(self, "directory"):
            for queue in self.queues:
                queue.segments._pool.close()
            shutil.rmtree(self.directory)

    def _entries(self, count: int) -> list[bytes]:
        first = self.physical
        self.physical += count * SIZE
        return [ENTRY.pack(place, SIZE, place % 7) for place in range(first, self.physical, SIZE)]

    # --- what is done

    @rule(count=st.integers(1, 25))
    def add(self, count: int) -> None:
        entries = self._entries(count)
        for queue in self.queues:
            queue.make_room(count)
            queue.next_offset += count
        self.held.hold(entries)
        self.plain.append(entries)

    @rule()
    def append(self) -> None:
        entries = self._entries(1)
        for queue in self.queues:
            queue.make_room(1)
            queue.next_offset += 1
            queue.append(entries)

    @rule()
    def write(self) -> None:
        self.held.write_tail()
        assert self._files(self.held) == self._files(self.plain)

    @rule(data=st.data())
    def cut(self, data: st.DataObject) -> None:
        end = data.draw(st.integers(self.plain.segments.start // ENTRY_SIZE, self.plain.max_offset))
        for queue in self.queues:
            queue.cut(end)
            queue.find_start(self.log_start)

    @precondition(lambda self: self.plain.max_offset > self.plain.min_offset)
    @rule(data=st.data())
    def rewrite(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.plain.min_offset, self.plain.max_offset - 1))
        entry = ENTRY.pack(self.plain.entry(offset).physical_offset, SIZE, 99)
        for queue in self.queues:
            queue.rewrite(offset, entry)

    @rule(gap=st.integers(0, 15))
    def restore(self, gap: int) -> None:
        [entry] = self._entries(1)
        for queue in self.queues:
            offset = queue.max_offset + gap
            queue.restore(offset, entry)
            queue.cut(offset + 1)
            queue.find_start(self.log_start)

    @rule(gap=st.integers(1, 15))
    def extend(self, gap: int) -> None:
        for queue in self.queues:
            queue.extend(queue.max_offset + gap)
            queue.find_start(self.log_start)

    @rule(data=st.data())
    def expire(self, data: st.DataObject) -> None:
        self.log_start = data.draw(st.integers(self.log_start, self.physical))
        held, plain = (queue.drop_before(self.log_start) for queue in self.queues)
        assert [Path(path).name for path in held] == [Path(path).name for path in plain]
        for path in (*held, *plain):
            Path(path).unlink()

    # --- what is seen

    @precondition(lambda self: hasattr(self, "queues"))
    @invariant()
    def both_say_the_same(self) -> None:
        held, plain = self.held, self.plain
        for name in ("min_offset", "max_offset", "next_offset", "reserved"):
            assert getattr(held, name) == getattr(plain, name), name
        assert (held.segments.start, held.segments.stop) == (plain.segments.start, plain.segments.stop)
        assert held.written_offset <= plain.written_offset == plain.max_offset
        first = plain.segments.start // ENTRY_SIZE
        for offset in range(first, plain.max_offset + 2):
            assert held.entry(offset).is_written == plain.entry(offset).is_written
            if offset < plain.max_offset:
                assert held.entry(offset) == plain.entry(offset)

    @rule(data=st.data(), count=st.integers(1, 30))
    def read(self, data: st.DataObject, count: int) -> None:
        if self.plain.max_offset == self.plain.segments.start // ENTRY_SIZE:
            return
        offset = data.draw(st.integers(self.plain.segments.start // ENTRY_SIZE, self.plain.max_offset - 1))
        whole = self._whole(self.plain, offset)
        count = min(count, self.plain.max_offset - offset)
        for found in (self.held.read(offset, count), self.held.read_cached(offset, count)):
            assert found
            assert len(found) % ENTRY_SIZE == 0
            assert bytes(found) == whole[: len(found)]
            assert len(found) == count * ENTRY_SIZE or self._ends_a_file(offset + len(found) // ENTRY_SIZE)

    @rule(data=st.data())
    def look_for(self, data: st.DataObject) -> None:
        place = data.draw(st.integers(900, self.physical))
        assert self.held.end_before(place) == self.plain.end_before(place)
        assert self.held.find_offset(place) == self.plain.find_offset(place)

    def _ends_a_file(self, offset: int) -> bool:
        return offset * ENTRY_SIZE % QUEUE_FILE_SIZE == 0

    @staticmethod
    def _whole(queue: ConsumeQueue, offset: int) -> bytes:
        return b"".join(ENTRY.pack(*queue.entry(place)) for place in range(offset, queue.max_offset))

    @staticmethod
    def _files(queue: ConsumeQueue) -> dict[str, bytes]:
        directory = Path(queue.segments.directory)
        return {path.name: path.read_bytes() for path in directory.iterdir()} if directory.exists() else {}


TailMachine.TestCase.settings = settings(
    max_examples=40, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
TestTailsAgainstFiles = TailMachine.TestCase
