"""The pages over real HTTP: what they show, and to whom."""

from __future__ import annotations

import errno
import logging
from pathlib import Path

import pytest

from pyromq.console.monitoring.pages import _PAGES
from pyromq.console.monitoring.watched import STARTING, STOPPING
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.store.files import DiskUsage, OsFiles
from pyromq.testing import TestClock
from tests.broker.helpers import heartbeat
from tests.console.monitoring.conftest import TOKEN, Site, StartSite

CLOSED = [page.path for page in _PAGES if not page.is_open]


class Disk(OsFiles):
    """A disk as full as the test says, whose flushes fail when the test says so."""

    percent = 50
    is_broken = False

    def disk_usage(self, path: str) -> DiskUsage:
        return DiskUsage(self.percent << 30, (100 - self.percent) << 30)

    def fdatasync(self, descriptor: int) -> None:
        if self.is_broken:
            raise OSError(errno.EIO, "Input/output error")
        super().fdatasync(descriptor)


async def test_a_server_that_is_well_is_alive_and_ready(site: Site) -> None:
    assert await site.get("/healthz") == (200, '{"status":"ok","problems":[]}')
    assert await site.get("/readyz") == (200, '{"status":"ready","reasons":{}}')


async def test_before_and_after_its_servers_the_process_is_alive_and_not_ready(site: Site) -> None:
    site.pages.watched.stop()
    assert (await site.get("/healthz")).status == 200
    assert ((await site.get("/readyz")).status, (await site.get("/readyz")).json["reasons"]) == (
        503,
        {"server": STOPPING},
    )
    site.pages.watched.pause = STARTING
    assert (await site.get("/readyz")).json["reasons"] == {"server": STARTING}


async def test_a_full_disk_is_said_at_once_and_taken_back_by_itself(
    start_site: StartSite, clock: TestClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    disk = Disk()
    site = await start_site(disk)
    disk.percent = 95
    await clock.advance_async(seconds=11)
    ready = await site.get("/readyz")
    assert ready.status == 503
    assert "the disk is 95% full" in ready.json["reasons"][site.broker.address]
    health = await site.get("/healthz")
    assert (health.status, health.json["status"]) == (200, "degraded")
    (problem,) = health.json["problems"]
    assert (problem["cause"], problem["server"]) == ("disk_full", site.broker.address)
    assert "free disk space" in problem["advice"]
    assert 'pyromq_broker_problem{cluster="DefaultCluster",' in (await site.get("/metrics")).text
    assert 'cause="disk_full"} 1' in (await site.get("/metrics")).text
    disk.percent = 50
    assert (await site.get("/readyz")).status == 200, "nobody has to wait for the cleaner's next pass"
    assert 'cause="disk_full"} 0' in (await site.get("/metrics")).text
    await site.peer.send()
    said = [record.getMessage() for record in caplog.records if "disk_full" in record.getMessage()]
    assert len(said) == 2
    assert "free disk space" in said[0]
    assert said[1].startswith("problem over disk_full")


async def test_a_failed_flush_asks_for_a_restart(start_site: StartSite) -> None:
    disk = Disk()
    site = await start_site(disk, flushDiskType="SYNC_FLUSH")
    await site.peer.send()
    disk.is_broken = True
    await site.peer.send(expect=ResponseCode.SERVICE_NOT_AVAILABLE)
    health = await site.get("/healthz")
    assert (health.status, health.json["status"]) == (503, "failed")
    assert health.json["problems"][0]["cause"] == "store_stopped"
    assert "restart this broker" in (await site.get("/readyz")).json["reasons"][site.broker.address]


@pytest.mark.parametrize("setting", ["pyromqWritesPaused=true", "brokerPermission=4"])
async def test_a_broker_whose_writes_are_paused_is_not_ready(site: Site, setting: str) -> None:
    await site.peer.ask(RequestCode.UPDATE_BROKER_CONFIG, body=setting.encode())
    ready = await site.get("/readyz")
    assert ready.status == 503
    (problem,) = (await site.get("/healthz")).json["problems"]
    assert problem["cause"] == "writes_paused"


async def test_a_table_that_cannot_be_saved_is_a_problem_until_it_can(start_site: StartSite, clock: TestClock) -> None:
    disk = Disk()
    site = await start_site(disk)
    disk.is_broken = True
    await site.peer.send("new", expect=ResponseCode.SERVICE_NOT_AVAILABLE)
    causes = [problem["cause"] for problem in (await site.get("/healthz")).json["problems"]]
    assert "tables_not_saved" in causes


async def test_varz_has_the_figures_of_all_servers(site: Site) -> None:
    facts = (await site.get("/varz")).json
    assert facts["namesrv"]["brokers"] == 1
    assert facts["brokers"][0]["address"] == site.broker.address


async def test_connz_names_connections_and_their_clients(site: Site) -> None:
    await site.peer.ask(RequestCode.HEART_BEAT, body=heartbeat("client-1", "billing"))
    rows = (await site.get("/connz")).json["connections"]
    (row,) = [row for row in rows if row.get("client_id")]
    assert (row["server"], row["client_id"], row["consumer_groups"]) == (site.broker.address, "client-1", ["billing"])
    assert {row["server"] for row in rows} == {site.broker.address, site.name_server.address}


async def test_topicz_and_groupz_show_topics_and_what_waits(site: Site) -> None:
    await site.peer.ask(RequestCode.HEART_BEAT, body=heartbeat())
    await site.peer.send()
    (topic,) = [row for row in (await site.get("/topicz")).json["topics"] if row["topic"] == "orders"]
    assert (topic["messages"], topic["messages_put"], topic["write_queues"]) == (1, 1, 4)
    (group,) = [row for row in (await site.get("/groupz")).json["groups"] if row["topic"] == "orders"]
    assert (group["group"], group["members"], group["lag"]) == ("billing", 1, 1)
    assert [queue["queue_id"] for queue in group["queues"]] == [0]


async def test_the_first_page_names_the_others(site: Site) -> None:
    text = (await site.get("/")).text
    assert all(page.path in text for page in _PAGES)


class TestBeyondLoopback:
    """A port that others can reach."""

    @pytest.mark.parametrize("path", CLOSED)
    async def test_pages_need_the_token(self, start_site: StartSite, path: str) -> None:
        site = await start_site(host="0.0.0.0", token=TOKEN)
        assert (await site.get(path)).status == 401
        assert (await site.get(path, "not-the-token-of-it")).status == 401
        assert (await site.get(path, TOKEN)).status == 200

    async def test_without_a_token_file_they_are_closed_and_say_what_to_do(self, start_site: StartSite) -> None:
        site = await start_site(host="0.0.0.0")
        answer = await site.get("/metrics", TOKEN)
        assert answer.status == 401
        assert "--http-token-file" in answer.text

    async def test_probes_are_open(self, start_site: StartSite) -> None:
        site = await start_site(host="0.0.0.0", token=TOKEN)
        assert ((await site.get("/healthz")).status, (await site.get("/readyz")).status) == (200, 200)


async def test_damage_set_aside_is_reported_until_an_operator_removes_it(
    site: Site, clock: TestClock, tmp_path: Path
) -> None:
    aside = tmp_path / "store" / "quarantine"
    aside.mkdir()
    (aside / "00000000000000000000.0").write_bytes(b"x")
    await clock.advance_async(seconds=61)
    (problem,) = (await site.get("/healthz")).json["problems"]
    assert problem["cause"] == "quarantined_data"
    (aside / "00000000000000000000.0").unlink()
    await clock.advance_async(seconds=61)
    assert (await site.get("/healthz")).json["status"] == "ok"
