"""`pyromq cluster clean`."""

from __future__ import annotations

import json

from pyromq import blocking
from pyromq.protocol.messages.message import Message
from pyromq.testing import LocalCluster
from tests.cli.commands.cluster.conftest import Run
from tests.cli.conftest import one_line_error


def test_what_nobody_needs_is_named_and_deleted_after_a_question(command: Run, pair: LocalCluster) -> None:
    server = pair.brokers[0].server
    assert server is not None
    with blocking.Producer("test", pair.namesrv) as producer:
        for _ in range(16):
            producer.send(Message(topic="lost", body=b"x"))
    del server.topics.by_name["lost"]
    clean = "clean", "--unused-topics", "--broker", "broker-a"
    assert command(*clean, "--dry-run").stdout == "broker-a: unused topics: 1 would go: lost\n"
    done = command(*clean, text="n\n")
    assert "broker-a: unused topics: 1 would go: lost. Delete that?" in done.stderr
    assert done.returncode == 1
    assert "lost" in server.store.topics
    assert command(*clean, "--yes").stdout == "broker-a: unused topics: 1 deleted: lost\n"
    assert "lost" not in server.store.topics
    found = [json.loads(line) for line in command("clean", "--all", "--dry-run", "--json").stdout.splitlines()]
    assert [one["broker_name"] for one in found] == ["broker-a", "broker-b"]
    assert found[0] | {"address": ""} == {
        "broker_name": "broker-a",
        "address": "",
        "expired_files": 0,
        "expired_bytes": 0,
        "expired_queue_count": 0,
        "expired_queues": [],
        "unused_topic_count": 0,
        "unused_topics": [],
    }
    done = command("clean", "--all", "--yes")
    assert done.returncode == 0, done.stderr
    assert "broker-b: expired files: 0 of 0 bytes deleted" in done.stdout


def test_bad_input_deletes_nothing(command: Run) -> None:
    done = command("clean")
    assert done.returncode == 2
    assert "what? give --expired-files" in done.stderr
    assert "no name server knows a broker 'x'" in one_line_error(command("clean", "--all", "--broker", "x", "--yes"))
