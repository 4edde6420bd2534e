"""A search merges its sources by time, keeps to its budget, and goes on where it stopped."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.admin.messages.search import MessageSearch, SearchBudget, SearchFilter, TimeRange
from pyromq.errors import ConnectFailed, LocalProtocolError
from pyromq.protocol.messages.message import MessageExt
from pyromq.testing import TestClock

ALWAYS = TimeRange()
UNLIMITED = SearchBudget(messages=None, seconds=None)


def stored(timestamp_ms: int, offset: int = 0, body: bytes = b"") -> MessageExt:
    return MessageExt(topic="orders", stored_body=body, store_timestamp_ms=timestamp_ms, physical_offset=offset)


class ListSource:
    """Messages from a list, some at a time."""

    broker_name = "broker-a"

    def __init__(self, messages: Sequence[MessageExt], at_a_time: int = 2) -> None:
        self._left = list(messages)
        self._at_a_time = at_a_time

    async def next_block(self) -> Sequence[MessageExt]:
        block, self._left = self._left[: self._at_a_time], self._left[self._at_a_time :]
        return block


class SilentSource:
    broker_name = "broker-b"

    async def next_block(self) -> Sequence[MessageExt]:
        raise ConnectFailed("nobody there")


def search(
    queues: Sequence[Sequence[MessageExt]],
    budget: SearchBudget = UNLIMITED,
    time: TimeRange = ALWAYS,
    *,
    oldest_first: bool = False,
    clock: TestClock | None = None,
    silent: bool = False,
) -> MessageSearch:
    async def open_sources(search: MessageSearch) -> Sequence[ListSource | SilentSource]:
        kept = [[each for each in queue if each.store_timestamp_ms in time] for queue in queues]
        found = [ListSource(queue if oldest_first else queue[::-1]) for queue in kept]
        return [*found, SilentSource()] if silent else found

    return MessageSearch(
        open_sources, lambda message: True, time, budget, clock or TestClock(), oldest_first=oldest_first
    )


async def offsets(found: MessageSearch) -> list[int]:
    return [message.physical_offset async for message in found]


QUEUES = [[stored(10, 0), stored(30, 2), stored(50, 4)], [stored(20, 1), stored(40, 3)], []]


async def test_the_newest_come_first_or_the_oldest_do() -> None:
    assert await offsets(search(QUEUES)) == [4, 3, 2, 1, 0]
    assert await offsets(search(QUEUES, oldest_first=True)) == [0, 1, 2, 3, 4]


async def test_messages_of_one_millisecond_come_in_the_order_of_the_log() -> None:
    queues = [[stored(10, 0), stored(10, 3)], [stored(10, 1), stored(10, 2), stored(10, 4)]]
    assert await offsets(search(queues)) == [4, 3, 2, 1, 0]
    assert await offsets(search(queues, oldest_first=True)) == [0, 1, 2, 3, 4]


async def test_a_budget_of_messages_ends_it_and_it_says_where() -> None:
    found = search(QUEUES, SearchBudget(messages=2))
    assert await offsets(found) == [4, 3]
    assert found.stopped is not None
    assert (found.stopped.limit, found.stopped.reason) == ("messages", "2 messages were looked at")
    assert found.stopped.rest == TimeRange(0, 30)
    rest = search(QUEUES, time=found.stopped.rest)
    assert await offsets(rest) == [2, 1, 0]
    assert rest.stopped is None


async def test_a_budget_that_is_just_enough_is_no_stop() -> None:
    found = search(QUEUES, SearchBudget(messages=5, found=5))
    assert len(await offsets(found)) == found.looked_at == found.found == 5
    assert found.stopped is None


async def test_a_budget_of_seconds_ends_it() -> None:
    clock = TestClock()
    found = search(QUEUES, SearchBudget(seconds=10), oldest_first=True, clock=clock)
    seen = []
    async for message in found:
        seen.append(message.physical_offset)
        await clock.advance_async(seconds=6)
    assert seen == [0, 1]
    assert found.stopped is not None
    assert (found.stopped.limit, found.stopped.rest.since_ms) == ("seconds", 30)


async def test_enough_found_ends_it() -> None:
    found = search(QUEUES, SearchBudget(found=3))
    assert await offsets(found) == [4, 3, 2]
    assert found.stopped is not None
    assert (found.stopped.limit, found.stopped.rest.until_ms) == ("found", 20)


async def test_a_search_that_is_left_knows_what_is_left() -> None:
    found = search(QUEUES)
    assert found.rest == ALWAYS
    async for message in found:
        if message.physical_offset == 3:
            break
    assert found.rest == TimeRange(0, 40), "from the message on that was seen last"
    assert await offsets(whole := search(QUEUES))
    assert whole.rest is None


async def test_a_broker_that_does_not_answer_is_named_and_the_others_are_searched() -> None:
    found = search(QUEUES, silent=True)
    assert len(await offsets(found)) == 5
    assert found.silent_brokers == {"broker-b": "nobody there"}


@given(
    st.lists(st.lists(st.integers(1, 12), max_size=8), max_size=3),
    st.integers(1, 6),
    st.booleans(),
)
async def test_searches_that_stop_and_go_on_find_everything_once(
    times: list[list[int]], most: int, oldest_first: bool
) -> None:
    numbered = iter(range(1000))
    queues = [[stored(at, next(numbered)) for at in sorted(row)] for row in times]
    rest, seen = TimeRange(), []
    while True:
        found = search(queues, SearchBudget(messages=most, seconds=None), rest, oldest_first=oldest_first)
        seen += await offsets(found)
        if found.stopped is None:
            break
        rest = found.stopped.rest
    assert sorted(seen) == sorted(each.physical_offset for queue in queues for each in queue)


async def test_a_clock_that_was_set_back_stops_nothing() -> None:
    queue = [stored(10, 0), stored(50, 1), stored(20, 2), stored(60, 3)]
    assert await offsets(search([queue], oldest_first=True)) == [0, 1, 2, 3]
    assert await offsets(search([queue])) == [3, 2, 1, 0]


# --- times and filters


def test_a_range_of_time_has_both_ends() -> None:
    noon = datetime(2026, 1, 31, 12, tzinfo=UTC)
    some = TimeRange.of(noon, noon)
    assert (some.since, some.until) == (noon, noon)
    assert some.since_ms in some
    assert some.since_ms - 1 not in some
    assert (TimeRange().since, TimeRange().until) == (None, None)


def test_all_filters_must_match() -> None:
    message = MessageExt(topic="orders", stored_body=b'{"id": 7}', raw_properties=b"TAGS\x01paid\x02a\x011")
    assert SearchFilter().prepare()(message)
    assert SearchFilter(tags="new || paid", where="a = 1 AND body.id = 7", contains=b"id").prepare()(message)
    assert not SearchFilter(tags="new").prepare()(message)
    assert not SearchFilter(tags="paid", where="body.id = 8").prepare()(message)
    assert not SearchFilter(contains=b"other").prepare()(message)
    for wrong in (SearchFilter(where="a >"), SearchFilter(tags="||")):
        with pytest.raises(LocalProtocolError):
            wrong.prepare()
