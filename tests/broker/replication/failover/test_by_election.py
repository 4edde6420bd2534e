"""An operator wants another master: who is waited for, and what becomes of it when that fails."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

from pyromq.broker.messages.durability import Copies
from pyromq.broker.replication.failover.by_election import ByElection
from pyromq.errors import BrokerError, ConnectFailed
from pyromq.testing import TestClock
from tests.broker.replication.failover.fake_etcd import FakeEtcd
from tests.broker.replication.failover.fake_nodes import Node, pair, trio, view


@pytest.fixture
def etcd() -> FakeEtcd:
    return FakeEtcd(TestClock())


@pytest.fixture
def nodes(etcd: FakeEtcd, tmp_path: Path) -> list[Node]:
    return [Node(number, etcd, cast(TestClock, etcd.clock), tmp_path) for number in (1, 2, 3)]


class NobodyAnswers:
    """Other brokers that cannot be reached."""

    async def step_down(self, *_: object, **__: object) -> None:
        raise ConnectFailed("cannot connect")


async def test_a_promotion_by_force_that_failed_is_not_made_later(nodes: list[Node]) -> None:
    """Etcd was away, and the operator was told so. When it is back, the old master must not be deposed."""
    one, two = await pair(nodes)
    clock = one.clock
    wanted = ByElection(
        two.coordinator, cast(Any, NobodyAnswers()), two.epochs, cast(Any, two.store), clock, "SYNC_MASTER"
    )
    promoting = asyncio.ensure_future(wanted.take_over(force=True))
    while not promoting.done():
        await clock.advance_async(seconds=1)
    with pytest.raises(BrokerError, match="was not elected in time"):
        promoting.result()
    await two.look()
    assert (one.leads, two.leads) == (1, None)


async def test_a_handover_waits_for_no_member_that_lags(nodes: list[Node], etcd: FakeEtcd) -> None:
    """Neither does the next leader: the slow one is out of the set before the first one stops taking messages."""
    one, two, three = await trio(nodes, etcd)
    one.store.max_physical_offset = 2000
    one.reports(two, 2000)
    one.reports(three, 1500)
    assert one.replicas.copies(2000) is Copies.PENDING
    await one.coordinator.hand_over()
    found = await view(etcd)
    assert found.members == sorted([one.epochs.store_id, two.epochs.store_id])
    assert found.preferred == two.epochs.store_id
    assert one.store.confirmed[-1] == 2000, "what the others have is acknowledged and visible"
    two.store.max_physical_offset = 2000
    await two.look()
    assert two.leads == 2
    two.reports(one, 2000)
    await two.look()
    assert two.takes_messages


async def test_the_next_leader_of_three_does_not_wait_for_the_last_one(nodes: list[Node], etcd: FakeEtcd) -> None:
    """That one has to become a slave first. It joins again like any other."""
    one, two, three = await trio(nodes, etcd)
    await one.coordinator.hand_over(two.epochs.store_id)
    assert (await view(etcd)).members == sorted([two.epochs.store_id, three.epochs.store_id])
    await two.look()
    two.reports(three, 1000)
    await two.look()
    assert two.takes_messages
    two.reports(one, 1000)
    await two.look()
    assert set((await view(etcd)).members or ()) == {node.epochs.store_id for node in nodes}


async def test_a_handover_waits_for_nobody_who_has_gone(nodes: list[Node], etcd: FakeEtcd) -> None:
    one, two, three = await trio(nodes, etcd)
    one.leaves(three)
    await one.coordinator.hand_over(two.epochs.store_id)
    assert (await view(etcd)).members == sorted([one.epochs.store_id, two.epochs.store_id])


async def test_a_handover_waits_for_the_one_that_is_wanted(nodes: list[Node], etcd: FakeEtcd) -> None:
    one, two, three = await trio(nodes, etcd)
    one.store.max_physical_offset = 2000
    one.reports(two, 1900)
    one.reports(three, 1500)
    await one.coordinator.hand_over(three.epochs.store_id)
    found = await view(etcd)
    assert found.members == sorted([one.epochs.store_id, three.epochs.store_id])
    assert found.preferred == three.epochs.store_id


async def test_a_handover_waits_for_nobody_who_joins(nodes: list[Node], etcd: FakeEtcd) -> None:
    one, two = await pair(nodes)
    three = nodes[2]
    one.reports(three, 900)
    await one.look()
    one.reports(three, 1000)
    one.store.max_physical_offset = 2000
    one.reports(two, 2000)
    await one.look()  # quick enough to join: it counts from here on
    assert three.epochs.store_id in one.replicas.set.others - one.replicas.set.written
    assert one.replicas.copies(2000) is Copies.PENDING
    await one.coordinator.hand_over()
    assert one.store.confirmed[-1] == 2000
    assert (await view(etcd)).members == sorted([one.epochs.store_id, two.epochs.store_id])


async def test_a_handover_changes_no_set_whose_last_change_is_unknown(nodes: list[Node], etcd: FakeEtcd) -> None:
    one, two, three = await trio(nodes, etcd)
    one.store.max_physical_offset = 2000
    one.reports(two, 2000)
    one.leaves(three)
    etcd.loses_answers = True
    await one.look()  # it wants the third one out, and does not hear whether it is
    etcd.loses_answers = False
    await one.coordinator.hand_over()
    assert (await view(etcd)).preferred == two.epochs.store_id
