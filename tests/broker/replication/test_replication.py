"""A master and its slave, as real brokers over real sockets."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from pyromq import Message, SendStatus
from pyromq.blocking import Producer
from pyromq.broker.replication.last_run import LAST_RUN_NAME, LastRun
from pyromq.broker.server import Broker
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import RemotingCommand, request
from pyromq.protocol.headers import Header
from pyromq.protocol.headers.offsets import GetMaxOffsetRequestHeader
from pyromq.remoting.client import RemotingClient
from pyromq.store.config import StoreConfig
from pyromq.store.files import OsFiles
from pyromq.store.message_store import MessageStore
from pyromq.store.small_files.sealed_file import replace_sealed
from pyromq.testing import LocalCluster, eventually, wait_until
from pyromq.testing.cluster import LocalBroker
from tests.broker.helpers import pull_header
from tests.store.helpers import message


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[LocalCluster]:
    with LocalCluster(slaves=1, data=tmp_path) as cluster:
        yield cluster


def server(broker: LocalBroker) -> Broker:
    assert broker.server is not None
    return broker.server


def log_of(broker: LocalBroker) -> bytes:
    log = server(broker).store.copied_log
    data, position = b"", log.start
    while position < log.end:
        block = log.read(position, 1 << 20)
        data, position = data + block, position + len(block)
    return data


def send(cluster: LocalCluster, *bodies: bytes, topic: str = "orders") -> None:
    with Producer("shop", cluster.namesrv, clock=cluster.clock) as producer:
        for body in bodies:
            producer.send(Message(topic, body))


def same_logs(cluster: LocalCluster) -> bool:
    one, other = cluster.brokers[0], cluster.slaves[0]
    return bool(server(one).store.max_physical_offset) and log_of(one) == log_of(other)


def test_a_slave_gets_the_log_byte_for_byte(pair: LocalCluster) -> None:
    send(pair, b"one", b"two", b"three")
    wait_until(lambda: same_logs(pair))
    store = server(pair.slaves[0]).store
    assert sum(store.max_offset("orders", queue) for queue in store.queue_ids("orders")) == 3


def test_a_slave_that_was_away_goes_on_where_it_stopped(pair: LocalCluster) -> None:
    send(pair, b"one")
    wait_until(lambda: same_logs(pair))
    pair.stop_broker(pair.slaves[0])
    send(pair, b"two", b"three")
    pair.start_broker(pair.slaves[0])
    wait_until(lambda: same_logs(pair))


def test_an_empty_slave_gets_every_file_of_the_log(tmp_path: Path) -> None:
    settings = {"mappedFileSizeCommitLog": 1 << 16, "maxMessageSize": 30_000}
    with LocalCluster(slaves=1, data=tmp_path, settings=settings) as cluster:
        cluster.stop_broker(cluster.slaves[0])
        send(cluster, *(Random(number).randbytes(20_000) for number in range(12)))
        assert server(cluster.brokers[0]).store.max_physical_offset > 3 << 16
        shutil.rmtree(cluster.slaves[0].store_path)
        cluster.start_broker(cluster.slaves[0])
        wait_until(lambda: same_logs(cluster))


def test_an_empty_slave_begins_where_a_log_begins_whose_first_files_have_expired(tmp_path: Path) -> None:
    settings = {"mappedFileSizeCommitLog": 1 << 16, "maxMessageSize": 30_000}
    with LocalCluster(slaves=1, data=tmp_path, settings=settings) as cluster:
        cluster.stop_broker(cluster.slaves[0])
        send(cluster, *(Random(number).randbytes(20_000) for number in range(12)))
        expire(cluster, 2 << 16)
        shutil.rmtree(cluster.slaves[0].store_path)
        cluster.start_broker(cluster.slaves[0])
        wait_until(lambda: same_logs(cluster))
        assert server(cluster.slaves[0]).store.min_physical_offset == 2 << 16


def test_a_slave_that_fell_behind_the_masters_first_file_begins_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = {"mappedFileSizeCommitLog": 1 << 16, "maxMessageSize": 30_000}
    with LocalCluster(slaves=1, data=tmp_path, settings=settings) as cluster:
        send(cluster, b"one")
        wait_until(lambda: same_logs(cluster))
        cluster.stop_broker(cluster.slaves[0])
        send(cluster, *(Random(number).randbytes(20_000) for number in range(12)))
        expire(cluster, 2 << 16)
        cluster.start_broker(cluster.slaves[0])
        wait_until(lambda: same_logs(cluster))
        assert "this slave begins anew" in caplog.text
        store = server(cluster.slaves[0]).store
        master = server(cluster.brokers[0]).store
        for queue in master.queue_ids("orders"):
            assert store.max_offset("orders", queue) == master.max_offset("orders", queue)
            assert store.min_offset("orders", queue) == master.min_offset("orders", queue)


@pytest.mark.parametrize(
    ("lost", "new"),
    [([b"lost", b"lost too", b"and lost"], [b"two"]), ([b"lost"], [b"two", b"three", b"four"])],
    ids=["longer", "shorter"],
)
def test_an_old_master_with_a_tail_of_its_own_is_cut(
    pair: LocalCluster, lost: list[bytes], new: list[bytes], caplog: pytest.LogCaptureFixture
) -> None:
    """Its tail was never replicated, and is longer or shorter than what the new master has written since."""
    _, master = _return_with_tail(pair, lost, new)
    pair.start_broker(master)
    wait_until(lambda: same_logs(pair))
    assert "cut off what the master never had" in caplog.text
    assert b"lost" not in log_of(master)
    assert list((master.store_path / "quarantine").iterdir())


def test_an_old_master_shows_nothing_before_it_has_met_the_new_one(tmp_path: Path) -> None:
    with LocalCluster(slaves=1, data=tmp_path, settings={"defaultTopicQueueNums": 1}) as pair:
        slave, master = _return_with_tail(pair, [b"lost"], [b"two", b"three"])
        pair.stop_broker(slave)
        pair.start_broker(master)
        for code, header in (
            (RequestCode.PULL_MESSAGE, pull_header(queue_offset=1)),
            (RequestCode.GET_MAX_OFFSET, GetMaxOffsetRequestHeader(topic="orders", queue_id=0)),
        ):
            assert _ask(pair, master, code, header).code == ResponseCode.SERVICE_NOT_AVAILABLE
        pair.start_broker(slave)
        seen: list[RemotingCommand] = []

        def is_served() -> bool:
            seen.append(_ask(pair, master, RequestCode.PULL_MESSAGE, pull_header(queue_offset=1)))
            return b"three" in seen[-1].body

        wait_until(is_served)
        assert not any(b"lost" in answer.body for answer in seen)


def test_a_demoted_master_with_a_tail_shows_nothing_before_it_has_met_the_new_one(tmp_path: Path) -> None:
    with LocalCluster(slaves=1, data=tmp_path, settings={"defaultTopicQueueNums": 1}) as pair:
        send(pair, b"one")
        wait_until(lambda: same_logs(pair))
        master, slave = pair.brokers[0], pair.slaves[0]
        pair.stop_broker(slave)
        wait_until(lambda: not server(master)._ha.links)
        send(pair, b"lost")
        pair.demote(master)
        pull = pull_header(queue_offset=1)
        assert _ask(pair, master, RequestCode.PULL_MESSAGE, pull).code == ResponseCode.SERVICE_NOT_AVAILABLE
        pair.promote(master)
        assert b"lost" in _ask(pair, master, RequestCode.PULL_MESSAGE, pull).body


def test_a_demoted_master_whose_slave_has_everything_goes_on_serving(tmp_path: Path) -> None:
    with LocalCluster(slaves=1, data=tmp_path, settings={"defaultTopicQueueNums": 1}) as pair:
        send(pair, b"one")
        master = pair.brokers[0]
        wait_until(lambda: server(master)._ha.same_logs(server(master).store.max_physical_offset))
        pair.demote(master)
        assert b"one" in _ask(pair, master, RequestCode.PULL_MESSAGE, pull_header()).body


def test_a_slave_that_lost_something_has_lost_nothing_once_it_has_caught_up(pair: LocalCluster) -> None:
    send(pair, b"one")
    wait_until(lambda: same_logs(pair))
    slave = pair.slaves[0]
    pair.stop_broker(slave)
    path = str(slave.store_path / LAST_RUN_NAME)
    replace_sealed(OsFiles(), path, {"boot": "an earlier one", "lost": True})
    pair.start_broker(slave)
    wait_until(lambda: server(slave)._follower.has_caught_up)
    pair.stop_broker(slave)
    after = LastRun(slave.store_path)
    after.load()
    assert after.is_intact(sync_flush=False)


def test_a_log_that_a_stranger_extended_is_no_copy_any_more(
    pair: LocalCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """Apache's broker knows no epochs: what it adds must not pass for part of the epoch before."""
    send(pair, b"one")
    wait_until(lambda: same_logs(pair))
    slave, master = pair.slaves[0], pair.brokers[0]
    store_id = server(slave).history.epochs.store_id
    pair.stop_broker(slave)
    with MessageStore(StoreConfig(root=slave.store_path), lambda: 1_700_000_000_000) as store:
        common = store.max_physical_offset
        store.put(message(body=b"a stranger's"))
        store.commit()
    send(pair, b"two, which is no longer than what the stranger wrote", b"three")
    pair.start_broker(slave)
    wait_until(lambda: same_logs(pair))
    assert f"another program has written the log from={common}" in caplog.text
    assert b"stranger's" not in log_of(slave)
    assert server(slave).history.epochs.store_id != store_id
    assert server(slave).history.epochs.epochs == server(master).history.epochs.epochs


def test_a_slave_of_another_file_size_is_refused_with_both_numbers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with LocalCluster(slaves=1, data=tmp_path) as cluster:
        send(cluster, b"one")
        cluster.stop_broker(cluster.slaves[0])
        shutil.rmtree(cluster.slaves[0].store_path)
        cluster._settings = {"mappedFileSizeCommitLog": "65536"}
        cluster.start_broker(cluster.slaves[0])
        wait_until(lambda: "mappedFileSizeCommitLog is 1073741824 at the master and 65536 here" in caplog.text)


def test_a_secret_is_known_or_not(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with LocalCluster(slaves=1, data=tmp_path, settings={"haSecret": "a"}) as cluster:
        send(cluster, b"one")
        wait_until(lambda: same_logs(cluster))
        cluster.stop_broker(cluster.slaves[0])
        cluster._settings = {"haSecret": "b"}
        cluster.start_broker(cluster.slaves[0])
        wait_until(lambda: "it does not know haSecret" in caplog.text)


def test_a_slave_with_sync_flush_confirms_only_what_is_on_its_disk(tmp_path: Path) -> None:
    settings = {"flushDiskType": "SYNC_FLUSH", "brokerRole": "SYNC_MASTER"}
    with LocalCluster(slaves=1, data=tmp_path, settings=settings) as cluster:
        wait_until(lambda: server(cluster.brokers[0])._ha.links)
        wait_until(lambda: next(iter(server(cluster.brokers[0])._ha.links)).position is not None)
        with Producer("shop", cluster.namesrv, clock=cluster.clock) as producer:
            result = producer.send(Message("orders", b"one"))
        assert result.status is SendStatus.SEND_OK
        slave = server(cluster.slaves[0]).store
        assert slave.flushed_offset == server(cluster.brokers[0]).store.max_physical_offset


def test_a_slave_with_sync_flush_that_connects_again_reports_only_what_is_on_its_disk(tmp_path: Path) -> None:
    """The connection ended when the last bytes were written, and not flushed."""
    settings = {"flushDiskType": "SYNC_FLUSH", "brokerRole": "SYNC_MASTER"}
    with LocalCluster(slaves=1, data=tmp_path, settings=settings) as cluster:
        send(cluster, b"one")
        wait_until(lambda: same_logs(cluster))
        master, slave = server(cluster.brokers[0]), server(cluster.slaves[0]).store
        flushing = threading.Event()
        flush = slave.flush

        def note(*, if_quick: bool = False) -> bool:
            if not if_quick:  # as it does when it connects, and not when it commits
                flushing.set()
            return flush(if_quick=if_quick)

        slave.flush = note  # type: ignore[method-assign]

        async def send_and_let_go() -> None:
            master.store.put(message(body=b"two"))
            master.store.commit()
            await eventually(lambda: slave.max_physical_offset == master.store.max_physical_offset)
            master._ha.let_go()

        with slave.flusher.held():
            cluster._portal.call(send_and_let_go())
            end = master.store.max_physical_offset
            wait_until(lambda: flushing.is_set() or any(link.acknowledged >= end for link in master._ha.links))
            assert not any(link.acknowledged >= end for link in master._ha.links)
        wait_until(lambda: any(link.acknowledged >= end for link in master._ha.links))


def test_a_slave_that_has_all_has_caught_up_as_soon_as_it_follows(pair: LocalCluster) -> None:
    send(pair, b"one")
    wait_until(lambda: same_logs(pair))
    slave = pair.slaves[0]
    pair.stop_broker(slave)
    pair.start_broker(slave)
    wait_until(lambda: server(slave)._follower.is_connected)
    assert server(slave)._follower.has_caught_up


def expire(cluster: LocalCluster, start: int) -> None:
    """Have the master delete the first files of its log."""
    master = server(cluster.brokers[0])

    async def drop() -> None:
        master.store.cleaner.drop_log_before(start)
        while master.store.cleaner.go_on():
            pass

    cluster._portal.call(drop())


def _is_registered_master(cluster: LocalCluster, broker: LocalBroker) -> bool:
    return server(broker).service.registration.broker_id == 0 and bool(server(broker).service.registered_at)


def _return_with_tail(cluster: LocalCluster, lost: list[bytes], new: list[bytes]) -> tuple[LocalBroker, LocalBroker]:
    """Let the slave become master without the last messages of its master, which is to be started as its slave."""
    slave, master = cluster.slaves[0], cluster.brokers[0]
    send(cluster, b"one")
    wait_until(lambda: same_logs(cluster))
    cluster.stop_broker(slave)
    send(cluster, *lost)
    cluster.stop_broker(master)
    cluster.start_broker(slave)
    cluster.promote(slave)
    wait_until(lambda: _is_registered_master(cluster, slave))
    send(cluster, *new)
    master.is_slave = True
    return slave, master


def _ask(cluster: LocalCluster, broker: LocalBroker, code: int, header: Header) -> RemotingCommand:
    """Ask one broker, whatever its role."""

    async def call() -> RemotingCommand:
        async with RemotingClient(cluster.clock) as remoting:
            return await remoting.request(broker.address, request(code, header))

    return cluster._portal.call(call())
