"""`pyromq cluster pause-writes` and `resume-writes`."""

from __future__ import annotations

import json
import sys
from signal import SIGINT
from subprocess import PIPE, Popen

from pyromq.testing import LocalCluster
from tests.cli.commands.cluster.conftest import Run
from tests.cli.conftest import one_line_error, pyromq_here


def writes(command: Run) -> list[str]:
    return [broker["writes"] for broker in json.loads(command("status", "--json").stdout)["brokers"]]


def test_writes_are_paused_and_resumed(command: Run, pair: LocalCluster) -> None:
    pause = "pause-writes", "--broker", "broker-a", "--grace", "0s"
    planned = "broker-a takes no more messages after 0 s: producers go to broker-b"
    assert command(*pause, "--dry-run").stdout == f"{planned}\n"
    done = command(*pause, text="n\n")
    assert f"{planned}. Go on?" in done.stderr
    assert done.returncode == 1
    assert writes(command) == ["open", "open"]
    done = command(*pause, "--yes")
    assert done.stdout.splitlines() == [
        "broker-a: name servers route no sends to it; producers have 0 s to leave",
        "broker-a: paused, it refuses all sends",
    ]
    assert writes(command) == ["paused", "open"]
    shown = command("status").stdout
    assert shown.startswith("! broker-a refuses messages: its writes are paused")
    assert "│ paused " in shown
    sent = pyromq_here("send", "orders", "a body", "-n", pair.namesrv)
    assert sent.returncode == 0, sent.stderr
    assert "paused already" in command(*pause, "--dry-run").stdout
    last = command("pause-writes", "--broker", "broker-b", "--dry-run")
    assert "no other broker takes them, so sends fail" in last.stdout
    assert command("resume-writes", "--broker", "broker-a", "--dry-run").stdout == (
        "broker-a would take messages again\n"
    )
    assert writes(command) == ["paused", "open"]
    assert command("resume-writes", "--broker", "broker-a").stdout == "broker-a takes messages again\n"
    assert writes(command) == ["open", "open"]
    assert "writes" not in command("status").stdout


def test_states_are_json(command: Run) -> None:
    plan = json.loads(command("pause-writes", "--broker", "broker-b", "--dry-run", "--json").stdout)
    assert (plan["broker_name"], plan["paused"], plan["others"]) == ("broker-b", False, ["broker-a"])
    done = command("pause-writes", "--broker", "broker-b", "--grace", "0s", "--yes", "--json")
    assert [json.loads(line)["writes"] for line in done.stdout.splitlines()] == ["leaving", "paused"]
    state = json.loads(command("resume-writes", "--broker", "broker-b", "--json").stdout)
    assert (state["paused"], state["unrouted_at"]) == (False, [])


def test_bad_input_is_said_in_one_line(command: Run) -> None:
    for verb in ("pause-writes", "resume-writes"):
        assert command(verb).returncode == 2
        assert "no name server knows a broker 'x'" in one_line_error(command(verb, "--broker", "x", "--yes"))
    assert command("pause-writes", "--broker", "broker-a", "--grace", "long").returncode == 2


def test_a_pause_that_is_stopped_says_what_is_left_and_is_taken_back(command: Run, pair: LocalCluster) -> None:
    words = ["cluster", "pause-writes", "--broker", "broker-a", "--grace", "1h", "--yes", "-n", pair.namesrv]
    process = Popen([sys.executable, "-m", "pyromq.cli.main", *words], stdout=PIPE, stderr=PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline().startswith("broker-a: name servers route no sends to it")
    process.send_signal(SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors == (
        "stopped: broker-a takes messages, and name servers may route none to it; the same command goes on,"
        " `pyromq cluster resume-writes --broker broker-a` takes it back\n"
    )
    assert writes(command) == ["leaving", "open"]
    assert command("resume-writes", "--broker", "broker-a").returncode == 0
    assert writes(command) == ["open", "open"]
