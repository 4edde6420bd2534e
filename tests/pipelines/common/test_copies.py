"""Sending copies again: after which failures the job checks what is stored, and which end it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from pyromq import Message, blocking
from pyromq.client.portal import Portal
from pyromq.clock import SystemClock
from pyromq.errors import TaskRepeated
from pyromq.pipelines.common.copies import COPY_OF, MARK, CopyTracker, send_missing
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import request
from pyromq.protocol.messages.message import MessageQueue
from pyromq.remoting.client import RemotingClient
from pyromq.testing import LocalCluster, wait_until
from tests.pipelines.conftest import make_topic
from tests.spark.test_trouble import delete_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ALL, REST = object(), object()
DEATH = "Python worker exited unexpectedly"
REPEATED = "pyromq.errors.TaskRepeated: partition 3 was started before and failed"
GIVEN_UP = "pyromq.errors.NoRoute: no name server knows a broker for the topic 'gone'"


class FakeTracker:
    """A tracker that reports the rest of all copies as missing."""

    def missing(self, copies: object) -> object:
        assert copies is ALL
        return REST


def _send(failures: list[str], *, begun: bool = False) -> list[object]:
    """Send through failures, one for each attempt; return what was sent in each."""
    sent: list[object] = []

    def send(copies: object) -> None:
        sent.append(copies)
        if len(sent) <= len(failures):
            raise RuntimeError(failures[len(sent) - 1])

    tracker: Any = FakeTracker()
    copies: Any = ALL
    send_missing(copies, tracker, send, begun=begun)
    return sent


def test_what_was_never_begun_is_sent_as_it_is_and_a_run_that_was_cut_looks_first() -> None:
    assert _send([]) == [ALL]
    assert _send([], begun=True) == [REST]


@pytest.mark.parametrize("failure", [DEATH, REPEATED])
def test_after_a_death_only_what_is_missing_is_sent(failure: str) -> None:
    assert _send([failure, failure]) == [ALL, REST, REST]


def test_what_the_sink_gave_up_is_not_tried_again() -> None:
    with pytest.raises(RuntimeError, match="no name server"):
        _send([GIVEN_UP])


def test_deaths_without_end_end_the_job() -> None:
    with pytest.raises(RuntimeError, match="exited unexpectedly"):
        _send([DEATH] * 4)


def test_the_sign_of_a_task_that_runs_again_is_the_name_of_its_error() -> None:
    assert REPEATED.startswith(f"{TaskRepeated.__module__}.{TaskRepeated.__qualname__}: ")


TARGET = MessageQueue("target", "broker-a", 0)
SMALL_FILES = {"mappedFileSizeCommitLog": 65_536, "fileReservedTime": 1}


def _send_copies(cluster: LocalCluster, numbers: range) -> None:
    """Send copies so large that three of them fill a file of the log."""
    with blocking.Producer("g", cluster.namesrv, compress_over=1 << 20) as producer:
        for number in numbers:
            copy = Message(topic="target", body=b"x" * 20_000, properties={MARK: f"replay-x:{number}"})
            producer.send(copy, queue=TARGET)


async def _delete_expired(address: str) -> None:
    async with RemotingClient(SystemClock()) as remoting:
        await remoting.request(address, request(RequestCode.DELETE_EXPIRED_COMMITLOG), 5.0)


@pytest.mark.spark
def test_copies_that_retention_has_deleted_do_not_end_a_job(spark: SparkSession) -> None:
    with LocalCluster(settings=SMALL_FILES) as cluster:
        make_topic(cluster, "target", 1)
        _send_copies(cluster, range(2))
        tracker = CopyTracker(cluster.namesrv, ["target"], "replay-x")
        tracker.set_start({TARGET: 2})
        _send_copies(cluster, range(2, 12))
        for path in sorted((cluster.brokers[0].store_path / "commitlog").iterdir())[:2]:
            os.utime(path, (0, 0))
        Portal.shared().call(_delete_expired(cluster.brokers[0].address))
        server = cluster.brokers[0].server
        assert server is not None
        wait_until(lambda: server.store.min_offset("target", 0) == 6, "the first files are gone")
        stored = {row[COPY_OF] for row in tracker.stored(spark).collect()}
        assert stored == {f"replay-x:{number}" for number in range(6, 12)}


@pytest.mark.spark
def test_copies_in_a_topic_that_was_recreated_are_found(spark: SparkSession) -> None:
    with LocalCluster() as cluster:
        make_topic(cluster, "target", 1)
        _send_copies(cluster, range(5))
        tracker = CopyTracker(cluster.namesrv, ["target"], "replay-x")
        tracker.set_start({TARGET: 5})
        delete_topic(cluster, "target")
        make_topic(cluster, "target", 1)
        tracker.set_start({TARGET: 5})  # as a broker that keeps the offsets of a deleted topic
        _send_copies(cluster, range(2))
        assert sorted(row[COPY_OF] for row in tracker.stored(spark).collect()) == ["replay-x:0", "replay-x:1"]
