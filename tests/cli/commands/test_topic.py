"""`pyromq topic` as an operator uses it, against a real cluster."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from signal import SIGINT, SIGKILL, Signals
from subprocess import PIPE, CompletedProcess, Popen
from typing import Any

import pytest

from pyromq import Message, blocking
from pyromq.protocol.messages.message import MessageQueue
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


# --- create and set


def lines_of(cluster: LocalCluster, *arguments: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in topic(cluster, *arguments, "--json")]


def settings(cluster: LocalCluster, name: str) -> dict[str, Any]:
    """Return the settings of a topic on broker-a."""
    (found,) = lines_of(cluster, "describe", name)
    return {**found["settings"]["broker-a"], "order": found["order"]}


def test_create_makes_a_topic_and_says_what_it_is(cluster: LocalCluster) -> None:
    options = ("--queues", "3", "--perm", "6", "--order")
    planned = lines_of(cluster, "create", "made", *options, "--dry-run")
    assert "no broker has the topic 'made'" in one_line_error(command(cluster, "describe", "made"))
    assert planned == lines_of(cluster, "create", "made", *options)
    shape = {"read_queue_nums": 3, "write_queue_nums": 3, "perm": 6}
    assert planned == [{"topic": "made", "broker_name": "broker-a", **shape, "order": True}]
    assert settings(cluster, "made") == shape | {"order": "broker-a:3"}
    (line,) = topic(cluster, "create", "made-2", "--broker", "broker-a", "--read", "4", "--write", "2", "--perm", "r")
    assert line == "made-2 created on broker-a: 4 read and 2 write queues, r"
    (line,) = topic(cluster, "create", "made-3", "--cluster", "DefaultCluster", "--dry-run")
    assert line == "made-3 would be created on broker-a: 8 read and 8 write queues, rw"


def test_an_existing_topic_is_not_created_again(cluster: LocalCluster) -> None:
    error = one_line_error(command(cluster, "create", "orders", "--queues", "1"))
    assert "already exists on broker-a; change it with `topic set` or `topic resize`" in error
    assert settings(cluster, "orders")["read_queue_nums"] == 4


def test_set_changes_permissions_and_order(cluster: LocalCluster) -> None:
    topic(cluster, "create", "changed", "--queues", "2")
    topic(cluster, "set", "changed", "--perm", "r", "--dry-run")
    assert settings(cluster, "changed")["perm"] == 6
    (line,) = topic(cluster, "set", "changed", "--perm", "r", "--order")
    assert line == "changed changed on broker-a: 2 read and 2 write queues, r, ordered"
    assert settings(cluster, "changed") == {
        "read_queue_nums": 2,
        "write_queue_nums": 2,
        "perm": 4,
        "order": "broker-a:2",
    }
    (fields,) = lines_of(cluster, "set", "changed", "--no-order", "--broker", "broker-a")
    assert (fields["perm"], fields["order"]) == (4, False)
    assert settings(cluster, "changed")["order"] is None


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        ("create bad name", 2, "unexpected extra argument"),
        ("create b@d", 1, "characters other than"),
        ("create new --queues 0", 2, "--queues"),
        ("create new --queues 65536", 2, "--queues"),
        ("create new --queues x", 2, "--queues"),
        ("create new --queues 1 --read 1 --write 1", 2, "either --queues, or --read and --write"),
        ("create new --read 1", 2, "--read and --write belong together"),
        ("create new --perm 7", 2, "--perm"),
        ("create new --cluster c --broker b", 2, "either --cluster or --broker"),
        ("create new --cluster nowhere", 1, "there is no cluster 'nowhere'; there are DefaultCluster"),
        ("create new --broker broker-z", 1, "there is no broker 'broker-z'; did you mean broker-a?"),
        ("create TBW102", 1, "RocketMQ's own"),
        ("set orders", 2, "nothing to change"),
        ("set orders --perm x", 2, "--perm"),
        ("set ordes --perm r", 1, "no broker has the topic 'ordes'; did you mean orders?"),
        ("set orders --perm r --broker broker-z", 1, "'broker-z' does not have the topic 'orders'"),
        ("set TBW102 --perm r", 1, "RocketMQ's own"),
    ],
)
def test_what_cannot_be_done_is_said_with_an_exit_code(
    cluster: LocalCluster, arguments: str, code: int, text: str
) -> None:
    done = command(cluster, *arguments.split())
    assert done.returncode == code, done
    assert text in " ".join(done.stderr.replace("│", " ").split())
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


# --- delete and resize


def committed(cluster: LocalCluster, group: str, name: str) -> None:
    """Let a group consume all of a topic and leave."""
    with blocking.LitePullConsumer(group, cluster.namesrv, {name: "*"}, start_from="earliest") as consumer:
        while not consumer.poll():
            pass
        consumer.commit()


def send_to(cluster: LocalCluster, name: str, *queue_ids: int) -> None:
    with blocking.Producer("shop", cluster.namesrv) as producer:
        for queue_id in queue_ids:
            producer.send(Message(topic=name, body=b"x"), queue=MessageQueue(name, "broker-a", queue_id))


def test_delete_names_what_goes_and_asks(cluster: LocalCluster) -> None:
    topic(cluster, "create", "gone", "--queues", "2", "--order")
    send_to(cluster, "gone", 0)
    committed(cluster, "leaving", "gone")
    send_to(cluster, "gone", 0, 1)
    (plan,) = lines_of(cluster, "delete", "gone", "--dry-run")
    assert plan == {
        "topic": "gone",
        "brokers": {"broker-a": [cluster.brokers[0].address]},
        "queues": 2,
        "messages": 3,
        "groups": [{"group": "leaving", "members": 0, "lag": 2}],
        "retry_topics": ["%RETRY%leaving"],
        "order": "broker-a:2",
        "name_servers": [cluster.namesrv],
        "silent_slaves": {},
    }
    text = "\n".join(topic(cluster, "delete", "gone", "--dry-run"))
    for piece in ("gone would be deleted on broker-a", "3 in 2 queues", "leaving", "lag 2", "broker-a:2"):
        assert piece in text
    refused = pyromq_here("topic", "delete", "gone", "-n", cluster.namesrv, text="n\n")
    assert refused.returncode == 1
    assert "Delete gone with 3 messages, which these groups consume: leaving (lag 2, members 0)?" in refused.stderr
    assert "nothing was changed" in refused.stderr
    assert settings(cluster, "gone")["order"] == "broker-a:2"
    done = pyromq_here("topic", "delete", "gone", "--json", "-n", cluster.namesrv, text="y\n")
    assert (done.returncode, json.loads(done.stdout)) == (0, plan)
    assert "no broker has the topic 'gone'" in one_line_error(command(cluster, "delete", "gone", "--yes"))


def test_resize_grows_at_once(cluster: LocalCluster) -> None:
    topic(cluster, "create", "growing", "--queues", "2")
    assert topic(cluster, "resize", "growing", "--queues", "4", "--dry-run") == [
        "growing on broker-a: 2 read and 2 write queues, then 4 of both"
    ]
    assert settings(cluster, "growing")["read_queue_nums"] == 2
    assert topic(cluster, "resize", "growing", "--queues", "4")[-1] == "growing: 4 queues on each broker"
    shape = settings(cluster, "growing")
    assert (shape["read_queue_nums"], shape["write_queue_nums"]) == (4, 4)


def test_resize_shrinks_when_groups_have_consumed(cluster: LocalCluster) -> None:
    topic(cluster, "create", "shrinking", "--queues", "4")
    send_to(cluster, "shrinking", 0)
    committed(cluster, "late", "shrinking")
    send_to(cluster, "shrinking", 2, 3, 3)
    (plan,) = lines_of(cluster, "resize", "shrinking", "--queues", "2", "--dry-run")
    assert plan["groups"] == [{"group": "late", "members": 0, "waiting": 3}]
    assert [queue["queue_id"] for queue in plan["leaving"]] == [2, 3]
    assert "not confirmed" in command(cluster, "resize", "shrinking", "--queues", "2").stderr
    assert settings(cluster, "shrinking")["write_queue_nums"] == 4
    options = ("resize", "shrinking", "--queues", "2", "--yes", "--settle", "0s")
    stopped = command(cluster, *options, "--timeout", "0s")
    assert "of late (3); the same command goes on" in one_line_error(stopped)
    assert stopped.stdout.splitlines()[-1] == "shrinking: messages to consume in 2 queues: late 3"
    shape = settings(cluster, "shrinking")
    assert (shape["read_queue_nums"], shape["write_queue_nums"]) == (4, 2)
    lines = lines_of(cluster, *options, "--ignore-group", "late")
    assert [line["phase"] for line in lines] == ["write", "drain", "done"]
    assert lines[-1] == {
        "topic": "shrinking",
        "queues": 2,
        "phase": "done",
        "leaving": 2,
        "waiting": 0,
        "groups": [],
        "quiet_seconds": 0.0,
        "silent_brokers": {},
    }
    shape = settings(cluster, "shrinking")
    assert (shape["read_queue_nums"], shape["write_queue_nums"]) == (2, 2)


@pytest.mark.parametrize(("signal", "code"), [(SIGINT, 130), (SIGKILL, -SIGKILL)])
def test_a_resize_that_is_interrupted_or_killed_goes_on(cluster: LocalCluster, signal: Signals, code: int) -> None:
    name = f"stopped-{signal.name}"
    topic(cluster, "create", name, "--queues", "4")
    options = ("topic", "resize", name, "--queues", "2", "--yes", "-n", cluster.namesrv)
    process = Popen([sys.executable, "-m", "pyromq.cli.main", *options], stdout=PIPE, stderr=PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == f"{name}: producers have 2 queues on each broker; queues that go: 2\n"
    assert process.stdout.readline().startswith(f"{name}: all is consumed in 2 queues")
    process.send_signal(signal)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == code
    if signal == SIGINT:
        assert errors == f"stopped: {name} can be used as it is, and the same command goes on\n"
    shape = settings(cluster, name)
    assert (shape["read_queue_nums"], shape["write_queue_nums"]) == (4, 2)
    assert pyromq_here(*options, "--settle", "0s").returncode == 0
    assert settings(cluster, name)["read_queue_nums"] == 2


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        ("delete nowhere --yes", 1, "no broker has the topic 'nowhere'"),
        ("delete TBW102 --yes", 1, "RocketMQ's own"),
        ("delete orders", 1, "not confirmed, nothing was changed"),
        ("resize orders", 2, "--queues"),
        ("resize orders --queues 0", 2, "--queues"),
        ("resize orders --queues 2 --settle soon", 2, "--settle must be a duration"),
        ("resize orders --queues 2 --timeout 5", 2, "--timeout must be a duration"),
        ("resize nowhere --queues 2", 1, "no broker has the topic 'nowhere'"),
    ],
)
def test_wrong_deletions_and_sizes_are_refused(cluster: LocalCluster, arguments: str, code: int, text: str) -> None:
    done = command(cluster, *arguments.split())
    assert done.returncode == code, done
    assert text in " ".join(done.stderr.replace("│", " ").split())
    assert "Traceback" not in done.stderr
    assert settings(cluster, "orders")["write_queue_nums"] == 4
