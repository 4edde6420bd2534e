"""Allocation strategies: how a group shares out the queues of a topic.

Each member computes its own share, so all members must use the same function. It takes the sorted queues, the sorted
member ids and the member's own id, and returns that member's queues. All but `allocate_sticky` return the same shares
as the strategies of Java's clients, so clients of both kinds can be in one group.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Sequence
from hashlib import md5
from typing import TypeVar

from pyromq.errors import ClientError
from pyromq.protocol.messages.message import MessageQueue

_T = TypeVar("_T")
_WORD = 2**64 - 1
_GOLDEN = 0x9E3779B97F4A7C15  # an odd number; multiplying by it spreads a value over all bits

Allocate = Callable[[list[MessageQueue], list[str], str], list[MessageQueue]]
"""Takes sorted queues, sorted member ids and the member's own id; returns its share."""


def allocate_averagely(queues: list[MessageQueue], members: list[str], me: str) -> list[MessageQueue]:
    """Give each member a run of neighbouring queues; if they do not divide evenly, the first members get one more."""
    if me not in members:
        return []
    share, extra = divmod(len(queues), len(members))
    index = members.index(me)
    start = index * share + min(index, extra)
    return queues[start : start + share + (index < extra)]


def allocate_by_circle(queues: list[MessageQueue], members: list[str], me: str) -> list[MessageQueue]:
    """Deal the queues out like cards."""
    return queues[members.index(me) :: len(members)] if me in members else []


def allocate_by_config(queues: Iterable[MessageQueue]) -> Allocate:
    """Return a function that gives this member these queues, whoever else is in the group."""
    mine = list(queues)
    return lambda queues, members, me: list(mine)


# --- by machine room --------------------------------------------------------------------------------------------------


def allocate_by_machine_room(rooms: Collection[str]) -> Allocate:
    """Return a function that shares out the queues of brokers named `room@name` whose room is in `rooms`."""
    wanted = frozenset(rooms)

    def allocate(queues: list[MessageQueue], members: list[str], me: str) -> list[MessageQueue]:
        if me not in members:
            return []
        inside = [queue for queue in queues if _room_of_broker(queue.broker_name) in wanted]
        share, extra = divmod(len(inside), len(members))
        index = members.index(me)
        last = inside[index + share * len(members) :][:1] if index < extra else []
        return inside[index * share : (index + 1) * share] + last

    return allocate


def _room_of_broker(broker_name: str) -> str | None:
    parts = broker_name.rstrip("@").split("@")
    return parts[0] if len(parts) == 2 else None


def allocate_nearby(
    room_of_queue: Callable[[MessageQueue], str],
    room_of_member: Callable[[str], str],
    within: Allocate = allocate_averagely,
) -> Allocate:
    """Return a function that shares out the queues of each room among the members in that room, by `within`.

    All members share the queues of a room that has no member.
    """

    def allocate(queues: list[MessageQueue], members: list[str], me: str) -> list[MessageQueue]:
        if me not in members:
            return []
        queues_in, members_in = _by_room(queues, room_of_queue), _by_room(members, room_of_member)
        own = room_of_member(me)
        mine = within(queues_in.pop(own), members_in[own], me) if own in queues_in else []
        for room in sorted(queues_in.keys() - members_in.keys(), key=utf16):
            mine = mine + within(queues_in[room], members, me)
        return mine

    return allocate


def _by_room(things: Sequence[_T], room_of: Callable[[_T], str]) -> dict[str, list[_T]]:
    rooms: dict[str, list[_T]] = {}
    for thing in things:
        room = room_of(thing)
        if not room:
            raise ClientError(f"{thing} is in no machine room")
        rooms.setdefault(room, []).append(thing)
    return rooms


# --- strategies that move few queues ----------------------------------------------------------------------------------


def allocate_by_consistent_hash(virtual_nodes: int = 10, hash: Callable[[str], int] | None = None) -> Allocate:
    """Return a function that places each member `virtual_nodes` times on a ring and gives a queue to the next member.

    The default hash is the first four bytes of MD5.
    """
    if virtual_nodes < 0:
        raise ClientError(f"virtual_nodes cannot be negative: {virtual_nodes}")
    position = hash or _md5_position

    def allocate(queues: list[MessageQueue], members: list[str], me: str) -> list[MessageQueue]:
        nodes = {position(f"{member}-{number}"): member for member in members for number in range(virtual_nodes)}
        ring = sorted(nodes)
        if me not in members or not ring:
            return []

        def owner(queue: MessageQueue) -> str:
            index = bisect_left(ring, position(_java_text(queue)))
            return nodes[ring[index % len(ring)]]

        return [queue for queue in queues if owner(queue) == me]

    return allocate


def allocate_sticky(queues: list[MessageQueue], members: list[str], me: str) -> list[MessageQueue]:
    """Give all members the same number of queues, plus or minus one, and move few when members join or leave.

    Each queue ranks the members in an order of its own and goes to the first one that has room. Java's clients have no
    such strategy, so all members of the group must be PyroMQ's.
    """
    if me not in members:
        return []
    share, extra = divmod(len(queues), len(members))
    hashes = {member: _hash64(member) for member in members}
    counts = dict.fromkeys(members, 0)
    mine = []
    for queue in queues:
        own_hash = _hash64(_java_text(queue))
        room = [member for member in members if counts[member] < share + (extra > 0)]
        owner = max(room, key=lambda member: ((hashes[member] ^ own_hash) * _GOLDEN & _WORD, member))
        extra -= counts[owner] == share
        counts[owner] += 1
        if owner == me:
            mine.append(queue)
    return mine


def _hash64(text: str) -> int:
    return int.from_bytes(md5(text.encode(), usedforsecurity=False).digest()[:8], "big")


def _md5_position(text: str) -> int:
    return int.from_bytes(md5(text.encode(), usedforsecurity=False).digest()[:4], "big")


def _java_text(queue: MessageQueue) -> str:
    return f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name}, queueId={queue.queue_id}]"


def utf16(text: str) -> bytes:
    """Return a key that sorts strings as Java does."""
    return text.encode("utf-16-be", "surrogatepass")
