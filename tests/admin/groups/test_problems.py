"""What is concluded from a consumer's report about itself, Java's or ours."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from pyromq.admin.groups.problems import WaitingQueue, find_block
from pyromq.client.consume.stall_report import BLOCKED_PROPERTY, IN_PROGRESS_PROPERTY
from pyromq.protocol.bodies import ConsumerRunningInfo, ProcessQueueInfo, SubscriptionData
from pyromq.protocol.messages.message import MessageQueue

NOW = 1_700_000_000.0
QUEUE = MessageQueue("orders", "broker-a", 3)
JAVA = {"PROP_CONSUME_TYPE": "CONSUME_PASSIVELY", "PROP_CONSUMEORDERLY": "false", "PROP_THREADPOOL_CORE_SIZE": "20"}
HEALTHY = ProcessQueueInfo(
    cached_msg_count=5,
    cached_msg_min_offset=100,
    cached_msg_max_offset=104,
    last_pull_timestamp=int(NOW * 1000),
    last_consume_timestamp=int(NOW * 1000) - 500,
)


def at(seconds_ago: float) -> int:
    return int((NOW - seconds_ago) * 1000)


def judged(
    state: ProcessQueueInfo = HEALTHY,
    properties: dict[str, str] | None = None,
    *,
    wanted: str = "*",
    moved: bool | None = None,
    watch: float = 1.0,
    broadcasting: bool = False,
) -> str | None:
    info = ConsumerRunningInfo(
        properties={**JAVA, **(properties or {})}, subscription_set=[SubscriptionData("orders", wanted)]
    )
    return find_block(WaitingQueue(QUEUE, info, state, broadcasting, moved, watch, 10.0, NOW))


def changed(**fields: Any) -> ProcessQueueInfo:
    return replace(HEALTHY, **fields)


def test_a_queue_that_moves_is_not_blocked() -> None:
    assert judged() is None
    assert judged(moved=True, watch=30) is None


def test_java_reports_when_it_last_finished_a_message() -> None:
    state = changed(last_consume_timestamp=at(75))
    assert judged(state) == judged(state, moved=False) == "nothing was finished for 75 s, with 5 messages in hand"
    assert judged(state, moved=True) is None, "its clock and ours may differ"
    assert judged(changed(last_consume_timestamp=at(75), cached_msg_count=0)) is None, "there was nothing to do"
    assert judged(changed(last_consume_timestamp=0)) is None
    assert judged(state, {"PROP_CONSUME_TYPE": "CONSUME_ACTIVELY"}) is None, "who polls is not a listener"


def test_a_message_that_many_later_ones_have_overtaken_is_reported() -> None:
    state = changed(cached_msg_max_offset=200)  # 101 offsets, of which 5 are left
    said = "the message at offset 100 is not finished, 96 later ones are"
    assert judged(state, moved=False) == said
    assert judged(state, moved=None) is None, "it may have been finished since"
    assert judged(changed(cached_msg_max_offset=120), moved=False) is None, "so many are worked on at a time"
    assert judged(state, moved=False, wanted="paid") is None, "those may have been filtered out"


def test_a_queue_that_nobody_pulls_is_reported() -> None:
    state = changed(cached_msg_count=0, last_pull_timestamp=at(200))
    assert judged(state) == "its owner has not pulled for 200 s: is it paused?"
    assert judged(changed(last_pull_timestamp=at(200))) is None, "it has enough in hand"


def test_an_orderly_queue_needs_its_lock() -> None:
    orderly = {"PROP_CONSUMEORDERLY": "true"}
    assert judged(properties=orderly) == "its owner consumes in order and has no lock on it"
    assert judged(changed(locked=True), orderly) is None
    assert judged(properties=orderly, broadcasting=True) is None


def test_only_a_long_watch_shows_a_standstill() -> None:
    assert judged(moved=False, watch=30) == "its offset did not move within 30 s"
    assert judged(moved=False, watch=5) is None


def test_our_listener_reports_its_first_message() -> None:
    row = {**QUEUE._asdict(), "queue_offset": 100, "message_id": "ABC", "since_ms": at(12)}
    long = {IN_PROGRESS_PROPERTY: json.dumps([row])}
    assert judged(properties=long) == "the listener has had message ABC at offset 100 for 12 s"
    short = {IN_PROGRESS_PROPERTY: json.dumps([row | {"since_ms": at(2)}])}
    assert judged(changed(last_consume_timestamp=at(75)), short) is None, "that is exact, and not long"


def test_our_orderly_queue_reports_its_failure() -> None:
    row = {**QUEUE._asdict(), "queue_offset": 100, "message_id": "ABC", "times": 4, "cause": "ValueError: x"}
    said = {BLOCKED_PROPERTY: json.dumps([row | {"since": "2023-11-14T22:13:10.000Z"}])}
    assert judged(properties=said) == "message ABC at offset 100 has failed 4 times within 10 s: ValueError: x"


@pytest.mark.parametrize("text", ["", "{", "[1]", '[{"topic": 5}]', "null"])
def test_a_report_that_cannot_be_read_is_ignored(text: str) -> None:
    assert judged(properties={IN_PROGRESS_PROPERTY: text, BLOCKED_PROPERTY: text}) is None
