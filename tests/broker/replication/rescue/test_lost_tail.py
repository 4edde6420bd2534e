"""A master whose machine went down asks its slave for what it lost, before it takes a message."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from random import Random
from threading import Thread

import pytest

from pyromq import Message, SendStatus
from pyromq.blocking import Producer
from pyromq.broker.replication.last_run import LAST_RUN_NAME
from pyromq.broker.replication.rescue.known_slaves import SLAVES_NAME
from pyromq.protocol.codes import RequestCode
from pyromq.store.files import OsFiles
from pyromq.store.small_files.sealed_file import read_sealed, replace_sealed
from pyromq.testing import LocalCluster, wait_until
from tests.broker.replication.test_replication import log_of, same_logs, send, server

SETTINGS = {"brokerRole": "SYNC_MASTER", "mappedFileSizeCommitLog": 1 << 16, "maxMessageSize": 30_000}


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[LocalCluster]:
    with LocalCluster(slaves=1, data=tmp_path / "data", settings=SETTINGS) as cluster:
        wait_until(lambda: server(cluster.slaves[0])._follower.is_connected)
        yield cluster


class PowerCut:
    """The files of a running broker as they are now: what its disk has when the machine goes down."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster
        self._image = cluster.data / "image"
        take_image(cluster, self._image)

    def happen(self) -> None:
        """Take the master away, with all that it wrote since."""
        master = self._cluster.brokers[0]
        self._cluster.stop_broker(master)
        shutil.rmtree(master.store_path)
        shutil.move(self._image, master.store_path)
        reboot(master.store_path)


def take_image(cluster: LocalCluster, image: Path) -> None:
    """Copy the files of the master while it runs, between two steps of its loop."""

    async def copy() -> None:
        shutil.copytree(cluster.brokers[0].store_path, image, ignore=shutil.ignore_patterns("*.tmp"))

    cluster._portal.call(copy())


def reboot(root: Path) -> None:
    """Let the last run be one of an earlier boot of the machine."""
    path = str(root / LAST_RUN_NAME)
    found = read_sealed(OsFiles(), path, dict[str, object])
    assert found is not None
    replace_sealed(OsFiles(), path, found | {"boot": "an earlier one"})


def send_acknowledged(cluster: LocalCluster, *bodies: bytes) -> None:
    with Producer("shop", cluster.namesrv, clock=cluster.clock) as producer:
        for body in bodies:
            assert producer.send(Message("orders", body)).status is SendStatus.SEND_OK


def count(cluster: LocalCluster) -> int:
    store = server(cluster.brokers[0]).store
    return sum(store.max_offset("orders", queue) for queue in store.queue_ids("orders"))


def test_nothing_acknowledged_is_lost_with_the_masters_memory(
    pair: LocalCluster, caplog: pytest.LogCaptureFixture
) -> None:
    send_acknowledged(pair, b"one")
    cut = PowerCut(pair)
    send_acknowledged(pair, *(Random(number).randbytes(9_000) for number in range(30)))  # over several files
    before = log_of(pair.slaves[0])
    cut.happen()
    pair.start_broker()
    assert log_of(pair.brokers[0]) == before
    assert "took back what was lost here" in caplog.text
    assert count(pair) == 31
    send(pair, b"and on")
    wait_until(lambda: same_logs(pair))
    assert log_of(pair.slaves[0]).startswith(before)
    assert "cut off" not in caplog.text


def test_a_topic_that_the_lost_messages_made_is_known_again(pair: LocalCluster) -> None:
    cut = PowerCut(pair)
    send(pair, b"one", topic="new")
    wait_until(lambda: same_logs(pair))
    cut.happen()
    pair.start_broker()
    assert server(pair.brokers[0]).topics.get("new") is not None


def test_a_disk_that_was_restored_from_a_backup_is_no_reason_to_cut_what_a_slave_has(
    pair: LocalCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """Its files say that it was stopped cleanly, and that nothing is lost."""
    send_acknowledged(pair, b"one")
    pair.stop_broker()
    backup = pair.data / "backup"
    shutil.copytree(pair.brokers[0].store_path, backup)
    pair.start_broker()
    wait_until(lambda: server(pair.slaves[0])._follower.is_connected)
    send_acknowledged(pair, b"two", b"three")
    before = log_of(pair.slaves[0])
    pair.stop_broker()
    shutil.rmtree(pair.brokers[0].store_path)
    shutil.move(backup, pair.brokers[0].store_path)
    pair.start_broker()
    assert log_of(pair.brokers[0]) == before
    assert count(pair) == 3
    wait_until(lambda: server(pair.slaves[0])._follower.is_connected)
    assert "cut off" not in caplog.text


def test_a_clean_start_says_nothing_of_a_slave_that_is_down(
    pair: LocalCluster, caplog: pytest.LogCaptureFixture
) -> None:
    send_acknowledged(pair, b"one")
    pair.stop_broker(pair.slaves[0])
    pair.stop_broker()
    caplog.clear()
    pair.start_broker()
    said = [
        record.getMessage() for record in caplog.records if record.name != "pyromq.problems"
    ]  # none is in sync, true
    assert [line for line in said if "slave" in line] == []


def test_with_a_secret_only_slaves_that_knew_it_are_asked(pair: LocalCluster, caplog: pytest.LogCaptureFixture) -> None:
    cut = PowerCut(pair)
    send(pair, b"one")
    wait_until(lambda: same_logs(pair))
    cut.happen()
    (pair.brokers[0].store_path / SLAVES_NAME).unlink(missing_ok=True)
    pair._settings["haSecret"] = "x"
    pair.start_broker()
    assert log_of(pair.brokers[0]) == b""


def test_a_slave_that_is_down_is_waited_for(pair: LocalCluster, caplog: pytest.LogCaptureFixture) -> None:
    send_acknowledged(pair, b"one")
    cut = PowerCut(pair)
    send_acknowledged(pair, b"two")
    before = log_of(pair.slaves[0])
    pair.stop_broker(pair.slaves[0])
    cut.happen()
    starting = Thread(target=pair.start_broker)
    starting.start()
    wait_until(lambda: "waits up to" in caplog.text)
    assert not pair.brokers[0].running
    pair.start_broker(pair.slaves[0])
    starting.join(60)
    assert log_of(pair.brokers[0]) == before


def test_an_operator_with_one_machine_left_can_start_it(pair: LocalCluster, caplog: pytest.LogCaptureFixture) -> None:
    send_acknowledged(pair, b"one")
    cut = PowerCut(pair)
    send_acknowledged(pair, b"two")
    pair.stop_broker(pair.slaves[0])
    cut.happen()
    pair._settings["pyromqWaitForSlave"] = "0"
    pair.start_broker()
    assert "this master starts without a slave that may have messages" in caplog.text
    pair.stop_broker()
    caplog.clear()
    pair.start_broker()
    assert "starts without" not in caplog.text, "told once: the next start is an ordinary one"


def test_a_killed_master_does_not_wait(pair: LocalCluster, caplog: pytest.LogCaptureFixture) -> None:
    """Its bytes are with the kernel, so there is nothing to wait for; it asks nevertheless."""
    send_acknowledged(pair, b"one")
    pair.stop_broker(pair.slaves[0])
    master = pair.brokers[0].store_path
    image = pair.data / "image"
    take_image(pair, image)
    pair.stop_broker()
    shutil.rmtree(master)
    shutil.move(image, master)
    pair.start_broker()
    assert "waits up to" not in caplog.text
    assert "starts without" not in caplog.text
    assert count(pair) == 1


def test_a_slave_that_went_another_way_is_not_taken_for_a_copy(
    pair: LocalCluster, caplog: pytest.LogCaptureFixture
) -> None:
    send_acknowledged(pair, b"one")
    wait_until(lambda: same_logs(pair))
    slave = pair.slaves[0]
    pair.stop_broker(slave)
    send(pair, b"only here")
    cut = PowerCut(pair)
    cut.happen()
    before = (pair.brokers[0].store_path / "commitlog" / ("0" * 20)).read_bytes()
    pair.start_broker(slave)
    pair.promote(slave)
    send(pair, b"another", b"and more", b"so that its log is longer")
    pair.demote(slave)
    pair.start_broker()
    assert "does not continue the one here" in caplog.text
    assert before.startswith(log_of(pair.brokers[0]))


def test_apaches_slave_gives_back_one_record_after_the_other(
    pair: LocalCluster, caplog: pytest.LogCaptureFixture
) -> None:
    """It knows neither epochs nor requests of ours: it is asked as `mqadmin` asks for a message by its id."""
    send_acknowledged(pair, b"one")
    cut = PowerCut(pair)
    send_acknowledged(pair, *(Random(number).randbytes(9_000) for number in range(20)))
    before = log_of(pair.slaves[0])
    cut.happen()
    handlers = server(pair.slaves[0]).handlers
    for code in (RequestCode.REPLICATION_STATE, RequestCode.READ_LOG):
        del handlers[code]
    pair.start_broker()
    assert log_of(pair.brokers[0]) == before
    assert "took back what was lost here" in caplog.text


def test_apaches_slave_with_another_last_record_gives_nothing(
    pair: LocalCluster, caplog: pytest.LogCaptureFixture
) -> None:
    send_acknowledged(pair, b"one")
    slave = pair.slaves[0]
    pair.stop_broker(slave)
    send(pair, b"only here")
    PowerCut(pair).happen()
    pair.start_broker(slave)
    pair.promote(slave)
    send(pair, b"another", b"and more, so that this log is longer")
    for code in (RequestCode.REPLICATION_STATE, RequestCode.READ_LOG):
        del server(slave).handlers[code]
    pair.demote(slave)
    pair.start_broker()
    assert "is another one" in caplog.text
    assert b"and more" not in log_of(pair.brokers[0])
