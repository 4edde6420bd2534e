"""`pyromq top` on a real broker: once, as JSON, and live in a terminal."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from contextlib import suppress

import pytest

from tests.cli.conftest import Servers, one_line_error, pyromq_here


@pytest.fixture(scope="module")
def busy(servers: Servers) -> Servers:
    assert pyromq_here("send", "busy", "x", "--count", "20", "-n", servers.namesrv).returncode == 0
    return servers


def test_without_a_terminal_it_prints_one_table(busy: Servers) -> None:
    done = pyromq_here("top", "--view", "topics", "--filter", "BUS", "-n", busy.namesrv)
    assert (done.returncode, done.stderr) == (0, "")
    assert "topics: 1, by in/s" in done.stdout
    assert "q quit" not in done.stdout
    row = next(line for line in done.stdout.splitlines() if "busy" in line)
    assert [cell.strip() for cell in row.strip("│").split("│")][3] == "20"


def test_json_is_one_object(busy: Servers) -> None:
    found = json.loads(pyromq_here("top", "--once", "--json", "-n", busy.namesrv).stdout)
    assert set(found) == {"time", "brokers", "topics", "groups", "silent_brokers", "brokers_without_topics"}
    assert {one["topic"]: one["messages_in"] for one in found["topics"]}["busy"] == 20
    assert [one["broker_name"] for one in found["brokers"]] == ["broker-a"]
    assert "TOOLS_CONSUMER" in {one["group"] for one in found["groups"]}


@pytest.mark.parametrize("view", ["groups", "topics", "brokers"])
def test_every_view_can_be_printed(busy: Servers, view: str) -> None:
    done = pyromq_here("top", "--once", "--all", "--view", view, "-n", busy.namesrv)
    assert done.returncode == 0, done
    assert f"{view}: " in done.stdout


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--view", "x"], "groups, topics, brokers"),
        (["--sort", "x"], "group, members, lag"),
        (["--interval", "1ms"], "200ms"),
        (["--interval", "x"], "duration"),
    ],
)
def test_wrong_options_are_wrong_usage(arguments: list[str], text: str) -> None:
    done = pyromq_here("top", *arguments)
    assert done.returncode == 2
    assert text in " ".join(done.stderr.replace("│", " ").split())


def test_a_cluster_that_is_away_is_one_line() -> None:
    assert "no name server answers" in one_line_error(pyromq_here("top", "-n", "127.0.0.1:1"))


def test_it_runs_in_a_terminal_until_q_is_pressed(busy: Servers) -> None:
    master, slave = pty.openpty()
    command = [sys.executable, "-m", "pyromq.cli.main", "top", "--interval", "200ms", "-n", busy.namesrv]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120", "LINES": "30"}
    process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=environment)
    os.close(slave)
    shown = b""
    while b"q quit" not in shown:
        shown += os.read(master, 4096)
    os.write(master, b"2")
    while b"busy" not in shown:
        shown += os.read(master, 4096)
    os.write(master, b"q")
    with suppress(OSError):  # the terminal closes when the process ends
        while chunk := os.read(master, 4096):
            shown += chunk
    assert process.wait(30) == 0
    os.close(master)
    assert b"Traceback" not in shown
