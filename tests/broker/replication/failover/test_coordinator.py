"""Coordinators over one etcd in memory: who leads, who follows, and who no longer may."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyromq.broker.messages.durability import Copies
from pyromq.broker.replication.failover.in_sync_set import FIRST_PATIENCE, OUT_AFTER
from pyromq.errors import StoreError
from pyromq.store.write.visibility import EVERYTHING
from pyromq.testing import TestClock
from tests.broker.replication.failover.fake_etcd import FakeEtcd
from tests.broker.replication.failover.fake_nodes import LEASE, Node, pair, trio, view


@pytest.fixture
def clock() -> TestClock:
    return TestClock()


@pytest.fixture
def etcd(clock: TestClock) -> FakeEtcd:
    return FakeEtcd(clock)


@pytest.fixture
def nodes(etcd: FakeEtcd, clock: TestClock, tmp_path: Path) -> list[Node]:
    return [Node(number, etcd, clock, tmp_path) for number in (1, 2, 3)]


async def test_the_first_that_asks_leads_and_others_follow(nodes: list[Node], etcd: FakeEtcd) -> None:
    for node in nodes:
        await node.look()
    assert [node.leads for node in nodes] == [1, None, None]
    assert [node.follower.moves for node in nodes] == [0, 1, 1]
    assert nodes[1].coordinator.known.master == ("host1:10911", "host1:10912")
    assert nodes[1].coordinator.known.epoch == 1
    assert (await view(etcd)).members == [nodes[0].epochs.store_id]


async def test_a_pair_that_begins_with_failover_is_led_by_the_longest_history(
    nodes: list[Node], clock: TestClock
) -> None:
    """The slave starts first. If it led at once, its old master would have to cut what only that has."""
    master, slave = nodes[:2]
    slave.epochs.adopt([master.epochs.begin(0)])
    master.store.max_physical_offset, slave.store.max_physical_offset = 1000, 900
    await slave.look()
    clock.advance(seconds=4)
    await slave.look()
    assert slave.leads is None
    await master.look()
    await slave.look()
    assert (master.leads, slave.leads) == (2, None)


async def test_one_that_was_a_slave_leads_if_its_old_master_does_not_come(nodes: list[Node], clock: TestClock) -> None:
    slave = nodes[1]
    slave.epochs.adopt([nodes[0].epochs.begin(0)])
    await slave.look()
    clock.advance(seconds=6)
    await slave.look()
    assert slave.leads == 2


async def test_an_empty_broker_does_not_lead_one_with_messages(nodes: list[Node]) -> None:
    old, new = nodes[:2]
    old.epochs.begin(0)
    old.store.max_physical_offset = 1000
    old.store.failure = StoreError("no space is left")  # it is there, and cannot lead
    await old.look()
    await new.look()
    assert (old.leads, new.leads) == (None, None)
    assert "longer history" in new.coordinator.problem


async def test_a_leader_that_is_alone_has_nobody_to_wait_for(nodes: list[Node]) -> None:
    await nodes[0].look()
    assert nodes[0].replicas.copies(10) is Copies.MISSING
    assert nodes[0].store.confirmed[-1] == EVERYTHING


async def test_a_slave_that_has_all_joins_and_is_waited_for(nodes: list[Node], etcd: FakeEtcd) -> None:
    one, two = await pair(nodes)
    assert (await view(etcd)).members == sorted([one.epochs.store_id, two.epochs.store_id])
    assert one.replicas.copies(1000) is Copies.COMPLETE
    assert one.replicas.copies(1001) is Copies.PENDING
    assert one.store.confirmed[-1] == 1000
    one.reports(two, 1500)
    assert one.store.confirmed[-1] == 1500


async def test_a_slave_that_does_not_follow_the_tables_yet_does_not_join(nodes: list[Node], etcd: FakeEtcd) -> None:
    """The network was cut, and the connection for the log recovered first. Elected, it would take all groups back."""
    one, two = nodes[:2]
    await one.look()
    one.gives_tables = False
    for _ in range(2):
        one.reports(two, 0)
        await one.look()
    assert (await view(etcd)).members == [one.epochs.store_id]
    one.gives_tables = True
    for _ in range(2):
        one.reports(two, 0)
        await one.look()
    assert (await view(etcd)).members == sorted([one.epochs.store_id, two.epochs.store_id])


async def test_one_who_joins_counts_before_the_change_is_written(nodes: list[Node], etcd: FakeEtcd) -> None:
    one, two = nodes[:2]
    await one.look()
    await two.look()
    one.store.max_physical_offset = 500
    one.reports(two, 400)
    await one.look()
    one.store.max_physical_offset = 1000
    one.reports(two, 500)
    assert one.store.confirmed[-1] == EVERYTHING
    await one.look()
    assert one.store.confirmed[-1] == 500
    assert (await view(etcd)).members == [one.epochs.store_id]


async def test_a_leader_whose_store_fails_hands_over_and_stands_no_more(nodes: list[Node]) -> None:
    one, two = await pair(nodes)
    one.store.failure = StoreError("the disk is gone")
    await one.look()
    assert one.leads is None
    await two.look()
    assert two.leads == 2
    await two.coordinator.hand_over()
    await one.look()
    assert one.leads is None
    assert "the disk is gone" in one.coordinator.problem


async def test_a_member_that_is_silent_leaves(nodes: list[Node], etcd: FakeEtcd, clock: TestClock) -> None:
    one, _ = await pair(nodes)
    clock.advance(seconds=OUT_AFTER + 0.1)
    await one.look()
    assert (await view(etcd)).members == [one.epochs.store_id]
    assert one.replicas.copies(9999) is Copies.MISSING


async def test_a_member_that_falls_behind_leaves_and_joins_when_it_is_quick_again(
    nodes: list[Node], etcd: FakeEtcd, clock: TestClock
) -> None:
    """It is heard all the time: over a slow link, it would hold up every send until its time is up."""
    one, two = await pair(nodes)
    both = sorted([one.epochs.store_id, two.epochs.store_id])
    for end in range(1000, 1650, 25):  # the log grows by 1000 in a second, the slave's copy by 100
        clock.advance(seconds=0.25)
        one.store.max_physical_offset += 250
        one.reports(two, end)
        await one.look()
    assert (await view(etcd)).members == [one.epochs.store_id]
    assert one.replicas.copies(one.store.max_physical_offset) is Copies.MISSING
    for _ in range(20):
        clock.advance(seconds=0.25)
        one.store.max_physical_offset += 250
        one.reports(two, one.store.max_physical_offset - 2000)
        await one.look()
        assert (await view(etcd)).members == [one.epochs.store_id], "two seconds behind, it is not waited for"
    for _ in range(4):
        clock.advance(seconds=0.25)
        one.store.max_physical_offset += 250
        one.reports(two, one.store.max_physical_offset - 100)
        await one.look()
    assert (await view(etcd)).members == both


async def test_a_change_whose_answer_was_lost_counts_until_it_is_known(
    nodes: list[Node], etcd: FakeEtcd, clock: TestClock
) -> None:
    one, two = await pair(nodes)
    clock.advance(seconds=OUT_AFTER + 0.1)
    etcd.loses_answers = True
    await one.look()
    assert (await view(etcd)).members == [one.epochs.store_id]
    assert one.replicas.copies(9999) is Copies.PENDING
    etcd.loses_answers = False
    await one.look()
    assert one.replicas.copies(9999) is Copies.MISSING
    one.reports(two, 1000)
    await one.look()
    assert (await view(etcd)).members == sorted([one.epochs.store_id, two.epochs.store_id])


async def test_an_elected_broker_takes_messages_once_all_that_it_has_is_visible(
    nodes: list[Node], clock: TestClock
) -> None:
    """What it has and the old master may not have could still be cut: delays and transactions in it are not seen."""
    _, two = await pair(nodes)
    two.store.max_physical_offset = 1500
    clock.advance(seconds=LEASE + 1)
    await two.look()
    assert two.leads == 2
    assert not two.takes_messages
    clock.advance(seconds=FIRST_PATIENCE + 0.1)
    await two.look()
    assert two.takes_messages


async def test_a_member_is_elected_once_the_lease_has_ended(
    nodes: list[Node], etcd: FakeEtcd, clock: TestClock
) -> None:
    one, two = await pair(nodes)
    await nodes[2].look()
    clock.advance(seconds=LEASE + 1)
    await nodes[2].look()
    assert nodes[2].leads is None
    assert "in-sync set" in nodes[2].coordinator.problem
    await two.look()
    assert two.leads == 2
    assert one.leads == 1  # it does not know yet
    assert one.replicas.is_fenced
    one.lease.renew()
    assert one.replicas.is_fenced  # another lease says nothing of who leads
    await one.look()
    assert one.leads is None
    await one.look()
    assert one.coordinator.known.epoch == 2


async def test_without_etcd_a_leader_goes_on_while_every_member_confirms(
    nodes: list[Node], etcd: FakeEtcd, clock: TestClock
) -> None:
    one, two = await pair(nodes)
    etcd.is_away = True
    for _ in range(200):
        clock.advance(seconds=0.5)
        one.reports(two, 1000)
        await one.look()
    assert one.leads == 1
    assert not one.replicas.is_fenced
    clock.advance(seconds=2)
    assert one.replicas.is_fenced
    await one.look()
    assert one.leads is None


async def test_a_leader_that_etcd_has_forgotten_is_leader_again(
    nodes: list[Node], etcd: FakeEtcd, clock: TestClock
) -> None:
    one, two = await pair(nodes)
    etcd.is_away = True
    clock.advance(seconds=LEASE + 1)
    one.reports(two, 1000)
    await one.look()
    etcd.is_away = False
    await one.look()
    await one.look()
    assert one.leads == 1
    found = await view(etcd)
    assert found.leader is not None
    assert found.leader.epoch == 1
    assert found.leader_lease == one.lease.id


async def test_a_leader_that_is_alone_stops_when_its_lease_is_over(
    nodes: list[Node], etcd: FakeEtcd, clock: TestClock
) -> None:
    one = nodes[0]
    await one.look()
    etcd.is_away = True
    clock.advance(seconds=LEASE + 1)
    assert one.replicas.is_fenced
    await one.look()
    assert one.leads is None
    etcd.is_away = False
    await one.look()
    assert one.leads == 2


async def test_an_election_whose_answer_was_lost_is_given_up_and_held_again(nodes: list[Node], etcd: FakeEtcd) -> None:
    one = nodes[0]
    await one.look()
    await one.coordinator.hand_over()
    assert one.leads is None
    etcd.loses_answers = True
    await one.look()
    assert one.leads is None
    etcd.loses_answers = False
    await one.look()
    await one.look()
    assert one.leads is not None
    assert one.leads > 1
    found = await view(etcd)
    assert found.leader is not None
    assert found.leader.epoch == found.epoch == one.leads


async def test_one_that_cannot_begin_its_epoch_gives_the_leadership_back(nodes: list[Node], etcd: FakeEtcd) -> None:
    one, two = nodes[:2]
    one.fails = True
    await one.look()
    await one.look()
    assert (await view(etcd)).leader is None
    one.fails = False
    await one.look()
    assert one.leads == 2
    await two.look()
    assert two.coordinator.known.epoch == 2


async def test_a_leader_hands_over_to_a_member(nodes: list[Node], etcd: FakeEtcd) -> None:
    one, two = await pair(nodes)
    await one.coordinator.hand_over()
    assert one.leads is None
    await one.look()
    assert one.leads is None  # it lets the other stand first
    await two.look()
    assert two.leads == 2
    assert (await view(etcd)).preferred == ""


async def test_etcd_is_asked_more_often_while_a_leader_is_awaited(nodes: list[Node], clock: TestClock) -> None:
    one, two = await pair(nodes)
    settled = one.coordinator.pause
    assert two.coordinator.pause == settled
    await one.coordinator.hand_over()
    await one.look()
    assert one.coordinator.pause < settled / 2, "it looks for its successor"
    await two.look()
    assert not two.takes_messages
    assert two.coordinator.pause < settled / 2, "it waits for the set"
    await one.look()
    two.reports(one, 1000)
    await two.look()
    assert two.takes_messages
    assert (one.coordinator.pause, two.coordinator.pause) == (settled, settled)


async def test_etcd_is_not_stormed_while_nobody_can_lead(nodes: list[Node], clock: TestClock) -> None:
    one, two = await pair(nodes)
    settled = one.coordinator.pause
    two.epochs.adopt([])  # a backup that was put back
    await one.coordinator.hand_over()
    await two.look()
    assert two.coordinator.pause < settled
    clock.advance(seconds=10)
    await two.look()
    assert two.coordinator.pause == settled


async def test_a_leader_that_stops_leaves_the_set_and_its_successor_waits_for_nobody(
    nodes: list[Node], etcd: FakeEtcd
) -> None:
    one, two = await pair(nodes)
    await one.coordinator.stop()
    assert (await view(etcd)).members == [two.epochs.store_id]
    await two.look()
    assert two.leads == 2
    assert two.takes_messages


async def test_a_leader_that_stops_alone_stays_in_the_set(nodes: list[Node], etcd: FakeEtcd) -> None:
    one = nodes[0]
    await one.look()
    await one.coordinator.stop()
    assert (await view(etcd)).members == [one.epochs.store_id]


async def test_a_leader_that_stops_while_its_slave_is_away_stays_in_the_set(nodes: list[Node], etcd: FakeEtcd) -> None:
    """The slave has just died and is still in the set. If it never comes back, this one can lead again."""
    one, two = await pair(nodes)
    one.leaves(two)
    await one.coordinator.stop()
    found = await view(etcd)
    assert (found.members, found.preferred) == (sorted([one.epochs.store_id, two.epochs.store_id]), "")


async def test_a_leader_hands_over_to_a_member_that_is_there(nodes: list[Node], etcd: FakeEtcd) -> None:
    one, two, three = await trio(nodes, etcd)
    first, second = sorted((two, three), key=lambda node: node.epochs.store_id)
    one.leaves(first)
    await one.coordinator.hand_over()
    assert (await view(etcd)).preferred == second.epochs.store_id


async def test_etcd_is_asked_more_often_once_the_master_is_lost(nodes: list[Node]) -> None:
    _, two = await pair(nodes)
    settled = two.coordinator.pause
    two.follower.alone_seconds = 0.1
    assert two.coordinator.pause < settled / 2
    two.follower.alone_seconds = 60.0
    assert two.coordinator.pause == settled


async def test_a_leader_that_stops_late_changes_nothing(nodes: list[Node], etcd: FakeEtcd) -> None:
    """Another was elected meanwhile: neither its key nor its set is touched."""
    one, two = await pair(nodes)
    etcd.end_lease(one.lease.id)
    await two.look()
    assert two.leads == 2
    await one.coordinator.stop()
    found = await view(etcd)
    assert found.leader is not None
    assert (found.leader.epoch, found.members) == (2, sorted([one.epochs.store_id, two.epochs.store_id]))


async def test_a_backup_that_was_put_back_is_not_elected(nodes: list[Node], etcd: FakeEtcd, clock: TestClock) -> None:
    one, two = await pair(nodes)
    two.epochs.adopt([])
    await one.coordinator.hand_over()
    clock.advance(seconds=2)
    await two.look()
    assert two.leads is None
    assert "backup" in two.coordinator.problem


async def test_an_operator_can_force_one_that_may_lack_messages(
    nodes: list[Node], etcd: FakeEtcd, clock: TestClock
) -> None:
    one, _ = await pair(nodes)
    third = nodes[2]
    clock.advance(seconds=LEASE + 1)
    await third.look()
    assert third.leads is None
    third.coordinator.force()
    await third.look()
    assert third.leads == 2
    assert (await view(etcd)).members == [third.epochs.store_id]
    await one.look()
    assert one.leads is None


async def test_an_operator_can_depose_a_leader_that_does_not_answer(nodes: list[Node], etcd: FakeEtcd) -> None:
    one, two = await pair(nodes)
    two.coordinator.force()
    await two.look()
    assert two.leads == 2
    assert one.leads == 1  # it does not know yet
    await one.look()
    assert one.leads is None


async def test_after_a_power_cut_of_all_the_longest_history_leads(
    nodes: list[Node], etcd: FakeEtcd, clock: TestClock
) -> None:
    one, two = await pair(nodes)
    for node in (one, two):
        node.coordinator._is_intact = False
    one.store.max_physical_offset = 800
    await one.coordinator.hand_over()
    await one.look()
    clock.advance(seconds=2)
    two.store.max_physical_offset = 900
    await one.look()
    assert one.leads is None
    await two.look()
    assert two.leads == 2
