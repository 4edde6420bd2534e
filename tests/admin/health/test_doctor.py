"""The doctor's walk on real clusters, well and ill."""

from __future__ import annotations

import pytest

from pyromq import Message, Producer
from pyromq.admin import AdminClient, CheckLimits, DoctorStep, Examination, Level, StepStatus
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.errors import BrokerError
from pyromq.protocol.codes import RequestCode
from pyromq.store.files import DiskUsage, OsFiles
from pyromq.testing import LocalCluster
from tests.client.helpers import register_broker

OK, WARNING, FAILED, SKIPPED = StepStatus.OK, StepStatus.WARNING, StepStatus.FAILED, StepStatus.SKIPPED


def step(found: Examination, name: str) -> DoctorStep:
    return next(one for one in found.steps if one.name == name)


async def test_a_healthy_cluster_passes_every_step(pair: LocalCluster, admin: AdminClient) -> None:
    found = await admin.examine()
    names = [one.name for one in found.steps]
    assert names[:5] == ["name server", "route", "permission", "broker broker-a", "broker broker-b"]
    assert found.failed == []
    for name in ("test message to broker-a", "test message to broker-b"):
        assert step(found, name).status is OK
        assert step(found, name).seen.startswith("SEND_OK in BenchmarkTest after ")
    assert step(found, "clock").status is OK
    assert "client PyroMQ" in step(found, "versions").seen
    assert {"disk of broker-a", "disk", "file system", "open files"} <= set(names), "the store is on this machine"


async def test_without_sending_nothing_is_stored(
    pair: LocalCluster, admin: AdminClient, api: BrokerApi, topic: str
) -> None:
    await api.create_topic(pair.brokers[0].address, topic, 1)
    found = await admin.examine(topic, send=False)
    assert step(found, "test message").status is SKIPPED
    assert step(found, "permission").seen == f"{topic} may be read and written"
    await admin.examine(topic)
    assert await api.max_offset(pair.brokers[0].address, topic, 0) == 0, "the test message is not for its consumers"
    await admin.examine(topic, send_to_topic=True)
    assert await api.max_offset(pair.brokers[0].address, topic, 0) == 1


async def test_a_topic_that_does_not_exist_fails_at_its_route(pair: LocalCluster, admin: AdminClient) -> None:
    found = await admin.examine("no-such-topic")
    assert (step(found, "route").status, step(found, "route").advice) == (
        FAILED,
        "the first message that is sent to it creates it",
    )
    assert step(found, "test message to broker-a").status is OK, "the rest of the cluster is examined too"


async def test_no_name_server_fails_at_the_first_step() -> None:
    async with AdminClient("127.0.0.1:1") as admin:
        found = await admin.examine()
    assert [one.name for one in found.failed] == ["name server"]
    assert "127.0.0.1:1" in found.steps[0].seen
    assert step(found, "test message").status is SKIPPED
    assert step(found, "open files").status is not SKIPPED


async def test_a_broker_that_is_away_is_named(topic: str) -> None:
    async with LocalCluster() as cluster, AdminClient(cluster.namesrv, clock=cluster.clock) as admin:
        await register_broker(admin.api, "broker-z", "127.0.0.1:1", "BenchmarkTest")
        found = await admin.examine()
        assert [one.name for one in found.failed] == ["broker broker-z"]
        assert "brokerIP1" in found.failed[0].advice
        assert any(one.name == "cluster" for one in found.warnings)


async def test_a_broker_that_stores_nothing_fails_with_its_reason(topic: str) -> None:
    async with LocalCluster() as cluster, AdminClient(cluster.namesrv, clock=cluster.clock) as admin:
        server = cluster.brokers[0].server
        assert server is not None

        def refuse(*_: object) -> None:
            raise BrokerError("the disk is full: 97% used")

        for code in (RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE):
            server.handlers[code] = refuse
        found = await admin.examine()
        failed = step(found, "test message to broker-a")
        assert (failed.status, failed.seen) == (FAILED, "the disk is full: 97% used")
        assert "fileReservedTime" in failed.advice


async def test_a_full_disk_fails_and_is_well_again_when_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    percent = 97
    monkeypatch.setattr(OsFiles, "disk_usage", lambda *_: DiskUsage(percent, 100 - percent))
    limit = {"diskSpaceWarningLevelRatio": "0.9"}
    async with LocalCluster(settings=limit) as cluster, AdminClient(cluster.namesrv, clock=cluster.clock) as admin:
        await cluster.clock.advance_async(seconds=11)
        found = await admin.examine()
        health = step(found, "health of broker-a")
        assert (health.status, "full" in health.seen, bool(health.advice)) == (FAILED, True, True)
        assert step(found, "test message to broker-a").status is FAILED
        assert "cluster" not in [one.name for one in found.steps], "it is said once"
        report = await admin.check(CheckLimits(disk=None))
        assert report.level is Level.CRITICAL
        assert "full" in report.results[-1].text
        percent = 40
        again = await admin.examine()
        assert again.failed == []
        assert (await admin.check(CheckLimits(disk=None))).level is Level.OK


async def test_a_clock_that_is_wrong_fails(topic: str) -> None:
    async with LocalCluster() as cluster:
        await cluster.clock.advance_async(seconds=60)
        async with AdminClient(cluster.namesrv) as admin:  # with the system's clock
            found = await admin.examine()
        assert step(found, "clock").status is FAILED
        assert "broker-a is 60" in step(found, "clock").seen or "broker-a is 59" in step(found, "clock").seen
        assert "ahead of" in step(found, "clock").seen


async def test_a_topic_without_rights_fails(pair: LocalCluster, admin: AdminClient, topic: str) -> None:
    async with Producer("filling", pair.namesrv) as producer:
        await admin.topics.create(topic, read_queues=1, write_queues=1)
        await producer.send(Message(topic=topic, body=b"x"))
    await admin.topics.set(topic, perm=4)
    found = await admin.examine(topic)
    assert {one.name for one in found.failed} == {"permission"}
    assert "may not be written" in found.failed[0].seen


@pytest.mark.parametrize("topic", ["\x00bad", "%DLQ%nobody"])
async def test_any_name_of_a_topic_is_answered(pair: LocalCluster, admin: AdminClient, topic: str) -> None:
    assert step(await admin.examine(topic, send=False), "route").status is FAILED
