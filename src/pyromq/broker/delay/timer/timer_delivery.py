"""TimerDelivery: sets an alarm for the first message of the window, then delivers what is due in batches."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from functools import partial
from typing import Final

from pyromq.broker.delay.deliveries import Deliveries
from pyromq.broker.delay.timer.due_window import DueWindow
from pyromq.broker.delay.timer.timer_ledger import TimerLedger
from pyromq.broker.delay.timer.timer_records import delivered, due_of, read_waiting
from pyromq.broker.messages.acknowledgements import Acknowledgements
from pyromq.broker.pulls.disk_reads import DiskReads
from pyromq.clock import Clock, TimerHandle
from pyromq.errors import StoreError
from pyromq.store.index.pending_table import Pending
from pyromq.store.message_store import MessageStore
from pyromq.store.read.disk.disk_access import need_all
from pyromq.store.segments import NotInMemory

logger = logging.getLogger(__name__)

_BEAT: Final = 0.005  # messages due within it are delivered together
_BATCH: Final = 128
_BATCH_BYTES: Final = 1 << 20
_RETRY: Final = 1.0


class TimerDelivery:
    """Puts the messages of a window into their own topics when they are due."""

    def __init__(
        self,
        ledger: TimerLedger,
        window: DueWindow,
        store: MessageStore,
        reads: DiskReads,
        deliveries: Deliveries,
        acknowledgements: Acknowledgements,
        clock: Clock,
        on_sent: Callable[[], None],
    ) -> None:
        """`on_sent` is called when messages have left the window."""
        self.max_late_ms = 0
        """The greatest lateness of a delivery that became due while the broker ran."""
        self._ledger = ledger
        self._window = window
        self._store = store
        self._reads = reads
        self._deliveries = deliveries
        self._acknowledgements = acknowledgements
        self._clock = clock
        self._on_sent = on_sent
        self._under_way: dict[int, Pending] = {}
        self._alarm: TimerHandle | None = None
        self._started_ms: int | None = None
        self._is_failing = self._awaits_disk = False

    def start(self) -> None:
        """Start to deliver."""
        self._started_ms = self._clock.now_ms()
        self.wake()

    def stop(self) -> None:
        """Stop delivering. Messages already put still reach the log."""
        self._started_ms = None
        self._stop_alarm()

    @property
    def settled_to(self) -> int:
        """Up to where the ledger knows all deliveries in the log."""
        return min(self._under_way, default=self._store.max_physical_offset)

    def wake(self, pause: float = 0.0) -> None:
        """Set the alarm to the first message; call this whenever the first one may have changed."""
        self._stop_alarm()
        first = self._window.first
        if first is not None and self._started_ms is not None and not self._awaits_disk:
            wait = (first.due_ms - self._clock.now_ms()) / 1000
            self._alarm = self._clock.call_later(max(wait, _BEAT, pause), self._ring)

    def _stop_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _ring(self) -> None:
        self._alarm = None
        self._reads.call(self._deliver_due)

    def _deliver_due(self) -> None:
        self._awaits_disk = False
        late = self._put_due()
        if late and self._started_ms is not None:
            try:
                need_all(self._store.read, late, _BATCH_BYTES)
            except NotInMemory:
                self._awaits_disk = True
                self._stop_alarm()
                raise
            except StoreError:
                pass  # the next attempt reports it

    def _put_due(self) -> list[int]:
        """Put the messages that are due, up to the first that is not in memory; return where that and the rest are."""
        sent: list[tuple[int, Pending]] = []
        late: list[Pending] = []
        pause = 0.0
        for message in self._window.take_due(self._clock.now_ms(), _BATCH):
            if late:
                late.append(message)
                continue
            try:
                place = self._put(message)
            except NotInMemory:
                late.append(message)
                continue
            except StoreError as error:
                self._window.offer(message)
                self._note_failure(error)
                pause = _RETRY
                break
            if place is not None:
                sent.append((place, message))
                if place - sent[0][0] > _BATCH_BYTES:
                    break
        if sent:
            self._under_way.update(sent)
            self._acknowledgements.then(partial(self._sent, sent))
        for message in late:
            self._window.offer(message)
        self.wake(pause)
        return [message.physical_offset for message in late]

    def _put(self, message: Pending) -> int | None:
        """Put a message into the open group; return its place in the log, or None if there is nothing to deliver."""
        waiting = read_waiting(self._store.read(message.physical_offset))
        if waiting is None:
            logger.error("a timed message is not in the log any more physical_offset=%d", message.physical_offset)
            self._ledger.end(message)
            return None
        if due_of(waiting) != message:  # the table is damaged: trust the message itself
            self._ledger.end(message)
            self._ledger.begin(due_of(waiting))
            self._window.offer(due_of(waiting))
            return None
        now_ms = self._clock.now_ms()
        place = self._deliveries.put(delivered(waiting, now_ms))
        if place is None:
            self._ledger.end(message)
            return None
        if self._started_ms is not None and message.due_ms >= self._started_ms:
            self.max_late_ms = max(self.max_late_ms, now_ms - message.due_ms)
        self._ledger.leave(message)
        return place.physical_offset

    def _sent(self, sent: Collection[tuple[int, Pending]], stored: bool) -> None:
        for place, message in sent:
            del self._under_way[place]
            if stored:
                self._ledger.end(message)
            else:
                self._ledger.stay(message)
                self._window.offer(message)
        self._is_failing = self._is_failing and not stored
        self._on_sent()

    def _note_failure(self, error: StoreError) -> None:
        if not self._is_failing:  # log it once, not every second
            logger.error("timed messages are late: %s", error)
        self._is_failing = True
