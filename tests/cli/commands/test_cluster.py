"""`pyromq cluster` as an operator uses it, against real masters and slaves."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from pyromq.testing import LocalCluster, wait_until
from tests.broker.replication.test_replication import server
from tests.cli.conftest import one_line_error, pyromq_here


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalCluster]:
    monkeypatch.delenv("COLUMNS", raising=False)  # a parallel run sets it for its workers
    with LocalCluster(slaves=1, data=tmp_path, settings={"brokerRole": "SYNC_MASTER"}) as running:
        wait_until(lambda: server(running.brokers[0]).replication.in_sync())
        yield running


def command(cluster: LocalCluster, *arguments: str, text: str = "") -> CompletedProcess[str]:
    return pyromq_here("cluster", *arguments, "-n", cluster.namesrv, text=text)


def test_status_shows_every_broker_in_a_row(cluster: LocalCluster) -> None:
    done = command(cluster, "status")
    assert done.returncode == 0, done.stderr
    rows = [line.split("│")[1:-1] for line in done.stdout.splitlines() if "broker-a" in line]
    assert [[cell.strip() for cell in row[1:5]] for row in rows] == [
        ["broker-a", "0", "SYNC_MASTER", cluster.brokers[0].address],
        ["broker-a", "1", "SLAVE", cluster.slaves[0].address],
    ]
    assert "!" not in done.stdout


def test_status_says_what_is_wrong_first_and_still_succeeds(cluster: LocalCluster) -> None:
    cluster.stop_broker(cluster.brokers[0])
    done = command(cluster, "status", "--broker", "broker-a")
    assert done.returncode == 0
    assert done.stdout.startswith("! broker-a has no master: it takes no messages\n")


def test_status_as_json_has_what_the_table_has(cluster: LocalCluster) -> None:
    (line,) = command(cluster, "status", "--json").stdout.splitlines()
    found = json.loads(line)
    master, slave = found["brokers"]
    assert found["findings"] == []
    assert (master["role"], master["epoch"], master["in_sync"]) == ("SYNC_MASTER", 1, ["1"])
    assert (slave["lag_bytes"], slave["share"], slave["follows"]["connected"]) == (0, 1.0, True)


def test_promote_hands_over_and_says_how_long_it_took(cluster: LocalCluster) -> None:
    done = command(cluster, "promote", "broker-a", "--yes")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{cluster.slaves[0].address} is SYNC_MASTER of broker-a now: epoch 2 from offset ")
    assert "change them now" in done.stdout
    assert done.stderr == ""
    assert server(cluster.slaves[0]).is_master
    found = json.loads(command(cluster, "status", "--json").stdout)
    assert found["brokers"][0]["last_failover"]["how"] == "handover"


def test_a_dry_run_and_an_answer_of_no_change_nothing(cluster: LocalCluster) -> None:
    wanted = f"Make slave 1 of broker-a at {cluster.slaves[0].address} master in place of {cluster.brokers[0].address}"
    assert command(cluster, "promote", "broker-a", "--dry-run").stdout == f"{wanted}\n"
    done = command(cluster, "promote", "broker-a", text="n\n")
    assert f"{wanted}?" in done.stderr
    assert done.returncode != 0
    assert server(cluster.brokers[0]).is_master


def test_a_dead_master_is_replaced_only_by_force_which_says_what_may_be_lost(cluster: LocalCluster) -> None:
    cluster.stop_broker(cluster.brokers[0])
    done = command(cluster, "promote", "broker-a", "--yes")
    assert "is lost if it becomes master by force (--force)" in one_line_error(done)
    assert not server(cluster.slaves[0]).is_master
    done = command(cluster, "promote", "broker-a", "--yes", "--force")
    assert done.returncode == 0, done.stderr
    assert "! 0 bytes of the old master's log, as last heard of, are missing" in done.stderr
    assert server(cluster.slaves[0]).is_master


def test_a_name_that_does_not_exist_is_one_line(cluster: LocalCluster) -> None:
    assert "did you mean broker-a?" in one_line_error(command(cluster, "promote", "broker-b", "--yes"))
