"""Apache's own C++ client, from PyPI's rocketmq 0.4.4, with our name server and broker."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import platform
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyromq import Message, blocking
from pyromq.broker.server import Broker
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.testing import LocalCluster

COUNT = 20

pytestmark = [
    pytest.mark.skipif(
        platform.system() != "Linux" or platform.machine() != "x86_64",
        reason="PyPI's rocketmq has wheels for Linux x86-64 only",
    ),
    pytest.mark.skipif(importlib.util.find_spec("rocketmq") is None, reason="PyPI's rocketmq is not installed"),
]

SCENARIOS = Path(__file__).with_name("cpp_scenarios.py")


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster() as running:
        yield running


def run_scenario(name: str, cluster: LocalCluster, topic: str, home: Path) -> list[dict[str, Any]]:
    """Run a scenario in a separate process and return its output."""
    command = [sys.executable, str(SCENARIOS), name, cluster.namesrv, topic]
    environment = {**os.environ, "HOME": str(home)}  # it writes its logs there
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, env=environment)
    facts = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert facts, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}\n{client_log(home)}"
    return facts


def client_log(home: Path) -> str:
    """Return the last lines of the client's log."""
    return "\n".join(path.read_text(errors="replace")[-4000:] for path in home.rglob("*.log"))


def read_all(cluster: LocalCluster, topic: str, count: int) -> list[Any]:
    with blocking.LitePullConsumer("ours", cluster.namesrv, {topic: "*"}, start_from="earliest") as consumer:
        messages: list[Any] = []
        while len(messages) < count:
            found = consumer.poll(timeout=10.0)
            assert found, f"only {len(messages)} of {count} came"
            messages += found
        assert consumer.poll(timeout=0.2) == []
    return messages


def fill(cluster: LocalCluster, topic: str) -> None:
    with blocking.Producer("ours", cluster.namesrv) as producer:
        for number in range(COUNT):
            producer.send(
                Message(
                    topic=topic,
                    body=b"body %d" % number,
                    tags="odd" if number % 2 else "even",
                    keys=[f"k-{number}"],
                    properties={"number": str(number)},
                )
            )


def test_it_sends_and_we_read(cluster: LocalCluster, tmp_path: Path) -> None:
    said = run_scenario("send_sync", cluster, "cpp-sync", tmp_path)
    assert [fact["status"] for fact in said] == [0] * COUNT
    messages = read_all(cluster, "cpp-sync", COUNT)
    by_number = {int(message.properties["number"]): message for message in messages}
    assert sorted(by_number) == list(range(COUNT))
    for number, message in by_number.items():
        assert message.body == b"body %d" % number
        assert message.tags == ("odd" if number % 2 else "even")
        assert message.keys == (f"k-{number}",)
        assert message.message_id == said[number]["message_id"]


def test_its_async_sends_are_answered(cluster: LocalCluster, tmp_path: Path) -> None:
    said = run_scenario("send_async", cluster, "cpp-async", tmp_path)
    assert [fact.get("status", fact) for fact in said] == [0] * (COUNT - 1)
    messages = read_all(cluster, "cpp-async", COUNT)
    assert {message.body for message in messages} == {b"body %d" % number for number in range(COUNT)}
    assert {fact["message_id"] for fact in said} < {message.message_id for message in messages}


def test_its_oneway_sends_arrive(cluster: LocalCluster, tmp_path: Path) -> None:
    run_scenario("send_oneway", cluster, "cpp-oneway", tmp_path)
    assert len(read_all(cluster, "cpp-oneway", COUNT)) == COUNT


def test_its_batch_is_stored_as_single_messages(cluster: LocalCluster, tmp_path: Path) -> None:
    (said,) = run_scenario("send_batch", cluster, "cpp-batch", tmp_path)
    assert said["status"] == 0
    messages = read_all(cluster, "cpp-batch", COUNT)
    assert {message.body for message in messages} == {b"body %d" % number for number in range(COUNT)}


def test_its_ordered_sends_keep_their_order(cluster: LocalCluster, tmp_path: Path) -> None:
    said = run_scenario("send_orderly", cluster, "cpp-orderly", tmp_path)
    assert [fact["offset"] for fact in said] == list(range(COUNT))
    messages = read_all(cluster, "cpp-orderly", COUNT)
    assert [message.body for message in messages] == [b"body %d" % number for number in range(COUNT)]


def test_its_compressed_body_is_read(cluster: LocalCluster, tmp_path: Path) -> None:
    run_scenario("send_large", cluster, "cpp-large", tmp_path)
    (message,) = read_all(cluster, "cpp-large", 1)
    assert message.body == b"x" * 100_000
    assert message.sys_flag & 1


def test_it_pulls_what_we_sent(cluster: LocalCluster, tmp_path: Path) -> None:
    fill(cluster, "cpp-pull")
    said = run_scenario("pull", cluster, "cpp-pull", tmp_path)
    assert len(said) == COUNT
    for fact in said:
        number = int(fact["number"])
        assert fact["topic"] == "cpp-pull"
        assert fact["body"] == f"body {number}"
        assert fact["tags"] == ("odd" if number % 2 else "even")
        assert fact["keys"] == f"k-{number}"
    assert sorted(int(fact["number"]) for fact in said) == list(range(COUNT))


def test_its_concurrent_push_consumer_gets_everything(cluster: LocalCluster, tmp_path: Path) -> None:
    fill(cluster, "cpp-concurrent")
    said = run_scenario("push_concurrently", cluster, "cpp-concurrent", tmp_path)
    assert sorted(fact["body"] for fact in said) == sorted(f"body {number}" for number in range(COUNT))


def test_its_orderly_push_consumer_gets_every_queue_in_order(cluster: LocalCluster, tmp_path: Path) -> None:
    fill(cluster, "cpp-in-order")
    said = run_scenario("push_orderly", cluster, "cpp-in-order", tmp_path)
    assert sorted(fact["body"] for fact in said) == sorted(f"body {number}" for number in range(COUNT))
    for queue_id in {fact["queue_id"] for fact in said}:
        offsets = [fact["offset"] for fact in said if fact["queue_id"] == queue_id]
        assert offsets == list(range(len(offsets)))


def test_its_broadcasting_push_consumers_each_get_everything(cluster: LocalCluster, tmp_path: Path) -> None:
    fill(cluster, "cpp-broadcast")  # creates the topic
    said = run_scenario("push_broadcasting", cluster, "cpp-broadcast", tmp_path)
    assert [fact["name"] for fact in said] == ["one", "two"]
    for fact in said:
        assert set(fact["bodies"]) >= {f"body {number}" for number in range(COUNT)}


def test_its_push_consumer_gets_the_tag_it_asked_for(cluster: LocalCluster, tmp_path: Path) -> None:
    fill(cluster, "cpp-push")
    said = run_scenario("push_by_tag", cluster, "cpp-push", tmp_path)
    assert sorted(fact["body"] for fact in said) == sorted(f"body {number}" for number in range(1, COUNT, 2))
    assert {fact["tags"] for fact in said} == {"odd"}


def test_what_its_listener_fails_with_comes_again(cluster: LocalCluster, tmp_path: Path) -> None:
    server = cluster.brokers[0].server
    assert server is not None
    # Created before it starts: otherwise it finds this topic only at its next update of routes.
    asyncio.run(create_topic(cluster, "%RETRY%cpp-failing"))
    with blocking.Producer("ours", cluster.namesrv) as producer:
        producer.send(Message(topic="cpp-retry", body=b"first"))
    told = threading.Event()
    waiter = threading.Thread(target=let_time_pass, args=(cluster, server, told))
    waiter.start()
    try:
        said = run_scenario("push_fails_once", cluster, "cpp-retry", tmp_path)
    finally:
        told.set()
        waiter.join()
    assert [(fact["topic"], fact["body"], fact["times"]) for fact in said] == [
        ("cpp-retry", "first", 0),
        ("cpp-retry", "first", 1),
    ]


async def create_topic(cluster: LocalCluster, topic: str) -> None:
    async with await BrokerApi.connect(cluster.namesrv) as api:
        await api.create_topic(cluster.brokers[0].address, topic, queues=1)


def let_time_pass(cluster: LocalCluster, server: Broker, end: threading.Event) -> None:
    """Move the clock by ten seconds when a message waits for its first retry."""
    while not end.wait(0.05):
        if server.store.max_offset("SCHEDULE_TOPIC_XXXX", 2):
            cluster.clock.advance(seconds=10)
            return
