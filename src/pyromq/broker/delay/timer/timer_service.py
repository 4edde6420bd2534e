"""TimerService: builds the timer and its parts for the broker."""

from __future__ import annotations

from typing import Final

from pyromq.broker.delay.timer.message_mover import MessageMover
from pyromq.broker.delay.timer.message_timer import MessageTimer
from pyromq.broker.delay.timer.timer_requests import TimerHandlers
from pyromq.broker.parts import Parts, Writing
from pyromq.figures import BoundFigures, Figure, Kind
from pyromq.store.index.pending_table import PendingTable


class TimerService:
    """The timer, the mover that works ahead of the cleaner, and the requests about timed messages."""

    def __init__(self, parts: Parts, writing: Writing) -> None:
        store, acknowledgements = writing.store, writing.acknowledgements
        table = PendingTable(store.config.root, parts.files)
        self.timer = MessageTimer(
            store, parts.reads, parts.topics, writing.durability, acknowledgements, parts.clock, table
        )
        self._moving = MessageMover(self.timer, store, parts.reads, acknowledgements, parts.clock)
        self._forget_place = store.cleaner.ask_before_deleting(self._moving.free_to)
        self.requests = TimerHandlers(self.timer, store, parts.reads, acknowledgements, parts.access)

    def start(self) -> None:
        """Start to deliver."""
        self.timer.start()

    async def stop(self) -> None:
        """Stop delivering; what waits stays."""
        self._forget_place()
        await self._moving.stop()
        await self.timer.stop()

    def figures(self) -> BoundFigures[MessageTimer]:
        """Return the figures of the timer."""
        return BoundFigures(_FIGURES, lambda: self.timer)


_FIGURES: Final[tuple[Figure[MessageTimer], ...]] = (
    Figure("timed_messages_waiting", "Timed messages that are not due yet.", Kind.GAUGE, lambda timer: timer.count),
    Figure(
        "timed_messages_delivered",
        "Timed messages that were delivered.",
        Kind.COUNTER,
        lambda timer: timer.delivered,
    ),
    Figure(
        "timed_messages_max_late_ms",
        "The most that a timed message was late.",
        Kind.GAUGE,
        lambda timer: timer.max_late_ms,
    ),
)
