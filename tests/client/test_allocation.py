from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pyromq.client.rebalance import allocate_averagely
from pyromq.protocol.message import MessageQueue


def queues(count: int) -> list[MessageQueue]:
    return [MessageQueue("T", "broker-a", number) for number in range(count)]


def members(count: int) -> list[str]:
    return [f"10.0.0.1@{number:03}" for number in range(count)]


def allocate_as_java(found: list[MessageQueue], ids: list[str], me: str) -> list[MessageQueue]:
    """The rule as the fact sheet words it, step by step."""
    index, left = ids.index(me), len(found) % len(ids)
    has_extra = left > 0 and index < left
    size = 1 if len(found) <= len(ids) else len(found) // len(ids) + has_extra
    start = index * size if has_extra else index * size + left
    return found[start : start + max(0, min(size, len(found) - start))]


@given(st.integers(0, 40), st.integers(1, 12))
def test_each_member_gets_what_java_gives_it(queue_count: int, member_count: int) -> None:
    found, ids = queues(queue_count), members(member_count)
    for me in ids:
        assert allocate_averagely(found, ids, me) == allocate_as_java(found, ids, me)


@given(st.integers(0, 40), st.integers(1, 12))
def test_every_queue_has_one_owner(queue_count: int, member_count: int) -> None:
    found, ids = queues(queue_count), members(member_count)
    assert [queue for me in ids for queue in allocate_averagely(found, ids, me)] == found


def test_who_is_not_a_member_gets_nothing() -> None:
    assert allocate_averagely(queues(4), members(2), "somebody-else") == []
