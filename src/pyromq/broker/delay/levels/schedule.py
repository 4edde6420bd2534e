"""Schedule: all delay levels of a broker. It places messages, starts and stops the levels, and saves their progress.

Saved progress counts only deliveries that are flushed: a power cut that loses a delivery must not lose the message.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final, NamedTuple

from pyromq.broker.delay.deliveries import Deliveries
from pyromq.broker.delay.levels.delay_level import DelayLevel
from pyromq.broker.delay.levels.schedule_recovery import find_delivered
from pyromq.broker.parts import Parts, Writing
from pyromq.broker.tables.delay_offsets import DelayProgress
from pyromq.errors import BrokerError, StoreError
from pyromq.figures import BoundFigures, Figure, Kind
from pyromq.protocol.messages.properties import DELAY, REAL_QUEUE_ID, REAL_TOPIC, encode_properties
from pyromq.protocol.messages.record import Record
from pyromq.protocol.names import SCHEDULE_TOPIC
from pyromq.remoting.ticker import Ticker
from pyromq.store.retention.retention import DiskLevel

SAVE_PERIOD: Final = 1.0
_FAR: Final = 64 << 20  # bytes of the log after which progress is saved even if nothing was delivered


class _NotedDelays(NamedTuple):
    """Progress that may be saved when the log is durable up to `log_end`."""

    log_end: int
    progress: DelayProgress


class Schedule:
    """All delay levels of a broker."""

    def __init__(self, parts: Parts, writing: Writing) -> None:
        self._store = writing.store
        self._reads = parts.reads
        self._offsets = parts.tables.delays
        self._durability = writing.durability
        self._acknowledgements = writing.acknowledgements
        self._clock = parts.clock
        self._deliveries = Deliveries(self._store, parts.topics)
        self._delays_ms = self._store.config.delay_levels_ms
        self._levels = {level: self._level(level) for level in range(1, len(self._delays_ms) + 1)}
        self._noted = _NotedDelays(0, DelayProgress({}))
        self._ticker = Ticker(parts.clock, SAVE_PERIOD, self._save)
        self._forget_place = self._store.cleaner.ask_before_deleting(self._free_to)

    def _level(self, level: int) -> DelayLevel:
        return DelayLevel(
            level,
            self._delays_ms[level - 1] if level <= len(self._delays_ms) else None,
            store=self._store,
            reads=self._reads,
            deliveries=self._deliveries,
            durability=self._durability,
            acknowledgements=self._acknowledgements,
            clock=self._clock,
        )

    # --- placing

    def place(self, record: Record, properties: dict[str, str]) -> None:
        """Move a message to the queue of its level; do nothing if its level is 0 or less."""
        level = min(_level_of(properties), len(self._levels))
        if level <= 0:
            return
        properties |= {DELAY: str(level), REAL_TOPIC: record.topic, REAL_QUEUE_ID: str(record.queue_id)}
        record.topic, record.queue_id = SCHEDULE_TOPIC, level - 1
        record.properties = encode_properties(properties).encode()
        self._levels[level].expect()
        self._ticker.start()

    # --- start and stop

    def load(self) -> None:
        """Work out how far each level is, from what was saved and from deliveries in the log since then."""
        progress = self._offsets.saved
        for queue_id in self._store.queue_ids(SCHEDULE_TOPIC):
            self._levels.setdefault(queue_id + 1, self._level(queue_id + 1))
        log_offset, delivered = find_delivered(self._store, progress)
        for number, level in self._levels.items():
            level.restore(progress.offsets.get(number, 0), delivered.get(number, ()), log_offset)
        self._noted = self._note()

    def start(self) -> None:
        """Start to deliver."""
        for level in self._levels.values():
            level.start()
        self._ticker.start()

    def stop(self) -> None:
        """Stop delivering."""
        self._forget_place()
        self._ticker.stop()
        for level in self._levels.values():
            level.stop()

    async def close(self) -> None:
        """Save the progress of all levels; called when nothing is put any more."""
        with suppress(StoreError):  # the store has logged it
            self._store.flush()
        self._noted = self._note()
        self._save()
        self._ticker.stop()
        await self._offsets.saver.finish()

    # --- retention

    def _free_to(self, start: int) -> int:
        """Return up to where, at most `start`, no message waits in the log.

        It waits until its delivery is durable. On a disk so full that files go whatever their age, messages go with
        them, as in RocketMQ: the store may accept no deliveries any more, so it could be full for ever.
        """
        if self._store.cleaner.retention.level >= DiskLevel.ALL_FILES_GO:
            return start
        durable = self._offsets.saved.offsets
        firsts = (level.first_place(durable.get(number, 0)) for number, level in self._levels.items())
        return min([start, *(first for first in firsts if first is not None)])

    # --- progress

    @property
    def waiting(self) -> int:
        """How many delayed messages are not delivered yet."""
        return sum(level.waiting for level in self._levels.values())

    @property
    def delivered(self) -> int:
        """How many messages were delivered since the start."""
        return self._deliveries.count

    @property
    def max_late_ms(self) -> int:
        """The greatest lateness of a delivery."""
        return max(level.max_late_ms for level in self._levels.values())

    @property
    def progress_by_level(self) -> dict[str, str]:
        """How far each level is, as RocketMQ writes it: next entry to deliver, end of the queue."""
        return {
            str(number): f"{level.offset},{level.offset + level.waiting}"
            for number, level in sorted(self._levels.items())
        }

    def figures(self) -> BoundFigures[Schedule]:
        """Return the figures of all levels."""
        return BoundFigures(_FIGURES, lambda: self)

    def _note(self) -> _NotedDelays:
        end = self._store.max_physical_offset
        starts = [level.uncounted_from for level in self._levels.values()]
        offsets = {number: level.offset for number, level in sorted(self._levels.items()) if level.offset}
        return _NotedDelays(end, DelayProgress(offsets, min([end, *(start for start in starts if start is not None)])))

    def _save(self) -> bool:
        """Save the noted progress if its deliveries are durable; return True if there is more to save."""
        if self._durability.flushed_end < self._noted.log_end:
            return True
        progress, saved = self._noted.progress, self._offsets.saved
        if progress.offsets != saved.offsets or (progress.log_offset or 0) >= (saved.log_offset or 0) + _FAR:
            self._offsets.save(progress)
        self._offsets.saver.retry()
        self._noted = self._note()
        return self.waiting > 0 or self._noted.progress.offsets != self._offsets.saved.offsets


_FIGURES: Final[tuple[Figure[Schedule], ...]] = (
    Figure(
        "delayed_messages_waiting",
        "Messages with a delay level that are not due yet.",
        Kind.GAUGE,
        lambda schedule: schedule.waiting,
    ),
    Figure(
        "delayed_messages_delivered",
        "Messages with a delay level that were delivered.",
        Kind.COUNTER,
        lambda schedule: schedule.delivered,
    ),
    Figure(
        "delayed_messages_max_late_ms",
        "The most that a message with a delay level was late.",
        Kind.GAUGE,
        lambda schedule: schedule.max_late_ms,
    ),
    Figure(
        "delay_level_progress",
        "Next entry to deliver and end of the queue.",
        Kind.TEXT,
        lambda schedule: schedule.progress_by_level,
        label="level",
        runtime="scheduleMessageOffset_{}",
        in_varz=False,
    ),
)


def _level_of(properties: dict[str, str]) -> int:
    text = properties[DELAY]
    if not (text.isascii() and text.lstrip("+-").isdecimal()):
        raise BrokerError(f"the delay level {text!r} is not a number")
    return int(text)
