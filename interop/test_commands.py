"""Our commands on Apache's broker and on ours: each does its work, or says in one line what RocketMQ 4.9 cannot do."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from interop.servers import Broker, Kind, NameServer, pyromq_command
from interop.toolkit import Toolkit
from pyromq import Message, MessageExt, blocking
from pyromq.testing import wait_until

KINDS: tuple[Kind, ...] = ("apache", "pyromq")


class Terminal:
    """A cluster and `pyromq`."""

    def __init__(self, kind: Kind, namesrv: str) -> None:
        self.is_apache = kind == "apache"
        self.namesrv = namesrv

    def run(self, line: str, *more: str, code: int = 0) -> str:
        """Run a command and return what it printed; its errors are one line."""
        command = pyromq_command(*line.split(), *more)
        environment = {**os.environ, "NAMESRV_ADDR": self.namesrv, "COLUMNS": "200"}
        done = subprocess.run(command, capture_output=True, text=True, timeout=180, env=environment)
        assert done.returncode == code, (line, done.stdout, done.stderr)
        if code:
            assert done.stderr.count("\n") == 1, done.stderr
            assert done.stderr.startswith("pyromq: ")
        return done.stderr if code else done.stdout

    def rows(self, line: str, *more: str) -> list[dict[str, Any]]:
        """Run a command with --json and return its lines."""
        return [json.loads(row) for row in self.run(line, *more, "--json").splitlines()]

    def or_cannot(self, line: str, reason: str) -> str:
        """Run a command that Apache's broker cannot serve: there it says so."""
        said = self.run(line, code=1 if self.is_apache else 0)
        assert not self.is_apache or reason in said, said
        return said


@pytest.fixture(scope="module", params=KINDS)
def terminal(
    request: pytest.FixtureRequest, toolkit: Toolkit, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Terminal]:
    kind: Kind = request.param
    directory = tmp_path_factory.mktemp(kind)
    with ExitStack() as stack:
        namesrv = stack.enter_context(NameServer(kind, toolkit, directory / "namesrv")).address
        stack.enter_context(Broker(kind, toolkit, directory, namesrv, {"traceTopicEnable": "true"}))
        yield Terminal(kind, namesrv)


def test_topics_are_created_changed_resized_and_deleted(terminal: Terminal) -> None:
    terminal.run("topic create made --queues 8")
    assert "already exists" in terminal.run("topic create made", code=1)
    assert [row["topic"] for row in terminal.rows("topic list")] == ["made"]
    terminal.run("topic set made --perm r --dry-run")
    terminal.run("topic set made --perm r")
    assert "may not be written" in terminal.run("send made x", code=1)
    terminal.run("topic set made --perm rw")
    terminal.run("topic set made --order")
    terminal.run("topic set made --no-order")
    terminal.run("send made x --count 40")
    assert len(terminal.rows("tail made --group drains --from earliest --count 40")) == 40
    terminal.run("topic resize made --queues 12")
    terminal.run("topic resize made --queues 4 --settle 1s --yes")
    (found,) = terminal.rows("topic describe made")
    assert len(found["queues"]) == 4
    assert terminal.rows("topic delete made --dry-run")[0]["messages"] == sum(
        row["messages"] for row in found["queues"]
    )
    terminal.run("topic delete made --yes")
    assert "no broker has the topic" in terminal.run("topic describe made", code=1)
    assert terminal.run("topic list") == "there are no topics\n"


def test_a_topic_that_is_created_again_is_consumed_from_its_beginning(terminal: Terminal) -> None:
    """Apache's broker keeps the offsets of a deleted topic: a group would miss the first messages of a new one."""
    for _ in range(2):
        terminal.run("topic create again --queues 2")
        terminal.run("send again x --count 6")
        assert len(terminal.rows("tail again --group returns --from earliest --count 6")) == 6
        terminal.run("topic delete again --yes")


def test_messages_are_sent_found_and_shown(terminal: Terminal) -> None:
    terminal.run("topic create sent --queues 2")
    (result,) = terminal.rows("send sent --key k1 --tag a", '{"amount": 5}')
    found = [
        *terminal.rows("message find sent --key k1"),
        *terminal.rows("message find sent --id", result["message_id"]),
        *terminal.rows("message find sent --time 10m"),
        *terminal.rows("message find sent --body", "body.amount > 4"),
        *terminal.rows("message show", result["message_id"]),
        *terminal.rows("message show --topic sent", f"broker-a:{result['queue_id']}:{result['queue_offset']}"),
    ]
    assert {row["message_id"] for row in found} == {result["message_id"]}
    assert len(found) == 6
    assert "no message of topic" in terminal.run("message find sent --id C0000202713E7CADA6A554F99B230003", code=1)
    assert "no traces of message" in terminal.run(f"message trace {result['message_id']}", code=1)
    terminal.run("send sent later --level 1")
    terminal.or_cannot("send sent later --delay 2h", "it has no timer for any delay, only levels")
    terminal.or_cannot("message pending", "is not PyroMQ's: it has no timer")


def test_groups_are_shown_moved_copied_and_deleted(terminal: Terminal) -> None:
    terminal.run("topic create grouped --queues 2")
    terminal.run("send grouped x --count 4")
    terminal.rows("tail grouped --group readers --from earliest --count 4")
    assert {row["group"]: row["lag"] for row in terminal.rows("group list")}["readers"] == 0
    assert terminal.rows("group describe readers")[0]["lag"] == 0
    terminal.run("group set readers retry_max_times=3")
    terminal.run("group reset readers --topic grouped --to earliest --dry-run")
    terminal.run("group reset readers --topic grouped --to earliest --yes")
    assert terminal.rows("group describe readers")[0]["lag"] == 4
    terminal.run("group clone readers copies --topic grouped --yes")
    assert "no members" in terminal.run("group advise readers", code=1)
    terminal.run("group delete copies --yes")
    assert "no broker knows the group 'copies'" in terminal.run("group describe copies", code=1)


def test_dead_letters_are_listed_shown_exported_and_sent_again(terminal: Terminal, tmp_path: Path) -> None:
    terminal.run("topic create failing --queues 1")
    terminal.run("group set failed retry_max_times=0")
    assert terminal.run("dlq list") == "no group has dead letters\n"

    def listener(messages: list[MessageExt]) -> Any:
        raise RuntimeError("never")

    with blocking.PushConsumer("failed", terminal.namesrv, {"failing": "*"}, listener, start_from="earliest"):
        with blocking.Producer("failing", terminal.namesrv) as producer:
            producer.send(Message(topic="failing", body=b"x"))
            shown = terminal.rows("cluster clients --group failing")
            assert [row["client_id"] for row in shown] == [producer.client_id]
        wait_until(lambda: terminal.rows("dlq list"), seconds=60)
    assert [row["group"] for row in terminal.rows("dlq list")] == ["failed"]
    assert len(terminal.rows("dlq show failed")) == 1
    terminal.run(f"dlq export failed {tmp_path}/letters.jsonl")
    assert len((tmp_path / "letters.jsonl").read_text().splitlines()) == 1
    terminal.run("dlq resend failed --all --dry-run")
    terminal.run("dlq resend failed --all --yes")


def test_the_cluster_is_shown_configured_paused_and_cleaned(terminal: Terminal) -> None:
    (status,) = terminal.rows("cluster status")
    assert [broker["broker_name"] for broker in status["brokers"]] == ["broker-a"]
    assert {row["key"] for row in terminal.rows("cluster config --all")} >= {"deleteWhen", "fileReservedTime"}
    assert "04 -> 05" in terminal.run("cluster config set deleteWhen=05 --broker broker-a --yes")
    terminal.run("cluster config --name-servers")
    terminal.run("cluster kv set space key value")
    assert terminal.run("cluster kv get space key") == "value\n"
    terminal.run("cluster kv delete space key --yes")
    terminal.run("cluster clean --all --yes")
    assert "no slave" in terminal.run("cluster promote broker-a --yes", code=1)
    terminal.run("cluster pause-writes --broker broker-a --yes --grace 1s")
    terminal.run("cluster resume-writes --broker broker-a --yes")
    terminal.or_cannot("transaction list", "cannot list transactions: it is not PyroMQ's")
    assert "aclEnable" in terminal.run("acl list", code=1)


def test_health_is_judged(terminal: Terminal, tmp_path: Path) -> None:
    assert "all is well" in terminal.run("doctor")
    assert all(row["status"] in ("ok", "skipped") for row in terminal.rows("doctor"))
    assert terminal.run("check").startswith("OK")
    for view in ("groups", "topics", "brokers"):
        terminal.run(f"top --once --view {view}")
    (overview,) = terminal.rows("top --once")
    assert bool(overview["topics"]) != terminal.is_apache
    assert overview["brokers_without_topics"] == (["broker-a"] if terminal.is_apache else [])
    terminal.run(f"debug bundle --out {tmp_path}/bundle.tgz")
    terminal.run("bench send --count 1000")
