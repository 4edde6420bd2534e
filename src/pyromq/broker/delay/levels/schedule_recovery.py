"""Finds delayed messages that were delivered but that the saved progress does not count.

Progress is saved every second, so a killed process has delivered messages since then; they are in the log. A record is
the delivery of a delayed message if it comes after it in the log, is in the topic that the message names as its own,
and has the same unique key, level, reconsume times and born time. (All retries of a message share unique key and
level.) A message without a unique key cannot be identified and is delivered again.
"""

from __future__ import annotations

import logging
from collections import defaultdict, deque
from collections.abc import Mapping
from typing import Final

from pyromq.broker.delay.levels.delay_offsets import DelayProgress
from pyromq.broker.delay.levels.schedule_queue import ScheduleQueue
from pyromq.protocol.messages.properties import DELAY, REAL_TOPIC, UNIQ_KEY, find_property
from pyromq.protocol.messages.record import read_head, read_properties
from pyromq.protocol.names import SCHEDULE_TOPIC
from pyromq.store.message_store import MessageStore

logger = logging.getLogger(__name__)

Key = tuple[str, str, int, int]
"""Topic, unique key, reconsume times and born time."""
Found = dict[Key, deque[int]]
"""Physical offsets of the deliveries with a key, ascending."""

_FURTHEST: Final = 1 << 30  # how far back to look without pyromqLogOffset; RocketMQ saves progress every 10 s
_MOST_MISSED: Final = 10_000  # after so many delayed messages without a delivery there are no more
_MARKS: Final = (f"{REAL_TOPIC}\x01".encode(), f"{DELAY}\x01".encode(), f"{UNIQ_KEY}\x01".encode())


def find_delivered(store: MessageStore, progress: DelayProgress) -> dict[int, set[int]]:
    """Return, by level, the queue offsets after the saved progress whose messages were delivered."""
    start = _scan_start(store, progress)
    if start is None:
        return {}
    done = {
        level: _match(store, level, progress.offsets.get(level, 0), found)
        for level, found in _find_deliveries(store, start).items()
    }
    logger.info(
        "searched the log for deliveries since the last save from=%d to=%d found=%d",
        *(start, store.max_physical_offset, sum(map(len, done.values()))),
    )
    return done


def _scan_start(store: MessageStore, progress: DelayProgress) -> int | None:
    """Return from where on the log may hold such deliveries; None if no message waits."""
    waiting = (
        next(ScheduleQueue(store, queue_id + 1).entries_from(progress.offsets.get(queue_id + 1, 0)), None)
        for queue_id in store.queue_ids(SCHEDULE_TOPIC)
    )
    first = min((entry.physical_offset for _, entry in filter(None, waiting)), default=None)
    if first is None:
        return None
    end = store.max_physical_offset
    noted = end - _FURTHEST if progress.log_offset is None else progress.log_offset
    start = max(first, noted)
    return start if start < end else None


def _find_deliveries(store: MessageStore, start: int) -> Mapping[int, Found]:
    """Return the deliveries in the log from an offset on, by level."""
    by_level: dict[int, Found] = defaultdict(dict)
    for physical_offset, _, _, _, _, _, topic, properties in store.walk(start):
        if all(mark in properties for mark in _MARKS) and find_property(properties, REAL_TOPIC) == topic.decode():
            level, key = _identity(store.read(physical_offset) or b"", properties)
            if key is not None:
                by_level[level].setdefault(key, deque()).append(physical_offset)
    return by_level


def _match(store: MessageStore, level: int, offset: int, found: Found) -> set[int]:
    """Return the queue offsets of the delayed messages to which these deliveries belong, each to one message."""
    done: set[int] = set()
    left, missed = sum(map(len, found.values())), 0
    for queue_offset, entry in ScheduleQueue(store, level).entries_from(offset):
        if not left or missed > _MOST_MISSED:
            break
        missed += 1
        stored = store.read(entry.physical_offset)
        key = _identity(stored, read_properties(stored))[1] if stored else None
        places = found.get(key) if key is not None else None
        while places:
            left -= 1
            if places.popleft() > entry.physical_offset:
                done.add(queue_offset)
                missed = 0
                break
    return done


def _identity(stored: bytes, properties: bytes) -> tuple[int, Key | None]:
    """Return level and key of a delayed message or of its delivery."""
    topic, unique_key = find_property(properties, REAL_TOPIC), find_property(properties, UNIQ_KEY)
    level = find_property(properties, DELAY) or ""
    if not (stored and topic and unique_key and level.isdecimal()):
        return 0, None
    head = read_head(stored)
    return int(level), (topic, unique_key, head.reconsume_times, head.born_timestamp_ms)
