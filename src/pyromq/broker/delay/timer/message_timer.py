"""MessageTimer: delivers messages after any delay or at any time, up to 40 days ahead. See docs/timer.md.

put     → the message waits in rmq_sys_wheel_timer; topic, queue and time become properties (timer_records.py)
stored  → its place and time go into a ledger on disk (timer_follower.py, timer_ledger.py)
near    → what is due within seconds is read into memory (due_window.py)
due     → stored once more, in its own topic (timer_delivery.py)
killed  → the log has what the ledger on disk does not have yet (timer_follower.py)
expired → what still waits is written again before its file of the log is deleted (message_mover.py)
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from contextlib import suppress
from typing import Final

from pyromq.broker.delay.deliveries import Deliveries
from pyromq.broker.delay.timer.due_window import DueWindow
from pyromq.broker.delay.timer.timer_delivery import TimerDelivery
from pyromq.broker.delay.timer.timer_follower import TimerFollower, first_progress, fits
from pyromq.broker.delay.timer.timer_ledger import TimerLedger
from pyromq.broker.delay.timer.timer_records import TIMER_QUEUE, cancelled, due_of, due_time, let_wait, read_waiting
from pyromq.broker.messages.acknowledgements import Acknowledgements
from pyromq.broker.messages.durability import Durability
from pyromq.broker.pulls.disk_reads import DiskReads
from pyromq.broker.tables.topic_table import TopicTable
from pyromq.clock import Clock
from pyromq.errors import CorruptRecord, ServiceNotAvailable, StoreError, SystemBusy
from pyromq.protocol.messages.message import MessageExt
from pyromq.protocol.messages.record import Record
from pyromq.protocol.names import TIMER_TOPIC
from pyromq.remoting.ticker import Ticker
from pyromq.store.index.pending_table import Pending, PendingProgress, PendingTable
from pyromq.store.message_store import MessageStore
from pyromq.store.read.disk.disk_access import read_all

logger = logging.getLogger(__name__)

TICK: Final = 1.0
_RETRY: Final = 1.0
_AHEAD_MS: Final = 4_000
_NEAR_MS: Final = 2_000
_MOST_IN_MEMORY: Final = 8_000
_MOST_UNSAVED: Final = 500_000  # about 100 MB
_SAVED_AT_ONCE: Final = 50_000  # while the table is rebuilt


class MessageTimer:
    """Delivers messages when they are due, from `start` to `stop`."""

    def __init__(
        self,
        store: MessageStore,
        reads: DiskReads,
        topics: TopicTable,
        durability: Durability,
        acknowledgements: Acknowledgements,
        clock: Clock,
        table: PendingTable,
    ) -> None:
        self.ledger = TimerLedger(table)
        self.window = DueWindow()
        self.is_running = False
        """Whether messages are delivered; False until the ledger agrees with the log."""
        self.places = asyncio.Lock()
        """The lock that guards moves: a search for a message holds it, so that the message stays in its place."""
        self._store = store
        self._reads = reads
        self._topics = topics
        self._durability = durability
        self._acknowledgements = acknowledgements
        self._clock = clock
        self._table = table
        self._deliveries = Deliveries(store, topics)
        self._delivery = TimerDelivery(
            self.ledger, self.window, store, reads, self._deliveries, acknowledgements, clock, self._sent
        )
        self._largest = store.config.commit_log_file_size
        self._follower: TimerFollower | None = None
        self._decided = asyncio.Event()
        self._expecting = False
        self._task: asyncio.Task[None] | None = None
        self._ticker = Ticker(clock, TICK, self._tick)
        self._failing = ""

    @property
    def count(self) -> int:
        """How many messages wait."""
        return self.ledger.count

    @property
    def delivered(self) -> int:
        """How many messages were delivered since the start."""
        return self._deliveries.count

    @property
    def max_late_ms(self) -> int:
        """The greatest lateness of a delivery."""
        return self._delivery.max_late_ms

    # --- start and stop

    def start(self) -> None:
        """Bring the ledger up to date with the log, then start to deliver; raise StoreError."""
        progress = self._table.open()
        if progress is not None and not fits(progress, self._store):
            logger.warning("the timer's table does not belong to this log and will be rebuilt")
            self._table.reset()
            progress = None
        if progress is None or not self._table.count:
            progress = first_progress(self._store, progress)
        self._catch_up_from(progress)
        self._ticker.start()

    def _catch_up_from(self, progress: PendingProgress) -> None:
        self.ledger.begin_at(progress)
        self._follower = TimerFollower(
            self._store, self.ledger, progress, on_begin=self._begun, on_end=self.window.discard
        )
        self._task = asyncio.get_running_loop().create_task(self._catch_up(self._follower))

    async def _catch_up(self, follower: TimerFollower) -> None:
        while not self.is_running:
            try:
                await self._follow_all(follower)
            except CorruptRecord as error:
                await self._make_again(error)
                return
            except StoreError as error:
                self._note_failure(error)
                await self._clock.sleep(_RETRY)
        self._task = None
        if not self.ledger.is_empty:
            logger.info("timer ready waiting=%d", self.count)
        self._delivery.start()
        self._tick()

    async def _follow_all(self, follower: TimerFollower) -> None:
        while await self._reads.read(follower.follow) or await self._reads.read(follower.walk):
            if self.ledger.unsaved > _SAVED_AT_ONCE:
                await self._save()
            await self._clock.sleep(0)
        self.is_running = True
        self._decided.set()

    async def _make_again(self, error: StoreError) -> None:
        logger.error("the timer's table is rebuilt from the log: %s", error)
        self.is_running = False
        self._decided.clear()
        self._delivery.stop()
        await asyncio.to_thread(self._table.reset)
        self.ledger.clear()
        self.window.clear()
        self._catch_up_from(first_progress(self._store))

    async def stop(self) -> None:
        """Stop delivering and save the progress. What is put from now on waits for the next start."""
        self.is_running = False
        self._decided.set()
        self._ticker.stop()
        self._delivery.stop()
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        with suppress(StoreError):  # the next start finds the rest in the log
            self._store.flush()
            await self._save()
            await self._save()
        self._table.close()

    # --- messages that have to wait

    def place(self, record: Record, properties: dict[str, str]) -> None:
        """Make a message wait for its time; do nothing if that has come. Raise MessageIllegal."""
        now_ms = self._clock.now_ms()
        due_ms = due_time(properties, now_ms)
        if due_ms <= now_ms:
            return
        if self.ledger.unsaved > _MOST_UNSAVED:
            raise SystemBusy("timed messages arrive faster than the timer can save them")
        let_wait(record, properties, due_ms, self._largest)
        self._topics.ensure(TIMER_TOPIC, TIMER_QUEUE + 1, "for timed messages")
        self.expect()

    def expect(self) -> None:
        """Read the timer's queue when the message that was just put is stored."""
        if not self._expecting:
            self._expecting = True
            self._acknowledgements.then(self._stored)

    def _stored(self, stored: bool) -> None:
        self._expecting = False
        self._follow()

    def _follow(self) -> None:
        if self.is_running and self._follower is not None and self._follower.follow():
            asyncio.get_running_loop().call_soon(self._follow)

    def _begun(self, message: Pending) -> None:
        if self.window.offer(message):
            self._delivery.wake()

    # --- cancelling and listing

    async def waiting(self, offsets: Collection[int]) -> list[MessageExt]:
        """Return the messages at these places of the log that wait. That is still true when the caller resumes."""
        await self.decided()
        records = await self._reads.read(lambda: read_all(self._store.read, offsets))
        found = [message for record in records if (message := read_waiting(record)) is not None]
        waiting = set(await self.ledger.waiting([due_of(message) for message in found]))
        return [message for message in found if due_of(message) in waiting]

    async def decided(self) -> None:
        """Wait until the waiting messages are known; raise ServiceNotAvailable if the broker stops."""
        await self._decided.wait()
        if not self.is_running:
            raise ServiceNotAvailable("this broker is stopping")

    def cancel(self, message: MessageExt, group: str) -> None:
        """Put the cancellation of a waiting message into the open group; raise StoreError."""
        self._store.put(cancelled(message, group, self._clock.now_ms()))
        self.ledger.leave(due_of(message))
        self.window.discard(due_of(message))
        self.expect()

    # --- every second

    def _tick(self) -> bool:
        if self.is_running:
            self._follow()  # arrivals call this at once, except for those that recovery made visible
            self._delivery.wake()  # the clock may have been set
            if self._task is None:
                self._task = asyncio.get_running_loop().create_task(self._work(save=True))
        return True

    def _sent(self) -> None:
        self._delivery.wake()
        if self._task is None and self.is_running and self._wants_more():
            self._task = asyncio.get_running_loop().create_task(self._work(save=False))

    def _wants_more(self) -> bool:
        return self.window.end.due_ms < self._clock.now_ms() + _NEAR_MS and len(self.window) < _MOST_IN_MEMORY // 2

    async def _work(self, *, save: bool) -> None:
        damage: StoreError | None = None
        try:
            if self._wants_more():
                await self._load()
            if save:
                await self._save()
                self._failing = ""
        except CorruptRecord as error:
            damage = error
        except StoreError as error:
            self._note_failure(error)
        self._task = None
        if damage is not None:
            await self._make_again(damage)

    async def _load(self) -> None:
        until_ms = self._clock.now_ms() + _AHEAD_MS
        self.window.extend(*await self.ledger.due(self.window.end, until_ms, _MOST_IN_MEMORY))
        self._delivery.wake()

    async def _save(self) -> None:
        await self.ledger.save(self._durability.flushed_end)
        if self._follower is not None:
            walked_to = self._follower.walked_to
            position = self._delivery.settled_to if walked_to is None else walked_to
            progress = PendingProgress(self._follower.queue_offset, position)
            self.ledger.seal(progress, self._store.max_physical_offset)

    def _note_failure(self, error: StoreError) -> None:
        if self._failing != str(error):  # log it once, not every second
            self._failing = str(error)
            logger.error("the timer failed and tries again: %s", error)
