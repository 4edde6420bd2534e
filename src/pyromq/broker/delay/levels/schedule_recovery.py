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
from typing import Final, NamedTuple

from pyromq.broker.delay.levels.schedule_queue import ScheduleQueue
from pyromq.broker.tables.delay_offsets import DelayProgress
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


class EarlierDeliveries(NamedTuple):
    """Deliveries that the saved progress does not count."""

    log_offset: int
    """From where on the log has them."""
    by_level: dict[int, set[int]]
    """The queue offsets of their messages."""


def find_delivered(store: MessageStore, progress: DelayProgress) -> EarlierDeliveries:
    """Return the messages after the saved progress that were delivered."""
    start = _scan_start(store, progress)
    if start is None:
        return EarlierDeliveries(store.max_physical_offset, {})
    done = {
        level: _match(store, level, progress.offsets.get(level, 0), found)
        for level, found in _find_deliveries(store, start).items()
    }
    logger.info(
        "searched the log for deliveries since the last save from=%d to=%d found=%d",
        *(start, store.max_physical_offset, sum(map(len, done.values()))),
    )
    return EarlierDeliveries(start, done)


def without_deliveries(store: MessageStore, progress: DelayProgress, end: int) -> DelayProgress:
    """Return progress that counts no delivery from an offset of the log on, where it is about to be cut."""
    offsets = dict(progress.offsets)
    log_offset = max(end - _FURTHEST, 0) if progress.log_offset is None else min(progress.log_offset, end)
    found = _find_deliveries(store, end)
    for level in offsets:
        first = _first_to_deliver_again(store, level, offsets[level], found.get(level, {}), end)
        if first is not None:
            offsets[level], place = first
            log_offset = min(log_offset, place)
    return DelayProgress(offsets, log_offset)


def _first_to_deliver_again(
    store: MessageStore, level: int, offset: int, found: Found, end: int
) -> tuple[int, int] | None:
    """Return the first counted message, and its place, that is itself behind an end or was delivered there."""
    queue, first = ScheduleQueue(store, level), None
    left, missed = sum(map(len, found.values())), 0
    start = min(offset, queue.max_offset)
    for queue_offset, entry in queue.entries_before(start):
        is_cut = entry.physical_offset >= end
        if not is_cut and (not left or missed > _MOST_MISSED):
            break
        missed += 1
        stored = None if is_cut else store.read(entry.physical_offset)
        key = _identity(stored, read_properties(stored))[1] if stored else None
        if is_cut or (key is not None and found.get(key)):
            left, missed = left - (0 if is_cut else 1), 0
            first = queue_offset, min(entry.physical_offset, end)
    return first


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
