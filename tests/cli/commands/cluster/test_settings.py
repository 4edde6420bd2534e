"""`pyromq cluster config` as an operator uses it."""

from __future__ import annotations

import json

import pytest

from pyromq.testing import LocalCluster
from tests.cli.commands.cluster.conftest import Run
from tests.cli.conftest import one_line_error


def value(command: Run, key: str, *more: str) -> list[str]:
    done = command("config", "get", key, "--json", *more)
    assert done.returncode == 0, done.stderr
    return [json.loads(line)["value"] for line in done.stdout.splitlines()]


def test_what_differs_is_shown_and_all_on_request(command: Run, pair: LocalCluster) -> None:
    done = command("config", "--broker", "broker-b")
    assert done.returncode == 0, done.stderr
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in done.stdout.splitlines() if "│" in line]
    assert ["broker-b", "brokerName", "broker-b", "broker-a", ""] in rows
    assert not [row for row in rows if row[1] == "fileReservedTime"]
    done = command("config", "--broker", "broker-b", "--all", "--json")
    found = {one["key"]: one for one in map(json.loads, done.stdout.splitlines())}
    assert found["fileReservedTime"] == {
        "broker_name": "broker-b",
        "broker_id": 0,
        "address": pair.brokers[1].address,
        "key": "fileReservedTime",
        "value": "72",
        "default": "72",
        "differs": False,
        "changeable": True,
    }
    assert found["haSecret"]["value"] == ""


def test_a_setting_is_changed_after_a_question_and_not_by_a_dry_run(command: Run) -> None:
    assignment = "fileReservedTime=48"
    done = command("config", "set", assignment, "--dry-run")
    assert done.stdout.splitlines() == [
        "broker-a: fileReservedTime 72 -> 48",
        "broker-b: fileReservedTime 72 -> 48",
    ]
    done = command("config", "set", assignment, text="n\n")
    assert done.returncode == 1
    assert "broker-a: fileReservedTime 72 -> 48; broker-b: fileReservedTime 72 -> 48. Change that?" in done.stderr
    assert value(command, "fileReservedTime") == ["72", "72"]
    done = command("config", "set", assignment, "--broker", "broker-b", "--yes", "--json")
    (line,) = done.stdout.splitlines()
    assert json.loads(line)["before"] == "72"
    assert value(command, "fileReservedTime") == ["72", "48"]
    assert command("config", "set", "fileReservedTime=72", text="y\n").returncode == 0
    assert value(command, "fileReservedTime") == ["72", "72"]


def test_the_settings_of_name_servers_are_shown_and_changed(command: Run, pair: LocalCluster) -> None:
    done = command("config", "--name-servers")
    assert f"namesrv {pair.namesrv}" in done.stdout
    done = command("config", "set", "orderMessageEnable=true", "--name-servers", "--yes")
    assert done.stdout == f"namesrv {pair.namesrv}: orderMessageEnable false -> true\n"
    assert value(command, "orderMessageEnable", "--name-servers") == ["true"]
    assert command("config", "set", "orderMessageEnable=false", "--name-servers", "--yes").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["put", "x"], "it is get or set, not 'put'"),
        (["set"], "set needs KEY=VALUE"),
        (["get"], "get needs a KEY"),
        (["set", "deleteWhen"], "must be key=value, not 'deleteWhen'"),
        (["--broker", "a", "--name-servers"], "either --broker or --name-servers"),
    ],
)
def test_wrong_usage_is_exit_code_2(command: Run, arguments: list[str], problem: str) -> None:
    done = command("config", *arguments)
    assert done.returncode == 2
    assert problem in done.stderr


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["get", "fileReservedTme"], "there is no setting 'fileReservedTme'; did you mean fileReservedTime?"),
        (["set", "fileReservedTime=soon", "--yes"], "fileReservedTime must be a whole number, not 'soon'"),
        (["set", "listenPort=1", "--yes"], "set it in its configuration file and restart it"),
        (["--broker", "broker-x"], "no name server knows a broker 'broker-x'; did you mean broker-"),
    ],
)
def test_a_failure_is_one_line(command: Run, arguments: list[str], problem: str) -> None:
    assert problem in one_line_error(command("config", *arguments))
