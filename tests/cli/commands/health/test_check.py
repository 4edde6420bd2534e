"""`pyromq check` against a real broker: one line, and the exit codes of monitoring plugins."""

from __future__ import annotations

import json

import pytest

from tests.cli.conftest import Servers, pyromq_here


@pytest.fixture(scope="module")
def lagging(servers: Servers) -> Servers:
    """Five messages, of which the group has consumed two."""
    assert pyromq_here("topic", "create", "lagged", "--queues", "1", "-n", servers.namesrv).returncode == 0
    assert pyromq_here("send", "lagged", "x", "--count", "5", "-n", servers.namesrv).returncode == 0
    done = pyromq_here("tail", "lagged", "--group", "late", "--from", "earliest", "--count", "2", "-n", servers.namesrv)
    assert done.returncode == 0, done
    return servers


def described_lag(servers: Servers) -> int:
    done = pyromq_here("group", "describe", "late", "--watch", "0s", "--json", "-n", servers.namesrv)
    lag: int = json.loads(done.stdout)["lag"]
    return lag


def test_a_cluster_without_problems_is_ok(servers: Servers) -> None:
    done = pyromq_here("check", "--disk", "100", "-n", servers.namesrv)
    assert (done.returncode, done.stderr) == (0, ""), done
    line = done.stdout.splitlines()
    assert len(line) == 1
    assert line[0].startswith("OK - 1 broker, ")
    assert "all brokers answer" in line[0]
    assert "| silent_brokers=0;;1 disk=" in line[0]


def test_lag_is_that_of_the_description_in_all_commands(lagging: Servers) -> None:
    lag = described_lag(lagging)
    assert lag > 0
    for limit, code, word in ((f"{lag}", 2, "CRITICAL"), (f"{lag}:{lag + 1}", 1, "WARNING"), (f"{lag + 1}", 0, "OK")):
        done = pyromq_here("check", "--group", "late", "--lag", limit, "--disk", "100", "-n", lagging.namesrv)
        assert done.returncode == code, done
        assert done.stdout.startswith(f"{word} - ")
        assert f"late has {lag} waiting" in done.stdout
        assert f" lag={lag};" in done.stdout
    shown = json.loads(pyromq_here("top", "--json", "-n", lagging.namesrv).stdout)
    assert {group["group"]: group["lag"] for group in shown["groups"]}["late"] == lag


def test_json_has_all_checks(lagging: Servers) -> None:
    done = pyromq_here("check", "--lag-seconds", "0.001", "--dead-letters", "5:9", "--json", "-n", lagging.namesrv)
    found = json.loads(done.stdout)
    assert (done.returncode, found["status"]) == (2, "CRITICAL")
    checks = {check["check"]: check for check in found["checks"]}
    assert set(checks) == {"silent_brokers", "disk", "lag_seconds", "dead_letters"}
    assert checks["dead_letters"] == {
        "check": "dead_letters", "status": "OK", "value": 0, "warning": 5, "critical": 9,
        "text": checks["dead_letters"]["text"],
    }  # fmt: skip


def test_a_cluster_that_cannot_be_asked_is_unknown() -> None:
    done = pyromq_here("check", "-n", "127.0.0.1:1")
    assert (done.returncode, done.stderr) == (3, "")
    assert done.stdout.startswith("UNKNOWN - no name server answers")
    assert len(done.stdout.splitlines()) == 1
    as_json = pyromq_here("check", "--json", "-n", "127.0.0.1:1")
    assert (as_json.returncode, json.loads(as_json.stdout)["status"]) == (3, "UNKNOWN")


def test_a_group_that_does_not_exist_is_unknown(servers: Servers) -> None:
    done = pyromq_here("check", "--group", "nobody", "--lag", "1", "-n", servers.namesrv)
    assert (done.returncode, done.stdout) == (3, "UNKNOWN - no broker knows the group 'nobody'\n")


@pytest.mark.parametrize("limit", ["x", "9:1", ""])
def test_a_wrong_limit_is_wrong_usage(limit: str) -> None:
    done = pyromq_here("check", "--lag", limit)
    assert done.returncode == 2
    assert "--lag" in done.stderr
