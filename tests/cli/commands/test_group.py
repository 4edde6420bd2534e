"""`pyromq group` as an operator uses it, against a real cluster with real members."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from subprocess import CompletedProcess
from typing import Any

import pytest

from pyromq import Message, MessageExt, blocking
from pyromq.testing import LocalCluster
from tests.cli.conftest import one_line_error, pyromq_here

COUNT = 8


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """A cluster whose group `billing` is stuck with the first of eight orders, in four queues."""
    gate = threading.Event()

    def listen(message: MessageExt) -> None:
        gate.wait(60)

    with LocalCluster() as running:
        with blocking.Producer("shop", running.namesrv) as producer:
            for number in range(COUNT):
                producer.send(Message(topic="orders", body=b"%d" % number, tags="paid", keys=[f"o-{number}"]))
        with blocking.PushConsumer("billing", running.namesrv, {"orders": "*"}, listen, start_from="earliest"):
            yield running
            gate.set()


def command(cluster: LocalCluster, *arguments: str, text: str = "") -> CompletedProcess[str]:
    return pyromq_here("group", *arguments, "-n", cluster.namesrv, text=text)


def group(cluster: LocalCluster, *arguments: str, text: str = "") -> list[str]:
    """Run a verb, check that it succeeds, and return the lines it printed."""
    done = command(cluster, *arguments, text=text)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def described(cluster: LocalCluster) -> dict[str, Any]:
    """Return the description of `billing` after its listener has worked for a moment."""
    deadline = time.monotonic() + 30
    while True:
        (line,) = group(cluster, "describe", "billing", "--json", "--watch", "10ms", "--slow", "10ms")
        found: dict[str, Any] = json.loads(line)
        if sum(queue["blocked"] is not None for queue in found["queues"]) == 4 or time.monotonic() > deadline:
            return found


def test_list_shows_members_topics_and_lag(cluster: LocalCluster) -> None:
    listed = [json.loads(line) for line in group(cluster, "list", "--json")]
    expected = {"group": "billing", "members": 1, "model": "CLUSTERING", "topics": ["orders"], "lag": COUNT}
    assert [found for found in listed if found["group"] == "billing"] == [expected]
    names = {json.loads(line)["group"] for line in group(cluster, "list", "--json", "--all")}
    assert names >= {"billing", "TOOLS_CONSUMER"}
    assert any("billing" in line and "clustering" in line for line in group(cluster, "list"))


def test_advise_names_the_bottleneck_threads_and_members(cluster: LocalCluster) -> None:
    done = threading.Semaphore(0)

    def listen(message: MessageExt) -> None:
        done.release()

    with blocking.PushConsumer("advised", cluster.namesrv, {"orders": "*"}, listen, start_from="earliest"):
        for _ in range(COUNT):
            assert done.acquire(timeout=30)
        (line,) = group(cluster, "advise", "advised", "--peak", "100", "--watch", "0s", "--json")
        text = group(cluster, "advise", "advised", "--peak", "100", "--watch", "10ms")
    found = json.loads(line)
    assert (found["group"], found["bottleneck"], found["peak_per_second"]) == ("advised", "none", 100.0)
    assert (found["cores"], found["queues"], found["nodes"]) == (1, 4, 1)
    assert found["threads"] >= 1
    (member,) = found["members"]
    assert (member["language"], member["threads"], member["missing"]) == ("PYTHON", 20, None)
    assert member["measured"] >= 1
    assert text[0].startswith("advised: 1 member; 0 messages wait")
    assert any(row.startswith("bottleneck: none") for row in text)
    assert any(row.startswith("threads: ") and "1 core * (" in row for row in text)
    assert any(row.startswith("members: 1 for the peak, 100.0/s / ") for row in text)


def test_advise_says_what_is_missing(cluster: LocalCluster) -> None:
    text = group(cluster, "advise", "billing", "--watch", "0s")
    assert "threads: not known, no member measured the CPU time of a message" in text
    assert any("it has finished no message within the last hour" in row for row in text)
    assert "no broker knows the group 'biling'; did you mean billing?" in one_line_error(
        command(cluster, "advise", "biling", "--watch", "0s")
    )
    assert command(cluster, "advise", "billing", "--watch", "soon").returncode == 2
    assert command(cluster, "advise", "billing", "--peak", "-1").returncode == 2


def test_describe_tells_all_as_json(cluster: LocalCluster) -> None:
    found = described(cluster)
    assert (found["group"], found["model"], found["lag"]) == ("billing", "CLUSTERING", COUNT)
    (member,) = found["members"]
    assert (member["language"], member["version"], member["idle"], member["silence"]) == (
        "PYTHON",
        "4.9.8",
        False,
        None,
    )
    assert member["started"].endswith("Z")
    queue = found["queues"][0]
    assert (queue["topic"], queue["broker_name"], queue["queue_id"]) == ("orders", "broker-a", 0)
    assert (queue["committed_offset"], queue["end_offset"], queue["lag"], queue["held"]) == (0, 2, 2, 2)
    assert queue["owners"] == [member["client_id"]]
    assert queue["behind_seconds"] >= queue["head"]["listening_seconds"] > 0
    assert queue["head"]["keys"][0].startswith("o-")
    assert queue["blocked"].startswith(f"the listener has had message {queue['head']['message_id']} at offset 0")
    assert found["settings"]["broker-a"]["retry_max_times"] == 16
    assert (found["retries"], found["dead_letters"]) == ({"topic": "%RETRY%billing", "messages": 0}, None)
    assert len(found["findings"]) == 4


def test_describe_tells_all_to_people(cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    described(cluster)
    text = "\n".join(group(cluster, "describe", "billing", "--watch", "10ms", "--slow", "10ms"))
    assert text.startswith("billing: clustering, push, 1 member; 8 messages wait, the first for ")
    assert "subscribes to orders (*)" in text
    assert "PYTHON" in text
    assert "! orders broker-a:0 with 2 waiting: the listener has had message" in text
    assert "retries: 0 in %RETRY%billing, dead letters: none" in text


def test_a_group_that_only_has_offsets_is_shown(cluster: LocalCluster) -> None:
    consumer = blocking.LitePullConsumer("stream", cluster.namesrv, {"orders": "*"}, start_from="earliest")
    with consumer:
        while not consumer.poll(timeout=1):
            pass
        consumer.commit()
    text = "\n".join(group(cluster, "describe", "stream", "--watch", "0s"))
    assert text.startswith("stream: no members, only offsets; ")


def leave_offsets(cluster: LocalCluster, name: str) -> None:
    """Let a group commit its offsets and leave."""
    with blocking.LitePullConsumer(name, cluster.namesrv, {"orders": "*"}, start_from="earliest") as consumer:
        count = 0
        while count < COUNT:
            count += len(consumer.poll(timeout=1))
        consumer.commit()


def test_reset_shows_asks_and_does(cluster: LocalCluster) -> None:
    leave_offsets(cluster, "audit")
    moves = [f"orders broker-a:{number} 2 -> 0" for number in range(4)]
    assert group(cluster, "reset", "audit", "--to", "earliest", "--dry-run") == moves
    no = command(cluster, "reset", "audit", "--to", "earliest", text="n\n")
    assert no.returncode == 1
    assert "Move audit in 4 queues: 8 messages are delivered again, 0 are skipped?" in no.stderr
    assert group(cluster, "reset", "audit", "--to", "earliest", "--dry-run") == moves, "nothing happened so far"
    assert group(cluster, "reset", "audit", "--to", "earliest", "--yes") == moves
    assert group(cluster, "reset", "audit", "--to", "1", "--topic", "orders", "--dry-run")[0].endswith(" 0 -> 1")
    assert group(cluster, "reset", "audit", "--to", "2001-01-31T12:00", "--dry-run")[0].endswith(" 0 -> 0")


def test_clone_and_delete_show_ask_and_do(cluster: LocalCluster) -> None:
    leave_offsets(cluster, "source")
    assert group(cluster, "clone", "source", "copy", "--dry-run") == ["broker-a: orders"]
    assert command(cluster, "describe", "copy").returncode == 1
    (line,) = group(cluster, "clone", "source", "copy", text="y\n")
    assert line.strip() == "broker-a: orders"
    assert json.loads(group(cluster, "describe", "copy", "--json")[0])["lag"] == 0
    assert group(cluster, "delete", "copy", "--dry-run") == ["copy would be deleted on broker-a"]
    assert command(cluster, "delete", "copy", text="n\n").returncode == 1
    assert group(cluster, "delete", "copy", "--yes") == ["copy deleted on broker-a"]
    assert command(cluster, "describe", "copy").returncode == 1


def test_set_makes_and_changes_a_group(cluster: LocalCluster) -> None:
    assert json.loads(group(cluster, "set", "new", "retry_max_times=3", "--dry-run")[0])["retry_max_times"] == 3
    assert command(cluster, "describe", "new").returncode == 1
    (line,) = group(cluster, "set", "new", "retry_max_times=3", "consume_enable=false")
    found = json.loads(line)
    assert (found["broker_name"], found["retry_max_times"], found["consume_enable"]) == ("broker-a", 3, False)
    assert "its consumeEnable is false" in "\n".join(group(cluster, "describe", "new"))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("describe", "biling"), "no broker knows the group 'biling'; did you mean billing?"),
        (("describe", "no such name"), "no broker knows the group 'no such name'"),
        (("reset", "billing", "--to", "7"), "but not to an offset: stop its members first: "),
        (("clone", "nobody", "copy"), "no broker knows the group 'nobody'"),
        (("set", "billing", "retries=1"), "a group has no setting 'retries'"),
        (("set", "billing", "consume_enable=true", "--broker", "x"), "there is no broker 'x'"),
        (("delete", "billing", "--yes"), "cannot be deleted: stop its members first: "),
    ],
)
def test_a_mistake_is_one_line(cluster: LocalCluster, arguments: tuple[str, ...], said: str) -> None:
    assert said in one_line_error(command(cluster, *arguments))


@pytest.mark.parametrize(
    "arguments",
    [
        ("describe", "billing", "--watch", "soon"),
        ("reset", "billing"),
        ("reset", "billing", "--to", "yesterday"),
        ("set", "billing", "consume_enable"),
        ("set", "billing", "consume_enable=maybe"),
    ],
)
def test_wrong_usage_is_told_as_such(cluster: LocalCluster, arguments: tuple[str, ...]) -> None:
    assert command(cluster, *arguments).returncode == 2


def test_no_name_server_is_said_in_one_line() -> None:
    assert "127.0.0.1:1" in one_line_error(pyromq_here("group", "list", "-n", "127.0.0.1:1"))
