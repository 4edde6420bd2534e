"""`pyromq send --delay`, `message pending` and `message cancel`, as users run them."""

from __future__ import annotations

import json
from datetime import datetime, timedelta

import pytest
import typer

from pyromq.cli.times import parse_duration
from tests.cli.conftest import Servers, one_line_error, pyromq_here


def test_a_delayed_message_is_listed_and_cancelled(servers: Servers) -> None:
    later = datetime.now() + timedelta(hours=3)
    for options in (("--delay", "2h"), ("--at", later.isoformat())):
        assert pyromq_here("send", "later", "body", "-n", servers.namesrv, "--key", "k-1", *options).returncode == 0
    listed = pyromq_here("message", "pending", "-n", servers.namesrv, "--topic", "later", "--json")
    first, second = [json.loads(line) for line in listed.stdout.splitlines()]
    assert first["deliver_timestamp"] < second["deliver_timestamp"]
    assert (first["topic"], first["body"], first["keys"]) == ("later", "body", ["k-1"])
    assert "queue_offset" not in first
    done = pyromq_here("message", "cancel", first["message_id"], "-n", servers.namesrv)
    assert done.stdout == f"cancelled {first['message_id']} on broker-a\n"
    again = pyromq_here("message", "cancel", first["message_id"], "-n", servers.namesrv)
    assert first["message_id"] in one_line_error(again)
    assert pyromq_here("message", "cancel", second["offset_message_id"], "-n", servers.namesrv).returncode == 0
    rest = pyromq_here("message", "pending", "-n", servers.namesrv, "--topic", "later")
    assert (rest.returncode, rest.stdout) == (0, "")


def test_a_short_delay_is_over_soon(servers: Servers) -> None:
    assert pyromq_here("send", "soon", "body", "-n", servers.namesrv, "--delay", "300ms").returncode == 0
    tail = pyromq_here("tail", "soon", "-n", servers.namesrv, "--from", "earliest", "--count", "1", "--json")
    message = json.loads(tail.stdout)
    assert message["properties"]["TIMER_DELAY_MS"] == "300"


def test_inspect_counts_what_waits_for_a_time(servers: Servers) -> None:
    assert pyromq_here("send", "later", "body", "-n", servers.namesrv, "--delay", "2h").returncode == 0
    shown = pyromq_here("store", "inspect", str(servers.data), "--json")
    assert json.loads(shown.stdout.splitlines()[0])["pending_timed"] >= 1


@pytest.mark.parametrize(
    "options", [("--delay", "soon"), ("--delay", "10"), ("--at", "noon"), ("--delay", "1s", "--at", "2026-12-24")]
)
def test_a_time_that_is_none_is_wrong_usage(options: tuple[str, ...]) -> None:
    assert pyromq_here("send", "later", "body", *options).returncode == 2


def test_durations_are_written_as_people_do() -> None:
    assert parse_duration("1d12h", "--delay") == timedelta(days=1, hours=12)
    assert parse_duration("1.5m", "--delay") == timedelta(seconds=90)
    assert parse_duration("500ms", "--delay") == timedelta(milliseconds=500)
    for text in ("", "h", "10 s", "-1s", "1w", "9" * 30 + "d"):
        with pytest.raises(typer.BadParameter):
            parse_duration(text, "--delay")
