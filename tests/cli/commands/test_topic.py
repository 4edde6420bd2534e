"""`pyromq topic` as an operator uses it, against a real cluster."""

from __future__ import annotations

import json
from collections.abc import Iterator
from subprocess import CompletedProcess

import pytest

from pyromq import Message, blocking
from pyromq.testing import LocalCluster
from tests.cli.conftest import one_line_error, pyromq_here


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """A cluster with a topic of four queues, eight messages, and a group that consumes nothing."""
    with LocalCluster() as running:
        with blocking.Producer("shop", running.namesrv) as producer:
            for number in range(8):
                producer.send(Message(topic="orders", body=b"%d" % number))
        with blocking.LitePullConsumer("billing", running.namesrv, {"orders": "*"}):
            yield running


def command(cluster: LocalCluster, *arguments: str) -> CompletedProcess[str]:
    return pyromq_here("topic", *arguments, "-n", cluster.namesrv)


def topic(cluster: LocalCluster, *arguments: str) -> list[str]:
    """Run a verb, check that it succeeds, and return the lines it printed."""
    done = command(cluster, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_list_shows_queues_and_rights(cluster: LocalCluster) -> None:
    (line,) = topic(cluster, "list", "--json")
    assert json.loads(line) == {
        "topic": "orders",
        "kind": "topic",
        "brokers": ["broker-a"],
        "read_queues": 4,
        "write_queues": 4,
        "perm": "rw",
    }
    names = {json.loads(line)["topic"] for line in topic(cluster, "list", "--json", "--all")}
    assert names >= {"orders", "%RETRY%billing", "TBW102"}
    assert any("orders" in line and "broker-a" in line for line in topic(cluster, "list"))


def test_describe_shows_queues_and_groups(cluster: LocalCluster) -> None:
    (line,) = topic(cluster, "describe", "orders", "--json")
    found = json.loads(line)
    assert (found["messages"], found["findings"], found["silent_brokers"]) == (8, [], {})
    queue = found["queues"][0]
    assert (queue["topic"], queue["broker_name"], queue["queue_id"], queue["messages"]) == ("orders", "broker-a", 0, 2)
    assert queue["last_store_timestamp"].endswith("Z")
    assert found["groups"] == [{"group": "billing", "members": 1, "lag": 8}]
    assert found["settings"]["broker-a"] == {"read_queue_nums": 4, "write_queue_nums": 4, "perm": 6}
    text = "\n".join(topic(cluster, "describe", "orders"))
    assert text.startswith("orders: 8 messages in 4 queues")
    assert "billing" in text


def test_a_topic_that_nobody_has_is_said_in_one_line(cluster: LocalCluster) -> None:
    assert "no broker has the topic 'nowhere'" in one_line_error(command(cluster, "describe", "nowhere"))


@pytest.mark.parametrize("columns", ["40", ""])
def test_a_long_name_can_be_read_in_any_width(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    name = "a-topic-with-a-very-long-name-that-nobody-would-choose-" * 2
    with blocking.Producer("shop", cluster.namesrv) as producer:
        producer.send(Message(topic=name, body=b"x"))
    if columns:
        monkeypatch.setenv("COLUMNS", columns)
    else:
        monkeypatch.delenv("COLUMNS", raising=False)
    shown = pyromq_here("topic", "list", "-n", cluster.namesrv).stdout
    cells = [line.strip("│").split("│")[0].strip() for line in shown.splitlines() if line.startswith("│")]
    assert name in ("".join(cells) if columns else cells)
