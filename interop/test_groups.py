"""What operators see and do with groups, with Apache's client among the members and on Apache's broker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from interop.conftest import Cluster
from interop.inbox import Inbox
from interop.peer import Peer
from interop.python_side import COUNT, send
from pyromq import PushConsumer
from pyromq.admin import AdminClient, GroupDescription
from pyromq.errors import GroupNotFound

PATIENCE = 60.0


@pytest.fixture
async def admin(cluster: Cluster) -> AsyncIterator[AdminClient]:
    async with AdminClient(cluster.namesrv) as opened:
        yield opened


async def described(
    admin: AdminClient, group: str, until: Callable[[GroupDescription], bool], watch: float = 0, slow: float = 10
) -> GroupDescription:
    """Describe a group repeatedly until it is as expected."""
    found: GroupDescription | None = None
    async with asyncio.timeout(PATIENCE):
        while found is None or not until(found):
            found = await admin.groups.describe(group, watch=watch, slow=slow)
            await asyncio.sleep(0.2)
    return found


async def test_a_mixed_group_is_described(cluster: Cluster, java: Peer, admin: AdminClient, name: str) -> None:
    await send(cluster, name)
    inbox = Inbox()
    async with PushConsumer(name, cluster.namesrv, {name: "*"}, inbox, start_from="earliest") as ours:
        with java.push(cluster.namesrv, name, name) as theirs:
            found = await described(admin, name, lambda it: not it.lag and not it.idle_members and len(it.members) == 2)
            owners = {row.queue: row.owners for row in found.queues if row.queue.topic == name}
            expected = {queue: (theirs.client_id,) for queue in owners if tuple(queue) in theirs.queues()}
            expected |= {queue: (ours.client_id,) for queue in ours.assignment if queue.topic == name}
    assert owners == expected
    assert {member.language for member in found.members} == {"JAVA", "PYTHON"}
    assert {member.version for member in found.members} <= {"4.9.8", "4.9.7"}
    assert [str(wanted) for wanted in found.subscriptions] == [f"{name} (*)"]
    assert found.findings == ()


async def test_differing_subscriptions_are_named(cluster: Cluster, java: Peer, admin: AdminClient, name: str) -> None:
    await send(cluster, name)
    async with PushConsumer(name, cluster.namesrv, {name: "odd"}, Inbox()) as ours:
        with java.push(cluster.namesrv, name, name, tags="even") as theirs:
            found = await described(admin, name, lambda it: len(it.opinions) == 2)
            expected = {"odd": (ours.client_id,), "even": (theirs.client_id,)}
    assert {opinion.subscriptions[0].expression: opinion.members for opinion in found.opinions} == expected


async def test_a_java_listener_that_fails_in_order_stands_still(
    cluster: Cluster, java: Peer, admin: AdminClient, name: str
) -> None:
    await send(cluster, name)
    with java.push(cluster.namesrv, name, name, orderly=True, failures=1_000_000) as stuck:
        assert stuck.take(2)
        found = await described(admin, name, lambda it: bool(it.blocked), watch=2, slow=1)
    assert found.lag == COUNT
    assert found.members[0].orderly
    assert {row.owners for row in found.blocked} == {(found.members[0].client_id,)}
    assert all("did not move within 2 s" in str(row.blocked) for row in found.blocked)
    head = found.blocked[0].head
    assert head is not None
    assert head.keys[0].startswith("k-")


async def test_a_group_without_members_is_moved_copied_and_deleted(
    cluster: Cluster, java: Peer, admin: AdminClient, name: str
) -> None:
    await send(cluster, name)
    with java.push(cluster.namesrv, name, name) as consumer:
        assert len(consumer.take(COUNT)) == COUNT
    await described(admin, name, lambda it: not it.lag and not it.members)
    plan = await admin.groups.plan_reset(name, "earliest")
    await admin.groups.reset(plan)
    found = await admin.groups.describe(name, watch=0)
    assert (plan.again, found.lag, found.model) == (COUNT, COUNT, None)
    assert found.behind is not None
    assert name in {group.group for group in (await admin.groups.list()).groups}
    await admin.groups.reset(await admin.groups.plan_reset(name, 1))
    await admin.groups.clone(name, f"{name}-copy", name)
    assert (await admin.groups.describe(f"{name}-copy", watch=0)).lag == COUNT - len(plan.moves)
    await admin.groups.set(name, {"retry_max_times": 3})
    (settings,) = (await admin.groups.describe(name, watch=0)).settings.values()
    assert settings.retry_max_times == 3
    await admin.groups.delete(name)
    with pytest.raises(GroupNotFound):
        await admin.groups.describe(name)


async def test_java_is_told_where_to_go_on(cluster: Cluster, java: Peer, admin: AdminClient, name: str) -> None:
    await send(cluster, name)
    with java.push(cluster.namesrv, name, name) as consumer:
        assert len(consumer.take(COUNT)) == COUNT
        await described(admin, name, lambda it: not it.lag)
        moves = await admin.groups.reset(await admin.groups.plan_reset(name, "earliest", [name]))
        assert {move.after for move in moves} == {0}
        assert len(await asyncio.to_thread(consumer.take, COUNT, 40)) == COUNT, "it takes Java ten seconds"
