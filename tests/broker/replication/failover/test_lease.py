"""A lease: counted from before it was asked for, and asked for anew when etcd has forgotten it."""

from __future__ import annotations

import pytest

from pyromq.broker.replication.failover.etcd_state import EtcdAway, Granted
from pyromq.broker.replication.failover.lease import Lease
from pyromq.testing import TestClock, wait_until
from tests.broker.replication.failover.fake_etcd import FakeEtcd, FakeLeases


@pytest.fixture
def clock() -> TestClock:
    return TestClock()


@pytest.fixture
def etcd(clock: TestClock) -> FakeEtcd:
    return FakeEtcd(clock)


def test_a_lease_ends_unless_it_is_renewed(clock: TestClock, etcd: FakeEtcd) -> None:
    lease = Lease(FakeLeases(etcd), 300, clock)
    assert not lease.is_valid
    lease.renew()
    assert lease.is_valid
    clock.advance(seconds=200)
    lease.renew()
    clock.advance(seconds=200)
    assert lease.is_valid
    clock.advance(seconds=101)
    assert not lease.is_valid


def test_it_counts_from_before_the_request_was_sent(clock: TestClock, etcd: FakeEtcd) -> None:
    class SlowLeases(FakeLeases):
        def grant(self, seconds: int) -> Granted:
            clock.advance(seconds=250)
            return super().grant(seconds)

    lease = Lease(SlowLeases(etcd), 300, clock)
    lease.renew()
    assert lease.is_valid
    clock.advance(seconds=51)
    assert not lease.is_valid


def test_another_is_asked_for_when_etcd_has_forgotten_it(clock: TestClock, etcd: FakeEtcd) -> None:
    lease = Lease(FakeLeases(etcd), 300, clock)
    lease.renew()
    first = lease.id
    clock.advance(seconds=301)
    lease.renew()
    assert lease.id != first
    assert lease.is_valid


def test_while_etcd_is_away_it_runs_out(clock: TestClock, etcd: FakeEtcd) -> None:
    lease = Lease(FakeLeases(etcd), 300, clock)
    lease.renew()
    etcd.is_away = True
    with pytest.raises(EtcdAway):
        lease.renew()
    assert lease.is_valid
    clock.advance(seconds=301)
    assert not lease.is_valid


def test_a_broker_that_stands_still_loses_it(clock: TestClock, etcd: FakeEtcd) -> None:
    lease = Lease(FakeLeases(etcd), 1, clock)
    clock.advance(seconds=11)
    lease.start()
    assert not etcd.granted
    lease.note_life()
    wait_until(lambda: lease.is_valid)
    lease.stop()


def test_a_thread_keeps_it_and_gives_it_back(clock: TestClock, etcd: FakeEtcd) -> None:
    lease = Lease(FakeLeases(etcd), 60, clock)
    lease.start()
    wait_until(lambda: lease.is_valid)
    lease.stop()
    assert not lease.is_valid
    assert not etcd.leases
