"""MessageSearch: looks through sources of messages in the order of time, within a budget, and says where it stopped.

The sources are queues, or brokers that are asked for a key. They are merged by store time, so that one time says how
far a search is: everything on its near side was looked at. A budget ends it only between two milliseconds. The same
search goes on from there, and repeats and misses nothing.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple, Protocol

from msgspec import Struct

from pyromq.admin.masters import gather_limited
from pyromq.client.consume.start_from import to_ms
from pyromq.clock import Clock
from pyromq.errors import AccessDenied, BrokerError, MalformedHeader, NoRoute, RemotingError
from pyromq.protocol.messages.message import MessageExt
from pyromq.protocol.sql92.conditions import MessageCondition
from pyromq.protocol.tag_filter import parse_tags

MOST_LOOKED_AT = 100_000
"""Messages that a search looks at unless told otherwise."""
LONGEST_SEARCH = 30.0
"""Seconds that a search takes unless told otherwise."""

_AT_A_TIME = 16
_MAX_MS = 2**63 - 1
_LAST_MS = 253_402_300_799_999  # the end of the calendar


class TimeRange(NamedTuple):
    """From when to when messages were stored, in milliseconds; both ends belong to it."""

    since_ms: int = 0
    until_ms: int = _MAX_MS

    @classmethod
    def of(cls, since: datetime | None, until: datetime | None) -> TimeRange:
        """Return the range between two times; None is open."""
        return cls(0 if since is None else to_ms(since), _MAX_MS if until is None else to_ms(until))

    def __contains__(self, timestamp_ms: object) -> bool:
        return isinstance(timestamp_ms, int) and self.since_ms <= timestamp_ms <= self.until_ms

    @property
    def since(self) -> datetime | None:
        """Its beginning, None if it is open."""
        return _moment(self.since_ms) if self.since_ms > 0 else None

    @property
    def until(self) -> datetime | None:
        """Its end, None if it is open."""
        return _moment(self.until_ms) if self.until_ms <= _LAST_MS else None


def _moment(timestamp_ms: int) -> datetime:
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC)


class SearchBudget(Struct, frozen=True, kw_only=True):
    """How much a search may cost; None does not limit it."""

    messages: int | None = MOST_LOOKED_AT
    """Messages that it may look at; it may finish the millisecond in which it reaches them."""
    seconds: float | None = LONGEST_SEARCH
    found: int | None = None
    """Matching messages after which it may stop."""


class SearchStop(Struct, frozen=True, kw_only=True):
    """Why a search stopped before its end, and how it goes on."""

    reason: str
    """In a few words, such as `100,000 messages were looked at`."""
    limit: str
    """Which limit of the budget it was: messages, seconds or found."""
    rest: TimeRange
    """What was not looked at: the same search with this time goes on."""


class SearchFilter(Struct, frozen=True, kw_only=True):
    """Which messages match; None does not restrict it."""

    tags: str | None = None
    """A tag expression such as `created || paid`."""
    where: str | None = None
    """A SQL92 condition over properties and `body.field`."""
    contains: bytes | None = None
    """Bytes that occur in the body."""

    def prepare(self, seen: Callable[[MessageExt], MessageExt] | None = None) -> Callable[[MessageExt], bool]:
        """Return a function that selects messages; raises LocalProtocolError for a wrong expression.

        `seen` returns what conditions on bodies and properties are to see of a message.
        """
        tags = None if self.tags is None else parse_tags(self.tags)
        condition = None if self.where is None else MessageCondition(self.where)
        part = self.contains

        def selects(message: MessageExt) -> bool:
            if tags is not None and not tags.accepts(message.tags):
                return False
            if condition is None and part is None:
                return True
            message = seen(message) if seen else message
            if condition is not None and not condition.matches(message):
                return False
            return part is None or part in _body(message)

        return selects


def _body(message: MessageExt) -> bytes:
    try:
        return message.body
    except MalformedHeader:  # one damaged message must not end a search
        return message.stored_body


class MessageSource(Protocol):
    """Where messages come from, in the order of a search."""

    broker_name: str

    async def next_block(self) -> Sequence[MessageExt]:
        """Return the next messages, none at the end."""


class _Head:
    """A source, and what was read from it and not looked at yet."""

    def __init__(self, source: MessageSource, *, oldest_first: bool) -> None:
        self.source = source
        self._waiting: deque[MessageExt] = deque()
        self._oldest_first = oldest_first
        self.time_ms = 0 if oldest_first else _MAX_MS
        """The store time of its next message. Where a clock was set back, times of a source still only move on."""

    async def fill(self) -> bool:
        """Read on if nothing is left; return False at the end."""
        if not self._waiting:
            self._waiting.extend(await self.source.next_block())
        if not self._waiting:
            return False
        stored_ms = self._waiting[0].store_timestamp_ms
        self.time_ms = max(stored_ms, self.time_ms) if self._oldest_first else min(stored_ms, self.time_ms)
        return True

    @property
    def physical_offset(self) -> int:
        return self._waiting[0].physical_offset

    def take(self) -> MessageExt:
        return self._waiting.popleft()


class MessageSearch:
    """Finds messages, the newest first or the oldest first; iterate over it once.

    >>> search = admin.messages.find("orders", where="body.amount > 100")
    >>> async for message in search:
    ...     print(message.message_id)
    >>> if search.stopped is not None:
    ...     print(search.stopped.reason)
    """

    def __init__(
        self,
        open_sources: Callable[[MessageSearch], Awaitable[Sequence[MessageSource]]],
        matches: Callable[[MessageExt], bool],
        time: TimeRange,
        budget: SearchBudget,
        clock: Clock,
        *,
        oldest_first: bool = False,
    ) -> None:
        self.looked_at = 0
        """How many messages it has looked at."""
        self.found = 0
        """How many of them matched."""
        self.stopped: SearchStop | None = None
        """Why it stopped before its end; None if it has not, or came to its end."""
        self.silent_brokers: dict[str, str] = {}
        """Brokers that did not answer, and why. Their messages are missing."""
        self.rest: TimeRange | None = time
        """What it has not looked at yet, None at its end: whoever leaves it half-way goes on from there."""
        self.time = time
        self._open_sources = open_sources
        self._matches = matches
        self._budget = budget
        self._clock = clock
        self._oldest_first = oldest_first

    async def __aiter__(self) -> AsyncIterator[MessageExt]:
        started = self._clock.monotonic()
        heads = [_Head(source, oldest_first=self._oldest_first) for source in await self._open_sources(self)]
        filled = await gather_limited(heads, self._fill, _AT_A_TIME)
        line = [self._place(head, number) for number, head in enumerate(heads) if filled[number]]
        heapq.heapify(line)
        last_ms = -1
        while line:
            _, _, number, head = line[0]
            if head.time_ms != last_ms and self._is_spent(head.time_ms, started):
                return
            if head.time_ms != last_ms:
                last_ms = head.time_ms
                self.rest = self._rest(last_ms)
            message = head.take()
            self.looked_at += 1
            if message.store_timestamp_ms in self.time and self._matches(message):
                if self._budget.found is not None and self.found >= self._budget.found:
                    self._stop(head.time_ms, "found", f"{self.found:,} were found")
                    return
                self.found += 1
                yield message
            if await self._fill(head):
                heapq.heapreplace(line, self._place(head, number))
            else:
                heapq.heappop(line)
        self.rest = None

    def _place(self, head: _Head, number: int) -> tuple[int, int, int, _Head]:
        """Return by what heads are ordered: time, and within a millisecond the place in the log."""
        sign = 1 if self._oldest_first else -1
        return sign * head.time_ms, sign * head.physical_offset, number, head

    async def _fill(self, head: _Head) -> bool:
        try:
            return await head.fill()
        except AccessDenied:
            raise
        except (RemotingError, BrokerError, NoRoute) as error:
            self.silent_brokers[head.source.broker_name] = str(error)
            return False

    def _is_spent(self, time_ms: int, started: float) -> bool:
        """Return True, and note where the search stops, if the budget allows no more."""
        budget, seconds = self._budget, self._clock.monotonic() - started
        if budget.messages is not None and self.looked_at >= budget.messages:
            self._stop(time_ms, "messages", f"{self.looked_at:,} messages were looked at")
        elif budget.seconds is not None and seconds >= budget.seconds:
            self._stop(time_ms, "seconds", f"it took {seconds:.0f} s and looked at {self.looked_at:,} messages")
        return self.stopped is not None

    def _stop(self, time_ms: int, limit: str, reason: str) -> None:
        self.rest = self._rest(time_ms)
        self.stopped = SearchStop(reason=reason, limit=limit, rest=self.rest)

    def _rest(self, time_ms: int) -> TimeRange:
        since_ms, until_ms = self.time
        return TimeRange(time_ms, until_ms) if self._oldest_first else TimeRange(since_ms, time_ms)
