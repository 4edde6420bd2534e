"""Sharing out queues: what Java's strategies give, from their rules as the fact sheet words them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyromq.client.group.allocation import (
    Allocate,
    allocate_averagely,
    allocate_by_circle,
    allocate_by_config,
    allocate_by_consistent_hash,
    allocate_by_machine_room,
    allocate_nearby,
    allocate_sticky,
)
from pyromq.errors import ClientError
from pyromq.protocol.messages.message import MessageQueue

counts = st.tuples(st.integers(0, 40), st.integers(1, 12))


def queues(count: int, broker: str = "broker-a") -> list[MessageQueue]:
    return [MessageQueue("T", broker, number) for number in range(count)]


def members(count: int) -> list[str]:
    return [f"10.0.0.1@{number:03}" for number in range(count)]


# --- the rules, step by step ------------------------------------------------------------------------------------------


def averagely(found: list[MessageQueue], ids: list[str], me: str) -> list[MessageQueue]:
    index, left = ids.index(me), len(found) % len(ids)
    has_extra = left > 0 and index < left
    size = 1 if len(found) <= len(ids) else len(found) // len(ids) + has_extra
    start = index * size if has_extra else index * size + left
    return found[start : start + max(0, min(size, len(found) - start))]


def by_circle(found: list[MessageQueue], ids: list[str], me: str) -> list[MessageQueue]:
    return [queue for place, queue in enumerate(found) if place % len(ids) == ids.index(me)]


def by_hash(found: list[MessageQueue], ids: list[str], me: str) -> list[MessageQueue]:
    def place(text: str) -> int:
        return int(hashlib.md5(text.encode()).hexdigest()[:8], 16)

    ring: dict[int, str] = {}
    for member in ids:
        for number in range(10):
            ring[place(f"{member}-{number}")] = member
    mine = []
    for queue in found:
        text = f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name}, queueId={queue.queue_id}]"
        after = [spot for spot in ring if spot >= place(text)]
        if ring[min(after, default=min(ring))] == me:
            mine.append(queue)
    return mine


def by_room(found: list[MessageQueue], ids: list[str], me: str) -> list[MessageQueue]:
    inside = [queue for queue in found if queue.broker_name.split("@")[0] in ("east", "west")]
    each, index = len(inside) // len(ids), ids.index(me)
    mine = [inside[place] for place in range(each * index, each * index + each)]
    if len(inside) % len(ids) > index:
        mine.append(inside[index + each * len(ids)])
    return mine


SAME: list[tuple[Allocate, Callable[[list[MessageQueue], list[str], str], list[MessageQueue]]]] = [
    (allocate_averagely, averagely),
    (allocate_by_circle, by_circle),
    (allocate_by_consistent_hash(), by_hash),
    (allocate_by_machine_room({"east", "west"}), by_room),
]


@pytest.mark.parametrize(("ours", "java"), SAME, ids=["averagely", "circle", "hash", "room"])
@settings(max_examples=25)
@given(size=counts)
def test_each_member_gets_what_java_gives_it(ours: Allocate, java: Allocate, size: tuple[int, int]) -> None:
    found = [*queues(size[0], "east@a"), *queues(size[0] // 2, "north@c"), *queues(size[0] // 3, "west@b")]
    ids = members(size[1])
    for me in ids:
        assert ours(found, ids, me) == java(found, ids, me)


@pytest.mark.parametrize("allocate", [allocate_averagely, allocate_by_circle, allocate_by_consistent_hash()])
@given(size=counts)
def test_every_queue_has_one_owner(allocate: Allocate, size: tuple[int, int]) -> None:
    found, ids = queues(size[0]), members(size[1])
    assert sorted(queue for me in ids for queue in allocate(found, ids, me)) == found


@pytest.mark.parametrize(
    "allocate",
    [
        allocate_averagely,
        allocate_by_circle,
        allocate_by_consistent_hash(),
        allocate_by_machine_room({"broker-a"}),
        allocate_nearby(lambda queue: "r", lambda member: "r"),
        allocate_sticky,
    ],
)
def test_who_is_not_a_member_gets_nothing(allocate: Allocate) -> None:
    assert allocate(queues(4), members(2), "somebody-else") == []


# --- the single ones --------------------------------------------------------------------------------------------------


def test_a_configured_share_is_given_whoever_is_there() -> None:
    assert allocate_by_config(queues(3))([], [], "me") == queues(3)


def test_consistent_hash_takes_other_hashes_and_refuses_negative_counts() -> None:
    by_length = allocate_by_consistent_hash(virtual_nodes=1, hash=len)
    assert by_length(queues(4), ["a", "b"], "b") == queues(4), "equal places: the last member has them"
    assert allocate_by_consistent_hash(virtual_nodes=0)(queues(4), ["a"], "a") == []
    with pytest.raises(ClientError, match="negative"):
        allocate_by_consistent_hash(virtual_nodes=-1)


def test_a_vector_of_the_consistent_hash() -> None:
    # By md5sum: the members are at 8a9c13de and a8960459, the queues at 612f4674, 8b35eabf, 004e3e1b and db778d95.
    first, second = ids = ["192.168.0.1@1", "192.168.0.2@2"]
    allocate = allocate_by_consistent_hash(virtual_nodes=1)
    zero, one, two, three = found = queues(4)
    assert allocate(found, ids, first) == [zero, two, three]
    assert allocate(found, ids, second) == [one]


def test_only_brokers_named_after_a_room_count() -> None:
    allocate = allocate_by_machine_room({"east"})
    found = [MessageQueue("T", name, 0) for name in ("east", "east@", "east@a", "east@a@b", "east@a@", "west@a")]
    assert allocate(found, ["me"], "me") == [found[2], found[4]]


def room_of_queue(queue: MessageQueue) -> str:
    return queue.broker_name.split("@")[0]


def room_of_member(member: str) -> str:
    return member.split("@")[0]


def test_each_room_s_queues_go_to_its_own_members_and_orphaned_rooms_to_all() -> None:
    east, north, west = queues(4, "east@a"), queues(5, "north@c"), queues(3, "west@b")
    ids = ["east@1", "east@2", "west@1"]
    allocate = allocate_nearby(room_of_queue, room_of_member)
    found = [*east, *north, *west]
    assert allocate(found, ids, "east@1") == [*east[:2], *north[:2]]
    assert allocate(found, ids, "east@2") == [*east[2:], *north[2:4]]
    assert allocate(found, ids, "west@1") == [*west, *north[4:]]
    circle = allocate_nearby(room_of_queue, room_of_member, allocate_by_circle)
    assert circle(found, ids, "east@1") == [east[0], east[2], north[0], north[3]]
    assert allocate(north, ["south@1"], "south@1") == north


def test_a_member_or_queue_without_a_room_is_an_error() -> None:
    with pytest.raises(ClientError, match="in no machine room"):
        allocate_nearby(lambda queue: "", room_of_member)(queues(2), ["east@1"], "east@1")


# --- ours -------------------------------------------------------------------------------------------------------------


@given(size=counts)
def test_sticky_shares_out_evenly(size: tuple[int, int]) -> None:
    found, ids = queues(size[0]), members(size[1])
    shares = [allocate_sticky(found, ids, me) for me in ids]
    assert sorted(queue for share in shares for queue in share) == found
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def moved(allocate: Allocate, before: list[str], after: list[str], found: list[MessageQueue]) -> int:
    """Count queues that went from one member to another who was there before and still is."""
    staying = set(before) & set(after)
    owner_before = {queue: me for me in before for queue in allocate(found, before, me)}
    owner_after = {queue: me for me in after for queue in allocate(found, after, me)}
    return sum(
        owner_before[queue] in staying and owner_after[queue] in staying and owner_before[queue] != owner_after[queue]
        for queue in found
    )


def test_sticky_moves_far_fewer_queues_between_those_who_stay() -> None:
    found = queues(64)
    sticky = averagely_moved = 0
    for size in range(2, 12):
        ids = members(size)
        for gone in ids:
            left = [member for member in ids if member != gone]
            sticky += moved(allocate_sticky, ids, left, found)
            averagely_moved += moved(allocate_averagely, ids, left, found)
    assert sticky * 3 < averagely_moved
