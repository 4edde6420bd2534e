"""`pyromq doctor` on a real broker, and without one."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Servers, pyromq_here


def test_a_healthy_cluster_is_well(servers: Servers) -> None:
    done = pyromq_here("doctor", "-n", servers.namesrv)
    assert (done.returncode, done.stderr) == (0, ""), done
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["ok", "name", "server", servers.namesrv, "answers"]
    assert any("SEND_OK in BenchmarkTest" in line for line in lines)
    assert any(line.split()[1] == "Java" for line in lines)
    assert lines[-1] == "all is well" or "warning" in lines[-1]


def test_json_has_a_line_for_each_step(servers: Servers) -> None:
    done = pyromq_here("doctor", "--no-send", "--json", "-n", servers.namesrv)
    steps = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0
    assert {frozenset(step) for step in steps} == {frozenset({"step", "status", "seen", "advice"})}
    assert [step["status"] for step in steps if step["step"] == "test message"] == ["skipped"]


def test_a_failure_is_exit_code_1_and_says_what_to_do() -> None:
    done = pyromq_here("doctor", "-n", "127.0.0.1:1")
    assert (done.returncode, done.stderr) == (1, "")
    lines = done.stdout.splitlines()
    assert lines[0].startswith("failed   name server")
    assert lines[1].strip().startswith("-> start one")
    assert lines[-1].startswith("1 failure")


def test_a_missing_topic_is_named(servers: Servers) -> None:
    done = pyromq_here("doctor", "--topic", "nope", "--no-send", "-n", servers.namesrv)
    assert done.returncode == 1
    assert "does not have the topic 'nope'" in done.stdout


def test_options_that_make_no_sense_are_wrong_usage(tmp_path: Path) -> None:
    for arguments in (["--send-to-topic"], ["--topic", "t", "--send-to-topic", "--no-send"], ["--data", "/no/such"]):
        done = pyromq_here("doctor", *arguments)
        assert done.returncode == 2, done
