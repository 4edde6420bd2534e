"""A timer over a store with small files, without sockets, by a clock that stands still until it is moved."""

from __future__ import annotations

import asyncio
import heapq
import shutil
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path
from typing import Any

from pyromq.broker.delay.timer.timer_service import TimerService
from pyromq.broker.messages.acknowledgements import Acknowledgements
from pyromq.broker.messages.deferred_messages import is_timed
from pyromq.broker.messages.durability import Durability
from pyromq.broker.messages.new_queue_sends import NewQueueSends
from pyromq.broker.messages.new_topic_sends import NewTopicSends
from pyromq.broker.parts import Writing
from pyromq.broker.signals import StoreSignals
from pyromq.protocol.messages.message import MessageExt
from pyromq.protocol.messages.properties import encode_properties
from pyromq.protocol.messages.record import Record, decode_messages
from pyromq.protocol.names import TIMER_TOPIC
from pyromq.store.message_store import MessageStore
from tests.broker.helpers import parts_over
from tests.store.helpers import HOST, QuickFiles, small_config

BEAT_MS = 5
_numbers = count()


class _Alarm:
    def __init__(self, due_ms: float, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        self.due_ms = due_ms
        self.number = next(_numbers)
        self.callback: Callable[..., object] | None = callback
        self.args = args

    def __lt__(self, other: _Alarm) -> bool:
        return (self.due_ms, self.number) < (other.due_ms, other.number)

    def cancel(self) -> None:
        self.callback = None


class StillClock:
    """Time that moves only when it is told to."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self.settle: Callable[[], Awaitable[None]]
        self._now_ms = now_ms
        self._alarms: list[_Alarm] = []

    def now(self) -> float:
        return self._now_ms / 1000

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic(self) -> float:
        return self._now_ms / 1000

    async def sleep(self, seconds: float) -> None:
        if seconds > 0:
            slept = asyncio.get_running_loop().create_future()
            self.call_later(seconds, slept.set_result, None)
            await slept
        else:
            await asyncio.sleep(0)

    def call_later(self, seconds: float, callback: Callable[..., object], *args: Any) -> _Alarm:
        alarm = _Alarm(self._now_ms + seconds * 1000, callback, args)
        heapq.heappush(self._alarms, alarm)
        return alarm

    async def move(self, ms: int) -> None:
        """Let time jump ahead, then go on in small steps until nothing is due any more."""
        self._now_ms += ms
        await self._fire()
        while self._alarms and self._alarms[0].due_ms <= self._now_ms + 2 * BEAT_MS:
            self._now_ms += BEAT_MS
            await self._fire()

    async def _fire(self) -> None:
        while self._alarms and self._alarms[0].due_ms <= self._now_ms:
            alarm = heapq.heappop(self._alarms)
            if alarm.callback is not None:
                alarm.callback(*alarm.args)
                await self.settle()

    def forget(self) -> None:
        """Drop all alarms, as the death of a process does."""
        self._alarms.clear()


class TimerRig:
    """A store and its timer; `kill` and `cut_power` leave the files as those would."""

    def __init__(self, directory: Path, **changes: Any) -> None:
        self.directory = directory
        self.clock = StillClock()
        self.clock.settle = self.settle
        self.delivered: list[MessageExt] = []
        """What was delivered, in order, since the rig was made."""
        self._changes = changes
        self._is_sync = changes.get("flush_disk_type") == "SYNC_FLUSH"
        self._generation = 0

    @property
    def root(self) -> Path:
        return self.directory / str(self._generation)

    async def open(self) -> None:
        """Open store and timer, and wait until the timer is ready."""
        loop = asyncio.get_running_loop()
        config = small_config(self.root, **self._changes)
        signals = StoreSignals()
        self.store = MessageStore(
            config,
            self.clock.now_ms,
            QuickFiles(),
            call_threadsafe=loop.call_soon_threadsafe,
            on_durable=signals.durable,
            on_failure=signals.failed,
        )
        self.store.open()
        parts = parts_over(self.store, self.clock, signals)
        self._topics = parts.topics
        durability = Durability(self.store, signals)
        self.acknowledgements = Acknowledgements(
            self.store, durability, parts.round, self.clock, flush_timeout=5.0, slave_timeout=3.0
        )
        writing = Writing(
            store=self.store,
            durability=durability,
            acknowledgements=self.acknowledgements,
            new_topics=NewTopicSends(parts.topics),
            new_queues=NewQueueSends(self.store.new_queues, parts.clock),
        )
        self.service = TimerService(parts, writing)
        self.timer = self.service.timer
        self._seen = self.store.max_offset("orders", 0)
        self.service.start()
        await self.settle()
        await self.clock.move(0)

    async def close(self) -> None:
        """Stop as a broker does."""
        await self.service.stop()
        await self._topics.saver.finish()
        self.collect()
        self.clock.forget()
        self.store.close()

    async def kill(self, spoil: Callable[[Path], None] = lambda root: None) -> None:
        """Go on with the files as a killed process leaves them, or as `spoil` makes them."""
        await self.settle()
        self.collect()
        self.store.cleaner.close()  # no file goes while they are copied
        old = self.root
        self._generation += 1
        shutil.copytree(old, self.root)
        spoil(self.root)
        self.clock.forget()
        await self.service.stop()
        self.store.close()
        shutil.rmtree(old)
        await self.open()

    async def cut_power(self) -> int:
        """Go on without what was not flushed; return where the log ended."""
        end = self.store.flushed_offset

        def forget(root: Path) -> None:
            for path in sorted((root / "commitlog").glob("*")):
                start = max(end - int(path.name), 0)
                with path.open("r+b") as file:
                    file.seek(start)
                    file.write(bytes(max(path.stat().st_size - start, 0)))

        await self.kill(forget)
        return end

    async def settle(self) -> None:
        """Wait until all tasks have ended, the disk has what it must have, and the loop has nothing to do."""
        for _ in range(3):
            others = asyncio.all_tasks() - {asyncio.current_task()}
            if others:
                await asyncio.wait(others)
            await asyncio.sleep(0)
            while self._is_sync and self.store.flushed_offset < self.store.max_physical_offset:  # noqa: ASYNC110
                await asyncio.sleep(0.0002)  # another thread flushes

    # --- what producers do

    async def put(self, name: str, properties: dict[str, str] | None = None, size: int = 10) -> int:
        """Send a message with a unique key; return where it is in the log."""
        properties = {"UNIQ_KEY": name, **(properties or {})}
        record = Record(
            topic="orders",
            body=name.encode().ljust(size),
            properties=encode_properties(properties).encode(),
            born_timestamp_ms=self.clock.now_ms(),
            store_host=HOST,
        )
        if is_timed(properties):
            self.timer.place(record, properties)
        place = self.store.put(record)
        self.acknowledgements.expect_group()
        await self.settle()
        return place.physical_offset

    async def cancel(self, name: str) -> int | None:
        """Cancel what waits under a name; return where in the log that is said, None if nothing waits."""
        waiting = await self.timer.waiting(self.store.find(TIMER_TOPIC, name, 64))
        for message in waiting:
            assert message.message_id == name
            place = self.store.max_physical_offset
            self.timer.cancel(message, "shop")
        await self.settle()
        return place if waiting else None

    # --- what consumers see

    def collect(self) -> None:
        """Read what was delivered since the last look."""
        while self._seen < self.store.max_offset("orders", 0):
            page = self.store.get("orders", 0, self._seen, 100, max_bytes=1 << 20)
            self.delivered += decode_messages(b"".join(page.views))
            self._seen = page.next_offset

    def names(self) -> list[str]:
        """Return the names of all that was delivered."""
        self.collect()
        return [message.message_id for message in self.delivered]

    async def move(self, *, seconds: float = 0, ms: int = 0) -> None:
        """Let time pass."""
        await self.clock.move(int(seconds * 1000) + ms)

    async def save(self) -> None:
        """Have the timer's table agree with the log."""
        for _ in range(3):
            self.store.flush()
            await self.move(seconds=1)

    async def clean(self, passes: int = 12) -> bool:
        """Have all files of the log removed but the last; tell whether they went."""
        self.store.flush()
        cleaner = self.store.cleaner
        target = cleaner._log.segments.stop - cleaner._log.file_size
        cleaner.retention.log_start = lambda log, durable_end: max(target, log.start)  # type: ignore[method-assign]
        for _ in range(passes):
            self.collect()
            cleaner.run()
            while cleaner.go_on():
                pass
            if self.store.min_physical_offset >= target:
                return True
            await self.settle()
            await self.save()
        return False
