"""`pyromq cluster kv`."""

from __future__ import annotations

import json

from tests.cli.commands.cluster.conftest import Run
from tests.cli.conftest import one_line_error


def test_values_are_set_listed_shown_and_deleted(command: Run) -> None:
    assert command("kv", "list", "space").stdout == "the namespace space has no values\n"
    assert command("kv", "set", "space", "key", "one", "--dry-run").stdout == "space key: no value -> 'one'\n"
    assert command("kv", "set", "space", "key", "one").stdout == "space key: no value -> 'one'\n"
    assert command("kv", "get", "space", "key").stdout == "one\n"
    done = command("kv", "set", "space", "key", "two", text="n\n")
    assert done.returncode == 1
    assert "space key: 'one' -> 'two'. Change that?" in done.stderr
    assert command("kv", "set", "space", "key", "two", "--yes").returncode == 0
    (line,) = command("kv", "list", "space", "--json").stdout.splitlines()
    assert json.loads(line) == {"namespace": "space", "key": "key", "value": "two", "others": {}}
    assert json.loads(command("kv", "get", "space", "key", "--json").stdout)["value"] == "two"
    rows = [
        [cell.strip() for cell in row.split("│")[1:-1]] for row in command("kv", "list", "space").stdout.splitlines()
    ]
    assert ["key", "two"] in rows
    assert command("kv", "delete", "space", "key", "--dry-run").stdout == "space key would be deleted: 'two'\n"
    assert command("kv", "delete", "space", "key", text="n\n").returncode == 1
    assert command("kv", "delete", "space", "key", "--yes").stdout == "space key deleted: 'two'\n"
    assert command("kv", "list", "space", "--json").stdout == ""


def test_bad_input_is_said_in_one_line(command: Run) -> None:
    assert "has no key 'none'" in one_line_error(command("kv", "get", "space", "none"))
    assert "has no key 'none'" in one_line_error(command("kv", "delete", "space", "none", "--yes"))
    assert "neither may be empty" in one_line_error(command("kv", "set", "space", "", "x"))
    assert "an order setting is broker:queues" in one_line_error(
        command("kv", "set", "ORDER_TOPIC_CONFIG", "orders", "eight")
    )
    assert command("kv", "set", "space").returncode == 2
