"""Topics, groups and committed offsets go with the log."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from random import Random

import pytest

from pyromq import Message, MessageQueue
from pyromq.blocking import Producer
from pyromq.broker.replication.tables.own_commits import OWN_COMMITS_NAME
from pyromq.broker.replication.tables.table_copy import TableCopy
from pyromq.broker.tables.reset_ids import NEVER
from pyromq.broker.tables.topic_table import topic_config
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.errors import DiskFull
from pyromq.protocol.bodies import KVTable, SubscriptionGroupConfig, encode
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import RemotingCommand, request, response
from pyromq.protocol.headers.admin import DeleteTopicInBrokerRequestHeader
from pyromq.protocol.headers.offsets import UpdateConsumerOffsetRequestHeader
from pyromq.remoting.client import RemotingClient
from pyromq.remoting.connection import Connection
from pyromq.remoting.requests import Handler
from pyromq.remoting.server import RemotingServer
from pyromq.store.retention.retention import DiskLevel
from pyromq.testing import LocalCluster, TestClock, eventually, wait_until
from tests.broker.conftest import Connect, StartBroker
from tests.broker.replication.test_replication import same_logs, send, server


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[LocalCluster]:
    with LocalCluster(slaves=1, data=tmp_path) as cluster:
        send(cluster, b"one")
        wait_until(lambda: same_logs(cluster))
        wait_until(lambda: "orders" in server(cluster.slaves[0]).topics.by_name)
        yield cluster


def on_loop(cluster: LocalCluster, work: Callable[[], object]) -> None:
    async def run() -> None:
        work()

    cluster._portal.call(run())


def test_a_slave_knows_the_topics_and_groups_of_its_master(pair: LocalCluster) -> None:
    master, slave = server(pair.brokers[0]), server(pair.slaves[0])
    on_loop(pair, lambda: master.topics.update(topic_config("paid", 3)))
    on_loop(pair, lambda: master.groups.update(SubscriptionGroupConfig(group_name="billing", retry_max_times=2)))
    wait_until(lambda: (topic := slave.topics.get("paid")) is not None and topic.read_queues == 3)
    wait_until(lambda: "billing" in slave.groups.by_name)
    assert slave.groups.by_name["billing"].retry_max_times == 2
    assert slave.topics.version == master.topics.version


def test_a_topic_that_is_deleted_is_deleted_at_the_slave(pair: LocalCluster) -> None:
    slave = server(pair.slaves[0])
    on_loop(pair, lambda: server(pair.brokers[0]).groups.delete("billing"))
    _delete_topic(pair, "orders")
    wait_until(lambda: "orders" not in slave.topics.by_name)
    assert slave.store.queue_ids("orders") == []
    send(pair, b"two", b"three")
    wait_until(lambda: same_logs(pair))
    wait_until(lambda: _count(pair, "orders") == 2)


def test_committed_offsets_follow_also_back(pair: LocalCluster) -> None:
    master, slave = server(pair.brokers[0]), server(pair.slaves[0])
    on_loop(pair, lambda: master.offsets.commit("billing", "orders", 0, 7, "test"))
    wait_until(lambda: slave.offsets.get("billing", "orders", 0) == 7)
    on_loop(pair, lambda: master.offsets.commit("billing", "orders", 0, 2, "test"))
    wait_until(lambda: slave.offsets.get("billing", "orders", 0) == 2)


def test_what_was_committed_at_the_slave_meanwhile_counts_if_it_is_greater(pair: LocalCluster) -> None:
    with Producer("shop", pair.namesrv, clock=pair.clock) as producer:
        for _ in range(10):
            producer.send(Message("orders", b"x"), queue=MessageQueue("orders", "broker-a", 0))
    master, slave = server(pair.brokers[0]), server(pair.slaves[0])
    on_loop(pair, lambda: master.offsets.commit("billing", "orders", 0, 5, "test"))
    on_loop(pair, lambda: master.offsets.commit("audit", "orders", 0, 5, "test"))
    wait_until(lambda: slave.offsets.get("audit", "orders", 0) == 5)
    pair.stop_broker(0)
    on_loop(pair, lambda: slave.offsets.commit("billing", "orders", 0, 9, "test"))
    pair.start_broker(0)
    master = server(pair.brokers[0])
    wait_until(lambda: master.offsets.get("billing", "orders", 0) == 9)
    assert master.offsets.get("audit", "orders", 0) == 5
    assert slave.offsets.get("billing", "orders", 0) == 9


@pytest.mark.parametrize("kill", [False, True])
def test_it_counts_also_if_the_slave_is_restarted_before_its_master_returns(pair: LocalCluster, *, kill: bool) -> None:
    _send_to_queue_0(pair, 10)
    master, slave = pair.brokers[0], pair.slaves[0]
    for group in ("billing", "reset"):
        on_loop(pair, lambda group=group: server(master).offsets.commit(group, "orders", 0, 5, "test"))  # type: ignore[misc]
    wait_until(lambda: server(slave).offsets.get("reset", "orders", 0) == 5)
    pair.stop_broker(0)
    on_loop(pair, lambda: server(slave).offsets.commit("billing", "orders", 0, 9, "test"))
    if kill:
        path = slave.store_path / OWN_COMMITS_NAME
        wait_until(lambda: path.exists() and b"billing" in path.read_bytes())
        on_loop(pair, server(slave).offsets.save_if_changed)
        assert pair._portal.call(server(slave).offsets.saver.finish())
        pair.kill(slave)
    else:
        pair.stop_broker(slave)
    pair.start_broker(slave)
    assert server(slave).offsets.get("billing", "orders", 0) == 9
    pair.start_broker(0)
    wait_until(lambda: server(master).offsets.get("billing", "orders", 0) == 9)
    on_loop(pair, lambda: server(master).offsets.commit("billing", "orders", 0, 2, "test"))
    wait_until(lambda: server(slave).offsets.get("billing", "orders", 0) == 2)
    assert server(slave).offsets.get("reset", "orders", 0) == 5


def test_commits_count_however_long_the_slave_was_away(pair: LocalCluster) -> None:
    _send_to_queue_0(pair, 10)
    master, slave = pair.brokers[0], pair.slaves[0]
    on_loop(pair, lambda: server(master).offsets.commit("billing", "orders", 0, 5, "test"))
    wait_until(lambda: server(slave).offsets.get("billing", "orders", 0) == 5)
    pair.stop_broker(0)
    on_loop(pair, lambda: server(slave).offsets.commit("billing", "orders", 0, 9, "test"))
    pair.stop_broker(slave)
    pair.clock.advance(hours=2)
    pair.start_broker(0)
    pair.start_broker(slave)
    wait_until(lambda: server(master).offsets.get("billing", "orders", 0) == 9)


def test_a_reset_counts_though_the_master_is_restarted_before_it_meets_its_slave(pair: LocalCluster) -> None:
    _send_to_queue_0(pair, 10)
    master, slave = pair.brokers[0], pair.slaves[0]
    for group in ("billing", "audit"):
        on_loop(pair, lambda group=group: server(master).offsets.commit(group, "orders", 0, 5, "test"))  # type: ignore[misc]
    wait_until(lambda: server(slave).offsets.get("audit", "orders", 0) == 5)
    pair.stop_broker(0)
    for group in ("billing", "audit"):
        on_loop(pair, lambda group=group: server(slave).offsets.commit(group, "orders", 0, 9, "test"))  # type: ignore[misc]
    pair.stop_broker(slave)
    pair.start_broker(0)
    on_loop(pair, lambda: server(master).offsets.commit("billing", "orders", 0, 2, "test"))
    pair.stop_broker(0)
    pair.start_broker(0)
    pair.start_broker(slave)
    wait_until(lambda: server(master).offsets.get("audit", "orders", 0) == 9)
    wait_until(lambda: server(slave).offsets.get("billing", "orders", 0) == 2)
    assert server(master).offsets.get("billing", "orders", 0) == 2


def test_what_clients_commit_at_a_slave_that_follows_reaches_its_master(pair: LocalCluster) -> None:
    """A client may reach the slave only."""
    _send_to_queue_0(pair, 10)
    master, slave = server(pair.brokers[0]), server(pair.slaves[0])
    on_loop(pair, lambda: master.offsets.commit("billing", "orders", 0, 2, "test"))
    wait_until(lambda: slave.offsets.get("billing", "orders", 0) == 2)
    on_loop(pair, lambda: slave.offsets.commit("billing", "orders", 0, 9, "test"))
    wait_until(lambda: master.offsets.get("billing", "orders", 0) == 9)
    on_loop(pair, lambda: master.offsets.commit("billing", "orders", 0, 1, "test"))
    wait_until(lambda: slave.offsets.get("billing", "orders", 0) == 1)
    on_loop(pair, lambda: slave.offsets.commit("billing", "orders", 0, 4, "test"))
    wait_until(lambda: master.offsets.get("billing", "orders", 0) == 4)


def test_what_a_slave_passes_on_does_not_undo_a_reset_of_which_it_has_not_heard(pair: LocalCluster) -> None:
    _send_to_queue_0(pair, 10)
    master = server(pair.brokers[0])
    on_loop(pair, lambda: master.offsets.commit("billing", "orders", 0, 5, "test"))
    on_loop(pair, lambda: master.offsets.commit("billing", "orders", 0, 2, "test"))
    last = master.offsets.resets.of("orders@billing")
    for reset, found in ((NEVER, 2), (last, 9)):
        header = UpdateConsumerOffsetRequestHeader(
            consumer_group="billing",
            topic="orders",
            queue_id=0,
            commit_offset=9,
            pyromq_forward=True,
            pyromq_last_reset=reset,
        )

        async def pass_on(header: UpdateConsumerOffsetRequestHeader = header) -> RemotingCommand:
            async with RemotingClient(pair.clock) as remoting:
                command = request(RequestCode.UPDATE_CONSUMER_OFFSET, header)
                return await remoting.request(pair.brokers[0].address, command, 30.0)

        pair._portal.call(pass_on())
        assert master.offsets.get("billing", "orders", 0) == found


def test_a_reset_while_the_slave_was_away_is_not_undone(pair: LocalCluster) -> None:
    master, slave = server(pair.brokers[0]), server(pair.slaves[0])
    on_loop(pair, lambda: master.offsets.commit("billing", "orders", 0, 5, "test"))
    wait_until(lambda: slave.offsets.get("billing", "orders", 0) == 5)
    pair.stop_broker(pair.slaves[0])
    on_loop(pair, lambda: master.offsets.commit("billing", "orders", 0, 1, "test"))
    pair.start_broker(pair.slaves[0])
    wait_until(lambda: server(pair.slaves[0]).offsets.get("billing", "orders", 0) == 1)
    assert master.offsets.get("billing", "orders", 0) == 1


def test_a_promoted_slave_goes_on_with_delays_offsets_and_topics(pair: LocalCluster) -> None:
    master, slave = pair.brokers[0], pair.slaves[0]
    _send_to_queue_0(pair, 1)
    on_loop(pair, lambda: server(master).offsets.commit("billing", "orders", 0, 1, "test"))
    _send_delayed(pair, b"later")
    wait_until(lambda: same_logs(pair))
    wait_until(lambda: server(slave).offsets.get("billing", "orders", 0) == 1)
    pair.stop_broker(master)
    pair.promote(slave)
    pair.clock.advance(seconds=40)
    wait_until(lambda: server(slave).http_info()["timed_messages_delivered"] == 1)
    assert server(slave).offsets.get("billing", "orders", 0) == 1


def test_a_promoted_slave_takes_what_administrators_change(pair: LocalCluster) -> None:
    slave = pair.slaves[0]
    pair.stop_broker(pair.brokers[0])
    pair.promote(slave)

    async def create() -> None:
        async with await BrokerApi.connect(pair.namesrv, clock=pair.clock) as api:
            await api.create_topic(slave.address, "refunds", 3)

    pair._portal.call(create())
    assert server(slave).topics.get("refunds") is not None


def _send_delayed(cluster: LocalCluster, body: bytes) -> None:
    with Producer("shop", cluster.namesrv, clock=cluster.clock) as producer:
        producer.send(Message("orders", body), delay=timedelta(seconds=30))


def _delete_topic(cluster: LocalCluster, topic: str) -> None:
    async def ask() -> None:
        async with RemotingClient(cluster.clock) as remoting:
            command = request(RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicInBrokerRequestHeader(topic=topic))
            answer = await remoting.request(cluster.brokers[0].address, command)
            assert answer.code == 0

    cluster._portal.call(ask())


def _count(cluster: LocalCluster, topic: str) -> int:
    store = server(cluster.slaves[0]).store
    return sum(store.max_offset(topic, queue) for queue in store.queue_ids(topic))


# --- masters that return


def test_a_master_that_returns_takes_no_group_back(pair: LocalCluster) -> None:
    _send_to_queue_0(pair, 10)
    master, slave = pair.brokers[0], pair.slaves[0]
    on_loop(pair, lambda: server(master).offsets.commit("billing", "orders", 0, 5, "test"))
    wait_until(lambda: server(slave).offsets.get("billing", "orders", 0) == 5)
    pair.stop_broker(master)
    pair.promote(slave)
    on_loop(pair, lambda: server(slave).offsets.commit("billing", "orders", 0, 9, "test"))
    master.is_slave = True
    pair.start_broker(master)
    wait_until(lambda: server(master).offsets.get("billing", "orders", 0) == 9)
    assert server(slave).offsets.get("billing", "orders", 0) == 9


def test_what_a_master_took_last_counts_when_it_is_demoted_and_no_reset_is_undone(pair: LocalCluster) -> None:
    _send_to_queue_0(pair, 10)
    master, slave = pair.brokers[0], pair.slaves[0]
    for group in ("billing", "audit", "reset"):
        on_loop(pair, lambda group=group: server(master).offsets.commit(group, "orders", 0, 5, "test"))  # type: ignore[misc]
    wait_until(lambda: server(slave).offsets.get("reset", "orders", 0) == 5)
    pair.promote(slave)  # while the old one does not know it yet
    on_loop(pair, lambda: server(master).offsets.commit("billing", "orders", 0, 8, "test"))
    on_loop(pair, lambda: server(master).offsets.commit("audit", "orders", 0, 6, "test"))
    on_loop(pair, lambda: server(master).offsets.commit("reset", "orders", 0, 8, "test"))
    on_loop(pair, lambda: server(slave).offsets.commit("audit", "orders", 0, 9, "test"))
    on_loop(pair, lambda: server(slave).offsets.commit("reset", "orders", 0, 1, "test"))
    pair.demote(master)
    wait_until(lambda: server(slave).offsets.get("billing", "orders", 0) == 8)
    wait_until(lambda: server(master).offsets.get("audit", "orders", 0) == 9)
    for broker in (master, slave):
        assert [server(broker).offsets.get(group, "orders", 0) for group in ("billing", "audit", "reset")] == [8, 9, 1]


def test_offsets_of_a_group_that_was_deleted_meanwhile_do_not_come_back(pair: LocalCluster) -> None:
    master, slave = pair.brokers[0], pair.slaves[0]
    on_loop(pair, lambda: server(master).offsets.commit("billing", "orders", 0, 1, "test"))
    wait_until(lambda: server(slave).offsets.get("billing", "orders", 0) == 1)
    pair.promote(slave)
    on_loop(pair, lambda: server(slave).offsets.remove_group("billing"))
    pair.demote(master)
    wait_until(lambda: server(slave).service.parts.followers.are_there)
    wait_until(lambda: server(master).offsets.get("billing", "orders", 0) is None)
    assert server(slave).offsets.get("billing", "orders", 0) is None


def test_a_topic_that_was_deleted_and_made_again_while_the_slave_was_away_has_the_same_queues(
    pair: LocalCluster,
) -> None:
    pair.stop_broker(pair.slaves[0])
    _delete_topic(pair, "orders")
    _send_to_queue_0(pair, 2)
    pair.start_broker(pair.slaves[0])
    wait_until(lambda: same_logs(pair))
    wait_until(lambda: _count(pair, "orders") == 2)
    assert server(pair.slaves[0]).store.max_offset("orders", 0) == 2


def test_a_topic_that_was_deleted_while_the_slave_was_away_is_deleted_there(pair: LocalCluster) -> None:
    pair.stop_broker(pair.slaves[0])
    _delete_topic(pair, "orders")
    pair.start_broker(pair.slaves[0])
    wait_until(lambda: "orders" not in server(pair.slaves[0]).topics.by_name)
    wait_until(lambda: server(pair.slaves[0]).store.queue_ids("orders") == [])
    pair.stop_broker(pair.brokers[0])
    pair.promote(pair.slaves[0])
    assert "orders" not in server(pair.slaves[0]).topics.by_name


# --- retention


def test_a_slave_deletes_what_its_master_has_deleted_and_on_a_full_disk_all_that_a_master_would(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"mappedFileSizeCommitLog": 1 << 16, "maxMessageSize": 30_000}
    with LocalCluster(slaves=1, data=tmp_path, settings=settings) as cluster:
        send(cluster, *(Random(number).randbytes(20_000) for number in range(12)))
        wait_until(lambda: same_logs(cluster))
        master, slave = server(cluster.brokers[0]).store, server(cluster.slaves[0]).store
        retention = slave.cleaner.retention
        monkeypatch.setattr(retention, "check_disk", lambda: None)
        monkeypatch.setattr(retention, "log_start", lambda log, durable_end: 3 << 16)  # so much has expired
        on_loop(cluster, slave.cleaner.run)
        assert slave.min_physical_offset == 0
        on_loop(cluster, lambda: master.cleaner.drop_log_before(1 << 16))
        wait_until(lambda: server(cluster.slaves[0])._follower._tables.free_to(3 << 16) == 1 << 16)
        on_loop(cluster, slave.cleaner.run)
        assert slave.min_physical_offset == 1 << 16
        cluster.stop_broker(cluster.brokers[0])
        on_loop(cluster, slave.cleaner.run)
        assert slave.min_physical_offset == 1 << 16
        retention.level = DiskLevel.ALL_FILES_GO
        on_loop(cluster, slave.cleaner.run)
        assert slave.min_physical_offset == 3 << 16


def test_a_slave_without_room_says_so_and_goes_on_when_there_is_room(
    pair: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    slave = server(pair.slaves[0])

    def refuse(physical_offset: int, data: bytes) -> None:
        raise DiskFull("no space left")

    with monkeypatch.context() as patched:
        patched.setattr(slave.store, "append_raw", refuse)
        send(pair, b"two")
        wait_until(lambda: "no space left" in slave._follower.problem)
    wait_until(lambda: same_logs(pair))


# --- a promotion


def test_a_promoted_slave_knows_every_topic_of_its_log(pair: LocalCluster) -> None:
    slave = server(pair.slaves[0])
    on_loop(pair, lambda: slave.topics.adopt({}, ["orders"], slave.topics.version))  # as if its row had never arrived
    pair.stop_broker(pair.brokers[0])
    pair.promote(pair.slaves[0])
    assert "orders" in slave.topics.by_name


def test_a_group_that_was_ahead_of_the_copied_log_begins_at_its_end(pair: LocalCluster) -> None:
    slave = server(pair.slaves[0])
    on_loop(pair, lambda: slave.offsets.adopt({"orders@billing": {0: 50}}, ()))
    pair.stop_broker(pair.brokers[0])
    pair.promote(pair.slaves[0])
    assert slave.offsets.get("billing", "orders", 0) == slave.store.max_offset("orders", 0)


def _send_to_queue_0(cluster: LocalCluster, count: int) -> None:
    with Producer("shop", cluster.namesrv, clock=cluster.clock) as producer:
        for _ in range(count):
            producer.send(Message("orders", b"x"), queue=MessageQueue("orders", "broker-a", 0))


# --- Apache's master


class FakeMaster:
    """Answers what a master of Apache's answers its slaves."""

    def __init__(self) -> None:
        self.log_end = 0
        self.delays: bytes | None = b'{"offsetTable":{1:7,3:2}}'
        self.handlers: dict[int, Handler] = {
            RequestCode.GET_ALL_TOPIC_CONFIG: lambda command, _: response(
                command, body=b'{"dataVersion":{"counter":1,"timestamp":1},"topicConfigTable":{}}'
            ),
            RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: lambda command, _: response(
                command, body=b'{"dataVersion":{"counter":1,"timestamp":1},"subscriptionGroupTable":{}}'
            ),
            RequestCode.GET_ALL_CONSUMER_OFFSET: lambda command, _: response(
                command, body=b'{"offsetTable":{"orders@billing":{0:5},"%s@%s":{0:3}}}' % (HALVES, TRANSACTIONS)
            ),
            RequestCode.GET_ALL_DELAY_OFFSET: self._delays,
            RequestCode.GET_BROKER_RUNTIME_INFO: self._runtime,
        }

    def _delays(self, command: RemotingCommand, connection: Connection) -> RemotingCommand:
        return response(command, 1) if self.delays is None else response(command, body=self.delays)

    def _runtime(self, command: RemotingCommand, connection: Connection) -> RemotingCommand:
        table = {"commitLogMinOffset": "0", "commitLogMaxOffset": str(self.log_end)}
        return response(command, body=encode(KVTable(table=table)))


HALVES, TRANSACTIONS = b"RMQ_SYS_TRANS_HALF_TOPIC", b"CID_RMQ_SYS_TRANS"


@pytest.mark.parametrize("has_delays", [True, False])
async def test_a_slave_asks_a_master_of_apaches_for_delay_levels_too(
    start_broker: StartBroker, connect: Connect, clock: TestClock, has_delays: bool
) -> None:
    slave = await start_broker()
    await (await connect(slave)).send("orders")
    slave.store.flush()
    parts, fake = slave.service.parts, FakeMaster()
    fake.log_end = slave.store.max_physical_offset + 1
    if not has_delays:
        fake.delays = None
    async with RemotingServer(fake.handlers, host="127.0.0.1", port=0, clock=clock) as server:
        copy = TableCopy(parts, slave.store, slave.service.remoting)
        following = asyncio.create_task(copy.follow(f"127.0.0.1:{server.port}", is_ours=False))
        await eventually(lambda: parts.offsets.get("billing", "orders", 0) == 5)
        assert parts.tables.delays.saved.offsets == {}  # the log here lacks a byte of what it counts
        assert parts.offsets.get(TRANSACTIONS.decode(), HALVES.decode(), 0) is None
        fake.log_end -= 1
        await (await connect(slave)).send("orders")
        slave.store.flush()
        await clock.advance_async(seconds=6)
        await eventually(lambda: parts.offsets.get(TRANSACTIONS.decode(), HALVES.decode(), 0) == 3)
        assert parts.tables.delays.saved.offsets == ({1: 7, 3: 2} if has_delays else {})
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
