"""Servers of one process with access control: nothing is set up among them, and nobody else gets in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pyromq import AccessDenied, LitePullConsumer, Message, Producer, PushConsumer
from pyromq.access.one_process import InnerAccount
from pyromq.admin import AdminClient
from pyromq.testing import LocalCluster, eventually
from tests.access.accounts_text import ADMIN, FORGED, MINE, MY_GROUP, NOBODY, SHOP, write_accounts


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A master with a slave, and its name server, all guarded."""
    home = tmp_path_factory.mktemp("guarded")
    write_accounts(home)
    with LocalCluster(slaves=1, data=home, settings={"aclEnable": True}) as one:
        yield one


async def test_accounts_send_consume_and_administer(cluster: LocalCluster) -> None:
    got: list[bytes] = []
    async with (
        Producer("shop", cluster.namesrv, credentials=SHOP) as producer,
        PushConsumer(
            MY_GROUP,
            cluster.namesrv,
            {MINE: "*"},
            listener=lambda message: got.append(message.body),
            start_from="earliest",
            credentials=SHOP,
        ),
    ):
        for number in range(5):
            await producer.send(Message(topic=MINE, body=b"%d" % number))
        await eventually(lambda: len(got) == 5, "all came")
    async with AdminClient(cluster.namesrv, credentials=ADMIN) as admin:
        assert (await admin.topics.describe(MINE)).queues
        assert MY_GROUP in {group.group for group in (await admin.groups.list()).groups}


async def test_the_slave_follows_its_master(cluster: LocalCluster) -> None:
    async with Producer("shop", cluster.namesrv, credentials=SHOP) as producer:
        await producer.send(Message(topic=MINE, body=b"x"))
    slave, master = cluster.slaves[0].server, cluster.brokers[0].server
    assert slave is not None
    assert master is not None
    await eventually(lambda: slave.store.max_physical_offset == master.store.max_physical_offset, "it has the log")
    await eventually(lambda: slave.topics.get(MINE), "it has the tables")


@pytest.mark.parametrize("account", [None, FORGED, NOBODY], ids=["nobody", "forged", "no right"])
async def test_others_are_refused_in_one_clear_line(cluster: LocalCluster, account: object) -> None:
    with pytest.raises(AccessDenied, match="access denied"):
        async with Producer("shop", cluster.namesrv, credentials=account) as producer:  # type: ignore[arg-type]
            await producer.send(Message(topic=MINE, body=b"x"))


async def test_a_consumer_without_the_right_says_so(cluster: LocalCluster) -> None:
    async with Producer("shop", cluster.namesrv, credentials=SHOP) as producer:
        await producer.send(Message(topic=MINE, body=b"x"))  # creates the topic
    with pytest.raises(AccessDenied) as caught:
        await LitePullConsumer("another", cluster.namesrv, {MINE: "*"}, credentials=SHOP).start()
    assert str(caught.value) == "access denied: account 'test-shop' has no SUB right on group 'another'"


def test_the_inner_account_is_new_each_time_and_shows_no_secret() -> None:
    one, other = InnerAccount(), InnerAccount()
    assert one.credentials.secret_key != other.credentials.secret_key
    assert one.credentials.secret_key not in repr(one.credentials)


def test_a_cluster_without_a_file_of_accounts_serves_nobody_else(tmp_path: Path) -> None:
    with LocalCluster(data=tmp_path, settings={"aclEnable": True}) as cluster:
        server = cluster.brokers[0].server
        assert server is not None
        assert server.service.registered_at == [cluster.namesrv]
