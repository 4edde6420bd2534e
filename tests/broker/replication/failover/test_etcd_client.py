"""Reads, transactions and leases: an etcd in memory and a real one answer alike."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pyromq.broker.config.etcd_address import EtcdAddress, parse_endpoints
from pyromq.broker.replication.failover.coordinator import Etcd
from pyromq.broker.replication.failover.etcd_client import EtcdClient, LeaseClient
from pyromq.broker.replication.failover.etcd_state import EtcdAway, Put, Transaction
from pyromq.broker.replication.failover.lease import Leases
from pyromq.testing import TestClock
from tests.broker.replication.failover.fake_etcd import FakeEtcd, FakeLeases
from tests.etcd_server import EtcdCluster, etcd_unavailable


@pytest.fixture(scope="module")
def server() -> Iterator[EtcdCluster]:
    reason = etcd_unavailable()
    if reason:
        pytest.skip(reason)
    with EtcdCluster() as etcd:
        yield etcd


@pytest.fixture(params=["in memory", "real"])
def both(request: pytest.FixtureRequest) -> Iterator[tuple[Etcd, Leases]]:
    if request.param == "in memory":
        fake = FakeEtcd(TestClock())
        yield fake, FakeLeases(fake)
        return
    address = EtcdAddress(endpoints=parse_endpoints(request.getfixturevalue("server").url))
    leases = LeaseClient(address, 10.0)
    yield EtcdClient(address, 10.0), leases
    leases.close()


async def test_what_is_written_is_read_with_its_revision_and_lease(both: tuple[Etcd, Leases]) -> None:
    etcd, leases = both
    lease = leases.grant(30).id
    assert await etcd.commit(Transaction(puts=(Put("/r/one", b"\xff1", lease), Put("/r/two", b"2"), Put("/s", b""))))
    found = await etcd.read("/r/")
    assert [(one.key, one.value, one.lease) for one in found] == [("/r/one", b"\xff1", lease), ("/r/two", b"2", 0)]
    assert found[0].mod_revision > 0
    await etcd.close()


async def test_nothing_is_done_unless_everything_is_as_compared(both: tuple[Etcd, Leases]) -> None:
    etcd, _ = both
    assert await etcd.commit(Transaction({"/t/a": 0}, puts=(Put("/t/a", b"1"), Put("/t/b", b"1"))))
    assert not await etcd.commit(Transaction({"/t/a": 0}, puts=(Put("/t/a", b"2"),)))
    revision = (await etcd.read("/t/"))[0].mod_revision
    assert not await etcd.commit(Transaction({"/t/a": revision}, {"/t/b": b"2"}, (Put("/t/c", b""),), ("/t/b",)))
    assert not await etcd.commit(Transaction(values={"/t/none": b""}, puts=(Put("/t/c", b""),)))
    assert await etcd.commit(Transaction({"/t/a": revision}, {"/t/b": b"1"}, (Put("/t/a", b"3"),), ("/t/b",)))
    assert [(one.key, one.value) for one in await etcd.read("/t/")] == [("/t/a", b"3")]
    await etcd.close()


async def test_the_keys_of_a_lease_go_with_it(both: tuple[Etcd, Leases]) -> None:
    etcd, leases = both
    lease = leases.grant(30)
    assert lease.seconds == 30
    await etcd.commit(Transaction(puts=(Put("/l/mine", b"", lease.id), Put("/l/other", b""))))
    assert leases.keep_alive(lease.id).seconds == 30
    leases.revoke(lease.id)
    assert [one.key for one in await etcd.read("/l/")] == ["/l/other"]
    assert leases.keep_alive(lease.id).seconds == 0
    await etcd.close()


async def test_the_next_endpoint_is_asked_if_one_does_not_answer(server: EtcdCluster) -> None:
    endpoints = ("127.0.0.1:1", *parse_endpoints(server.url))
    etcd = EtcdClient(EtcdAddress(endpoints=endpoints), 10.0)
    assert await etcd.commit(Transaction(puts=(Put("/n/a", b""),)))
    await etcd.close()


async def test_the_error_names_every_endpoint_that_does_not_answer() -> None:
    etcd = EtcdClient(EtcdAddress(endpoints=("127.0.0.1:1", "127.0.0.1:2")), 10.0)
    with pytest.raises(EtcdAway, match=r"127\.0\.0\.1:1: .*; 127\.0\.0\.1:2: "):
        await etcd.read("/")
    await etcd.close()
