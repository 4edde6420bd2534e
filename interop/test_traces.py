"""Message traces of both clients on both kinds of servers, shown with Apache's tools and ours."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import time
from typing import Any

from interop.conftest import Cluster
from interop.peer import Peer
from pyromq import (
    COMMIT,
    UNKNOWN,
    Message,
    MessageExt,
    Producer,
    PushConsumer,
    RetryLater,
    Trace,
    TransactionProducer,
    TransactionState,
)
from pyromq.testing import wait_until

PRODUCERS, CONSUMERS = "trace-producers", "trace-consumers"
DIFFER = {
    "msgId", "requestId", "transactionId", "offsetMsgId",  # ids
    "timeStamp", "costTime", "storeTime",
}  # fmt: skip
"""Fields that differ between any two sends."""
PATIENCE = 60.0

Ids = dict[str, str]


def message(topic: str) -> Message:
    return Message(topic=topic, body=b"an order", tags="created", keys=["o-1", "o-2"])


async def send_ours(cluster: Cluster, topic: str, trace: bool | Trace = True) -> Ids:
    """Do the same as `Traces.send` in Java."""
    async with Producer(PRODUCERS, cluster.namesrv, trace=trace) as producer:
        plain = await producer.send(message(topic))
        delayed = await producer.send(message(topic), level=1)
        bare = await producer.send(Message(topic=topic, body=b"bare"))
    return {"plain": plain.message_id, "delayed": delayed.message_id, "bare": bare.message_id}


def send_javas(java: Peer, cluster: Cluster, topic: str, **options: object) -> Ids:
    ids: Ids = java.call("Traces.send", namesrv=cluster.namesrv, topic=topic, group=PRODUCERS, **options)
    return ids


async def consume_ours(cluster: Cluster, topic: str, ids: Ids) -> None:
    """Consume every message at the second attempt."""
    missing = set(ids.values())
    done = asyncio.Event()

    async def listen(received: MessageExt) -> None:
        if received.reconsume_times == 0:
            raise RetryLater
        missing.discard(received.message_id)
        if not missing:
            done.set()

    async with PushConsumer(
        CONSUMERS, cluster.namesrv, {topic: "*"}, listen, start_from="earliest", trace=True
    ), asyncio.timeout(PATIENCE):  # fmt: skip
        await done.wait()


def consume_javas(java: Peer, cluster: Cluster, topic: str, ids: Ids) -> None:
    with java.push(cluster.namesrv, CONSUMERS, topic, trace=True, failures=1, retry_level=1) as consumer:
        assert len(consumer.take(2 * len(ids))) == 2 * len(ids)
        time.sleep(2)  # traces are sent later, and a consumer that ends may drop them


def records(java: Peer, cluster: Cluster, message_id: str, **options: object) -> list[dict[str, Any]]:
    """Return the trace of a message from Apache's decoder, ordered by time."""
    found = java.call("Traces.read", namesrv=cluster.namesrv, id=message_id, **options)
    order = ["Pub", "EndTransaction", "SubBefore", "SubAfter"]
    return sorted(found, key=lambda one: (one["timeStamp"], order.index(one["traceType"])))


def alike(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return records without the fields that always differ."""
    return [{name: value for name, value in one.items() if name not in DIFFER} for one in found]


def mqadmin(java: Peer, cluster: Cluster, message_id: str, options: str = "") -> list[str]:
    """Return the output lines of Apache's tool, with digits replaced."""
    command = f"queryMsgTraceById -n {cluster.namesrv} -i {message_id} {options}".strip()
    shown: str = java.call("Admin.run", command=command)["out"]
    printed = [line for line in shown.splitlines() if line.strip() and " INFO Rocketmq" not in line]  # its own log
    lines = [re.sub(r"\b\d+ms *", "Nms ", line.strip()) for line in printed]
    return [re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "TIME", line) for line in lines]


def ours(cluster: Cluster, *arguments: str) -> list[dict[str, Any]]:
    """Return what `pyromq message trace --json` shows."""
    command = [sys.executable, "-m", "pyromq.cli.main", "message", "trace", "-n", cluster.namesrv, "--json"]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def types(event: dict[str, Any]) -> dict[str, type]:
    return {name: type(value) for name, value in event.items()}


async def test_apaches_tools_show_our_traces_as_they_show_javas(java: Peer, cluster: Cluster, name: str) -> None:
    mine, javas = await send_ours(cluster, name), send_javas(java, cluster, name + "-j")
    await consume_ours(cluster, name, mine)
    consume_javas(java, cluster, name + "-j", javas)
    for what in mine:
        wait_until(lambda what=what: len(records(java, cluster, javas[what])) == 5, pause=0.3)  # type: ignore[misc]
        expected = json.loads(json.dumps(alike(records(java, cluster, javas[what]))).replace(name + "-j", name))
        assert alike(records(java, cluster, mine[what])) == expected
        shown = mqadmin(java, cluster, mine[what])
        assert shown == mqadmin(java, cluster, javas[what])
        assert [line.split()[0] for line in shown] == ["#Type", "Pub", "#Type", "Sub", "Sub"]


async def test_our_command_shows_javas_traces_as_it_shows_ours(java: Peer, cluster: Cluster, name: str) -> None:
    mine, javas = await send_ours(cluster, name), send_javas(java, cluster, name + "-j")
    await consume_ours(cluster, name, mine)
    consume_javas(java, cluster, name + "-j", javas)
    for what in mine:
        wait_until(lambda what=what: len(ours(cluster, javas[what])) == 3, pause=0.3)  # type: ignore[misc]
        sent, failed, taken = ours(cluster, javas[what])
        assert (sent["event"], sent["group"], sent["topic"]) == ("send", PRODUCERS, name + "-j")
        assert sent["keys"] == ([] if what == "bare" else ["o-1", "o-2"])
        assert sent["message_type"] == ("DELAY" if what == "delayed" else "NORMAL")
        assert [(one["event"], one["group"], one["retry_times"], one["status"]) for one in (failed, taken)] == [
            ("consume", CONSUMERS, 0, "FAILED"),
            ("consume", CONSUMERS, 1, "SUCCESS"),
        ]
        for one, other in zip(ours(cluster, mine[what]), (sent, failed, taken), strict=True):
            assert {key: type(value) for key, value in one.items()} == {
                key: type(value) for key, value in other.items()
            }
    by_key = ours(cluster, "--key", "o-2")
    assert {javas["plain"], javas["delayed"], mine["plain"]} <= {one["message_id"] for one in by_key}


async def test_the_end_of_a_transaction_is_traced_alike(java: Peer, cluster: Cluster, name: str) -> None:
    async with TransactionProducer(PRODUCERS, cluster.namesrv, check=commit, trace=True) as producer:
        mine = (await producer.send_in_transaction(message(name), commit)).message_id
    javas = java.call(
        "Traces.transaction", namesrv=cluster.namesrv, topic=name, group=PRODUCERS, state="COMMIT_MESSAGE"
    )
    wait_until(lambda: len(records(java, cluster, javas)) == 2, pause=0.3)
    assert alike(records(java, cluster, mine)) == alike(records(java, cluster, javas))
    half, end = ours(cluster, javas)
    assert (half["message_type"], end["event"], end["state"]) == ("HALF", "transaction", "COMMIT_MESSAGE")


async def test_the_answer_to_a_brokers_question_is_traced_alike(java: Peer, cluster: Cluster, name: str) -> None:
    asked = asyncio.Event()

    async def check(half: MessageExt) -> TransactionState:
        asked.set()
        return COMMIT

    group = name + "-g"
    async with TransactionProducer(group, cluster.namesrv, check=check, trace=True) as producer:
        mine = (await producer.send_in_transaction(message(name), forget)).message_id
        async with asyncio.timeout(PATIENCE):
            await asked.wait()
    javas = java.call("Traces.transaction", namesrv=cluster.namesrv, topic=name, group=group, state="UNKNOW", stay=8000)
    wait_until(lambda: len(records(java, cluster, javas)) == 3, pause=0.3)
    assert alike(records(java, cluster, mine)) == alike(records(java, cluster, javas))
    ends = [(one["state"], one["from_check"]) for one in ours(cluster, mine)[1:]]
    assert ends == [("UNKNOW", False), ("COMMIT_MESSAGE", True)]


async def commit(half: MessageExt) -> TransactionState:
    return COMMIT


async def forget(half: MessageExt) -> TransactionState:
    return UNKNOWN


async def test_traces_may_go_to_a_topic_of_their_own(java: Peer, cluster: Cluster, name: str) -> None:
    topic = name + "-traces"
    mine = await send_ours(cluster, name, Trace(topic=topic))
    javas = send_javas(java, cluster, name, trace_topic=topic)
    for what in mine:
        wait_until(lambda what=what: len(records(java, cluster, javas[what], trace_topic=topic)) == 1, pause=0.3)  # type: ignore[misc]
        assert mqadmin(java, cluster, mine[what], f"-t {topic}") == mqadmin(java, cluster, javas[what], f"-t {topic}")
        assert len(ours(cluster, javas[what], "--trace-topic", topic)) == 1
