"""`pyromq tail` as a person uses it."""

from __future__ import annotations

import json

import pytest

from tests.cli.conftest import Servers, pyromq_here


def test_tail_filters_by_tag(servers: Servers) -> None:
    for tag in ("a", "b", "a"):
        assert pyromq_here("send", "tagged", tag, "--tag", tag, "-n", servers.namesrv).returncode == 0
    tailed = pyromq_here(
        "tail", "tagged", "-n", servers.namesrv, "--tag", "a", "--from", "earliest", "--count", "2", "--json"
    )
    assert [json.loads(line)["tags"] for line in tailed.stdout.splitlines()] == ["a", "a"]


@pytest.mark.parametrize("group", [(), ("--group", "sql-readers")])
def test_tail_filters_by_sql(servers: Servers, group: tuple[str, ...]) -> None:
    topic = f"priced-{len(group)}"
    for amount in ("5", "15", "25", "much"):
        sent = pyromq_here(
            "send", topic, amount, "--property", f"amount={amount}", "-n", servers.namesrv, "--queue", "0"
        )
        assert sent.returncode == 0, sent.stderr
    options = ("--sql", "amount > 10", "--from", "earliest", "--count", "2", "--json", *group)
    tailed = pyromq_here("tail", topic, "-n", servers.namesrv, *options)
    assert tailed.returncode == 0, tailed.stderr
    assert [json.loads(line)["body"] for line in tailed.stdout.splitlines()] == ["15", "25"]


def test_a_group_continues_where_its_last_tail_ended(servers: Servers) -> None:
    text = "".join(f"{number}\n" for number in range(4))
    assert pyromq_here("send", "grouped", "-", "-n", servers.namesrv, "--queue", "0", text=text).returncode == 0
    arguments = (
        "tail",
        "grouped",
        "-n",
        servers.namesrv,
        "--group",
        "g1",
        "--from",
        "earliest",
        "--count",
        "2",
        "--json",
    )
    first, second = pyromq_here(*arguments), pyromq_here(*arguments)
    bodies = [json.loads(line)["body"] for done in (first, second) for line in done.stdout.splitlines()]
    assert bodies == ["0", "1", "2", "3"]
