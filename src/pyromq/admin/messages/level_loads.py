"""What waits at delay levels: one queue of SCHEDULE_TOPIC_XXXX for each level, in the order in which it is due.

Brokers say how far they have delivered each queue; Apache's do, too. The first and the last message of what is left
tell when the level delivers next, and when it would be empty.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from pyromq.admin.masters import FindMasters
from pyromq.admin.topic_reader import TopicReader
from pyromq.client.net.calls.admin_calls import AdminCalls
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.protocol.delay_levels import DEFAULT_DELAY_LEVELS_MS, parse_delay_levels
from pyromq.protocol.messages.message import MessageExt, MessageQueue
from pyromq.protocol.messages.properties import REAL_TOPIC
from pyromq.protocol.messages.record import decode_messages
from pyromq.protocol.names import SCHEDULE_TOPIC

_PROGRESS: Final = "scheduleMessageOffset_"
_LEVELS: Final = "messageDelayLevel"


class LevelLoad(Struct, frozen=True, kw_only=True):
    """What waits at one delay level, on all brokers."""

    level: int
    delay_ms: int
    """How long its messages wait."""
    waiting: int
    next_due_ms: int | None = None
    """When its next message is due; None if that was delivered meanwhile."""
    last_due_ms: int | None = None
    next_topic: str = ""
    """The topic of its next message."""


class _Part(Struct, frozen=True, kw_only=True):
    """What waits at one level of one broker."""

    queue: MessageQueue
    delay_ms: int
    begin: int
    """The offset of its next message."""
    end: int


async def level_loads(api: BrokerApi, find_masters: FindMasters) -> tuple[LevelLoad, ...]:
    """Return the levels at which messages wait; raise NoMaster if a broker could not be asked, and AccessDenied."""
    calls, masters = AdminCalls(api.remoting), await find_masters()
    masters.check_complete()
    parts: list[_Part] = []
    for name, address in masters.addresses.items():
        progress, settings = await asyncio.gather(calls.runtime_info(address), calls.broker_config(address))
        delays = parse_delay_levels(settings[_LEVELS]) if _LEVELS in settings else DEFAULT_DELAY_LEVELS_MS
        ends = await _ends(api, address, progress, len(delays))
        parts.extend(_parts(name, ends, delays))
    if not parts:
        return ()
    reader = await TopicReader.open(api, SCHEDULE_TOPIC)
    levels: dict[int, list[LevelLoad]] = {}
    for load in await asyncio.gather(*(_load(reader, part) for part in parts)):
        levels.setdefault(load.level, []).append(load)
    return tuple(reduce(_joined, levels[level]) for level in sorted(levels))


async def _ends(api: BrokerApi, address: str, progress: Mapping[str, str], levels: int) -> dict[int, tuple[int, int]]:
    """Return the next offset and the end of each level. Apache's broker does not name one that never delivered."""
    found = {}
    for level in range(1, levels + 1):
        if told := progress.get(f"{_PROGRESS}{level}"):
            begin, end = told.split(",")
            found[level] = int(begin), int(end)
        else:
            found[level] = 0, await api.max_offset(address, SCHEDULE_TOPIC, level - 1)
    return found


def _parts(broker: str, ends: Mapping[int, tuple[int, int]], delays: Sequence[int]) -> Iterator[_Part]:
    for level, (begin, end) in ends.items():
        if begin < end:
            queue = MessageQueue(SCHEDULE_TOPIC, broker, level - 1)
            yield _Part(queue=queue, delay_ms=delays[level - 1], begin=begin, end=end)


async def _load(reader: TopicReader, part: _Part) -> LevelLoad:
    first, last = await asyncio.gather(*(_message(reader, part.queue, each) for each in (part.begin, part.end - 1)))
    return LevelLoad(
        level=part.queue.queue_id + 1,
        delay_ms=part.delay_ms,
        waiting=part.end - part.begin,
        next_due_ms=None if first is None else first.store_timestamp_ms + part.delay_ms,
        last_due_ms=None if last is None else last.store_timestamp_ms + part.delay_ms,
        next_topic="" if first is None else first.properties.get(REAL_TOPIC, ""),
    )


async def _message(reader: TopicReader, queue: MessageQueue, offset: int) -> MessageExt | None:
    answer = await reader.pull(queue, offset, most=1)
    return next(iter(decode_messages(answer.body, queue.broker_name)), None) if answer.body else None


def _joined(one: LevelLoad, other: LevelLoad) -> LevelLoad:
    """Join what two brokers have at a level."""
    first = min(one, other, key=lambda load: load.next_due_ms or sys.maxsize)
    dues = [load.last_due_ms for load in (one, other) if load.last_due_ms is not None]
    return replace(first, waiting=one.waiting + other.waiting, last_due_ms=max(dues, default=None))
