"""The audit log: what was there before and after, files that are rotated, floods of refusals."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from pyromq.admin.blocking_client import AdminClient
from pyromq.admin.maintenance.audit import AuditEntry
from pyromq.remoting.audit import audit_trail
from pyromq.remoting.audit.audit_trail import REFUSED_A_SECOND, AuditTrail, read_audit
from pyromq.testing import LocalCluster, TestClock


def trail(path: Path | None, clock: TestClock | None = None) -> AuditTrail:
    return AuditTrail("broker-a", path, clock or TestClock())


def test_entries_survive_a_restart_and_are_private(tmp_path: Path) -> None:
    path = tmp_path / "audit" / "audit.jsonl"
    trail(path).write({"subject": "topics", "details": {"topic": "a\nb\u2028"}}, has_happened=True)
    assert stat.S_IMODE(path.stat().st_mode) & 0o007 == 0
    assert stat.S_IMODE(path.parent.stat().st_mode) & 0o007 == 0
    (line,) = path.read_text().splitlines()
    assert json.loads(line)["details"] == {"topic": "a\nb\u2028"}
    (entry,) = trail(path).newest(10)
    assert (entry["server"], entry["subject"]) == ("broker-a", "topics")


def test_a_line_that_a_power_cut_left_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    path.write_text('{"subject": "topics"}\n{"subject": "gro')
    assert read_audit(path) == [{"subject": "topics"}]


def test_files_are_rotated_and_the_oldest_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_trail, "MAX_BYTES", 300)
    monkeypatch.setattr(audit_trail, "KEPT_FILES", 2)
    path = tmp_path / "audit.jsonl"
    log = trail(path)
    for number in range(20):
        log.write({"number": number, "text": "x" * 100}, has_happened=True)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["audit.jsonl", "audit.jsonl.1", "audit.jsonl.2"]
    assert all(file.stat().st_size <= 300 for file in tmp_path.iterdir())
    numbers = [entry["number"] for entry in read_audit(path)]
    assert numbers == list(range(20 - len(numbers), 20))


def test_a_flood_of_refusals_hides_no_change(tmp_path: Path) -> None:
    clock = TestClock()
    log = trail(tmp_path / "audit.jsonl", clock)
    for _ in range(1_000):
        log.write({"result": "SYSTEM_ERROR"}, has_happened=False)
    log.write({"result": "SUCCESS"}, has_happened=True)
    assert [entry["result"] for entry in log.newest(1_000)] == ["SYSTEM_ERROR"] * REFUSED_A_SECOND + ["SUCCESS"]
    clock.advance(seconds=1)
    log.write({"result": "SYSTEM_ERROR"}, has_happened=False)
    assert log.newest(1)[0]["left_out"] == 1_000 - REFUSED_A_SECOND


def test_a_disk_that_is_full_stops_no_server(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "audit").write_text("a file where the directory should be")
    log = trail(tmp_path / "audit" / "audit.jsonl")
    log.write({"subject": "topics"}, has_happened=True)
    log.write({"subject": "groups"}, has_happened=True)
    assert len([record for record in caplog.records if "audit log cannot be written" in record.getMessage()]) == 1
    assert len(log.newest(10)) == 2


def test_changes_are_there_with_before_and_after_at_all_servers(tmp_path: Path) -> None:
    with LocalCluster(data=tmp_path) as cluster, AdminClient(cluster.namesrv, clock=cluster.clock) as admin:
        admin.topics.create("orders", write_queues=4)
        admin.topics.set("orders", perm="r")
        admin.settings.set({"fileReservedTime": "71"})
        admin.kv.set("ORDER_TOPIC_CONFIG", "orders", "broker-a:4")
        admin.topics.delete("orders")
        listing = admin.audit.list()
        kept = read_audit(cluster.brokers[0].store_path / "audit" / "audit.jsonl")
    by_request: dict[str, list[AuditEntry]] = {}
    for entry in listing.entries:
        by_request.setdefault(entry.request, []).append(entry)
    created, changed = by_request["UPDATE_AND_CREATE_TOPIC"]
    assert created.before is None
    assert created.after["writeQueueNums"] == 4
    assert (changed.before["perm"], changed.after["perm"]) == (6, 4)
    (settings,) = by_request["UPDATE_BROKER_CONFIG"]
    assert (settings.before, settings.after) == ({"fileReservedTime": "72"}, {"fileReservedTime": "71"})
    (value,) = by_request["PUT_KV_CONFIG"]
    assert (value.server, value.before, value.after) == ("namesrv", None, "broker-a:4")
    (deleted,) = by_request["DELETE_TOPIC_IN_BROKER"]
    assert (deleted.before["perm"], deleted.after) == (4, None)
    assert listing.silent == {}
    assert {one["request"] for one in kept} == {entry.request for entry in listing.entries if entry.server != "namesrv"}
