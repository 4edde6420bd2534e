"""SQL92 filters over the wire: what a pull gets, what it is refused with, what wakes it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from pyromq.broker.pulls.property_filters import SqlScan
from pyromq.broker.server import Broker
from pyromq.protocol.bodies import (
    CheckClientRequestBody,
    ConsumerData,
    HeartbeatData,
    SubscriptionData,
    encode,
)
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import RemotingCommand, request
from pyromq.protocol.headers.pull import PullMessageResponseHeader
from pyromq.protocol.messages.properties import encode_properties
from pyromq.protocol.messages.record import decode_messages
from pyromq.testing import TestClock, eventually
from tests.broker.conftest import Connect, StartBroker
from tests.broker.helpers import Peer, pull_header

WAITS = 4 | 2


@pytest.fixture
async def broker(start_broker: StartBroker) -> Broker:
    return await start_broker(enablePropertyFilter="true")


async def send(peer: Peer, body: str, topic: str = "orders", **properties: str) -> None:
    await peer.send(topic, body.encode(), properties=encode_properties(properties))


async def wanted(peer: Peer, expression: str, **fields: Any) -> list[str]:
    """Return the bodies that a pull with this expression gets."""
    messages = await peer.read(subscription=expression, expression_type="SQL92", **fields)
    return [message.body.decode() for message in messages]


async def beat(
    peer: Peer, expression: str = "a > 5", *, topic: str = "orders", version: int = 1, kind: str = "SQL92"
) -> None:
    """Register a subscription by property, as a Java consumer does."""
    data = SubscriptionData(topic=topic, sub_string=expression, sub_version=version, expression_type=kind)
    consumer = ConsumerData(group_name="billing", subscription_data_set=[data])
    await peer.ask(RequestCode.HEART_BEAT, None, encode(HeartbeatData("c1", [], [consumer])))


def next_offset(answer: RemotingCommand) -> int:
    return answer.header(PullMessageResponseHeader).next_begin_offset


# --- pulls -----------------------------------------------------------------------------------------------------------


async def test_only_messages_for_which_the_expression_is_true_come(peer: Peer) -> None:
    await send(peer, "none")
    await send(peer, "small", a="5")
    await send(peer, "large", a="7")
    await send(peer, "text", a="seven")
    await send(peer, "tagged", TAGS="paid", a="9")
    assert await wanted(peer, "a > 5") == ["large", "tagged"]
    assert await wanted(peer, "a IS NULL") == ["none"]
    assert await wanted(peer, "NOT (a > 5)") == ["small"]
    assert await wanted(peer, "TAGS = 'paid'") == ["tagged"]
    assert await wanted(peer, "TAGS IS NOT NULL AND TAGS IN ('paid', 'created')") == ["tagged"]


async def test_apaches_own_scenario_32_of_48_messages(peer: Peer) -> None:
    for number in range(16):
        for tag in ("TagA", "TagB", "TagC"):
            await send(peer, f"{tag}-{number}", TAGS=tag)
    expression = "(TAGS is not null and TAGS in ('TagA', 'TagB'))"
    found = await wanted(peer, expression, max_msg_nums=64)
    assert len(found) == 32
    assert not [body for body in found if body.startswith("TagC")]


async def test_the_offset_passes_what_is_not_wanted(peer: Peer) -> None:
    for number in range(5):
        await send(peer, str(number), a=str(number))
    fields: dict[str, Any] = {"expression_type": "SQL92", "expect": ResponseCode.PULL_RETRY_IMMEDIATELY}
    answer = await peer.pull(subscription="a > 100", **fields)
    assert (answer.remark, next_offset(answer), answer.body) == ("NO_MATCHED_MESSAGE", 5, b"")
    answer = await peer.pull(subscription="a = 2 OR a = 3", expression_type="SQL92", max_msg_nums=1)
    assert next_offset(answer) == 3
    answer = await peer.pull(subscription="a = 2", expression_type="SQL92")
    assert next_offset(answer) == 5


async def test_a_pull_looks_at_800_messages_at_most_and_at_fewer_for_a_long_expression(peer: Peer) -> None:
    for _ in range(10):
        await asyncio.gather(*[send(peer, "x", a="1") for _ in range(100)])
    fields: dict[str, Any] = {"expression_type": "SQL92", "expect": ResponseCode.PULL_RETRY_IMMEDIATELY}
    assert next_offset(await peer.pull(subscription="a > 5", **fields)) == 800
    assert next_offset(await peer.pull(subscription="a > 5", queue_offset=800, **fields)) == 1000
    long = " OR ".join(f"a={number}" for number in range(100, 900))
    passed = next_offset(await peer.pull(subscription=long, **fields))
    assert 8 <= passed < 100


async def test_a_pull_looks_at_fewer_messages_with_many_properties(peer: Peer) -> None:
    many = {f"property{number}": "x" for number in range(1500)}
    await asyncio.gather(*[send(peer, "x", a="1", **many) for _ in range(40)])
    fields: dict[str, Any] = {"expression_type": "SQL92", "expect": ResponseCode.PULL_RETRY_IMMEDIATELY}
    offset, pulls = 0, 0
    while offset < 40:
        after = next_offset(await peer.pull(subscription="a > 5", queue_offset=offset, **fields))
        assert offset < after <= offset + 12
        offset, pulls = after, pulls + 1
    assert pulls >= 4


async def test_properties_of_large_and_old_messages_are_read_too(start_broker: StartBroker, connect: Connect) -> None:
    broker = await start_broker(enablePropertyFilter="true", accessMessageInMemoryMaxRatio=0)  # all count as old
    peer = await connect(broker)
    for number in range(6):
        await send(peer, str(number) * (1 if number % 2 else 10_000), a=str(number))
    assert [body[0] for body in await wanted(peer, "a BETWEEN 1 AND 4")] == ["1", "2", "3", "4"]


async def test_the_subscription_of_a_heartbeat_filters(peer: Peer) -> None:
    await send(peer, "small", a="5")
    await send(peer, "large", a="7")
    await beat(peer, "a > 5", version=3)
    found = await peer.read(sys_flag=0, subscription=None, sub_version=3, expression_type="SQL92")
    assert [message.body for message in found] == [b"large"]
    await beat(peer, "a < 6", version=4)
    found = await peer.read(sys_flag=0, subscription=None, sub_version=4, expression_type="SQL92")
    assert [message.body for message in found] == [b"small"]


# --- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "kind", "code", "reason"),
    [
        ("a >", "SQL92", ResponseCode.SUBSCRIPTION_PARSE_FAILED, "SQL92: expected a property"),
        ("a > 'x'", "SQL92", ResponseCode.SUBSCRIPTION_PARSE_FAILED, "cannot be ordered"),
        ("(" * 100 + "a", "SQL92", ResponseCode.SUBSCRIPTION_PARSE_FAILED, "nested deeper"),
        ("a" * 20_000, "SQL92", ResponseCode.SUBSCRIPTION_PARSE_FAILED, "20000 characters"),
        ("", "SQL92", ResponseCode.SUBSCRIPTION_PARSE_FAILED, "must not be empty"),
        (None, "SQL92", ResponseCode.SUBSCRIPTION_PARSE_FAILED, "must not be empty"),
        ("a", "GROOVY", ResponseCode.SUBSCRIPTION_PARSE_FAILED, "not by GROOVY"),
    ],
)
async def test_a_pull_with_a_wrong_expression_is_refused(
    peer: Peer, expression: str | None, kind: str, code: int, reason: str
) -> None:
    await send(peer, "x")
    answer = await peer.pull(subscription=expression, expression_type=kind, expect=code)
    assert reason in (answer.remark or "")
    assert "\n" not in (answer.remark or "")


async def test_a_registered_filter_must_be_there_and_up_to_date(peer: Peer) -> None:
    await send(peer, "x", a="7")
    fields: dict[str, Any] = {"sys_flag": 0, "subscription": None, "expression_type": "SQL92"}
    await peer.pull(expect=ResponseCode.SUBSCRIPTION_NOT_EXIST, **fields)
    await beat(peer, "a >", version=3)
    await peer.pull(sub_version=4, expect=ResponseCode.SUBSCRIPTION_NOT_LATEST, **fields)
    answer = await peer.pull(sub_version=3, expect=ResponseCode.FILTER_DATA_NOT_EXIST, **fields)
    assert "billing" in (answer.remark or "")
    await beat(peer, "a > 5", version=4)
    assert len(await peer.read(sub_version=4, **fields)) == 1
    # The registry takes a version that the filter does not: the same one again, with another type before.
    await beat(peer, "*", version=5, kind="TAG")
    await beat(peer, "", version=6)
    await peer.pull(sub_version=6, expect=ResponseCode.FILTER_DATA_NOT_LATEST, **fields)


async def test_where_it_is_switched_off_a_filter_is_refused_last(start_broker: StartBroker, connect: Connect) -> None:
    broker = await start_broker()  # as in RocketMQ: off unless switched on
    peer = await connect(broker)
    await send(peer, "x", a="7")
    answer = await peer.pull(subscription="a > 5", expression_type="SQL92", expect=ResponseCode.SYSTEM_ERROR)
    assert answer.remark == "this broker does not filter by SQL92; enablePropertyFilter=true switches it on"
    await peer.pull(subscription="a >", expression_type="SQL92", expect=ResponseCode.SYSTEM_ERROR)
    await peer.pull(subscription="", expression_type="SQL92", expect=ResponseCode.SUBSCRIPTION_PARSE_FAILED)
    fields: dict[str, Any] = {"sys_flag": 0, "subscription": None, "expression_type": "SQL92"}
    await beat(peer, "a >", version=1)
    await peer.pull(sub_version=1, expect=ResponseCode.FILTER_DATA_NOT_EXIST, **fields)
    await beat(peer, "a > 5", version=2)
    await peer.pull(sub_version=2, expect=ResponseCode.SYSTEM_ERROR, **fields)
    assert len(await peer.read(subscription="*")) == 1


# --- CHECK_CLIENT_CONFIG ---------------------------------------------------------------------------------------------


async def check(peer: Peer, expression: str, kind: str, expect: int) -> str:
    data = SubscriptionData(topic="orders", sub_string=expression, expression_type=kind)
    body = encode(CheckClientRequestBody("c1", "billing", data))
    return (await peer.ask(RequestCode.CHECK_CLIENT_CONFIG, None, body, expect=expect)).remark or ""


async def test_a_client_may_ask_whether_its_expression_is_good(peer: Peer) -> None:
    await check(peer, "a > 5", "SQL92", ResponseCode.SUCCESS)
    await check(peer, "a || b", "TAG", ResponseCode.SUCCESS)
    await check(peer, "||", "TAG", ResponseCode.SUCCESS)
    reason = await check(peer, "a = ", "SQL92", ResponseCode.SUBSCRIPTION_PARSE_FAILED)
    assert reason == "SQL92: expected a property, a literal or `(` at character 5, found the end"
    await check(peer, "", "SQL92", ResponseCode.SUBSCRIPTION_PARSE_FAILED)
    await check(peer, "a", "GROOVY", ResponseCode.SUBSCRIPTION_PARSE_FAILED)
    await peer.ask(RequestCode.CHECK_CLIENT_CONFIG, None, b"{", expect=ResponseCode.SYSTEM_ERROR)


async def test_where_it_is_switched_off_the_check_says_so(start_broker: StartBroker, connect: Connect) -> None:
    peer = await connect(await start_broker(enablePropertyFilter="false"))
    assert "enablePropertyFilter" in await check(peer, "a > 5", "SQL92", ResponseCode.SYSTEM_ERROR)
    await check(peer, "a = ", "SQL92", ResponseCode.SYSTEM_ERROR)
    await check(peer, "a", "TAG", ResponseCode.SUCCESS)


async def test_the_fast_port_answers_the_check_too(broker: Broker, clock: TestClock) -> None:
    peer = Peer(f"127.0.0.1:{broker.fast_port}", clock)
    await check(peer, "a > 5", "SQL92", ResponseCode.SUCCESS)
    await peer.remoting.close()


# --- waiting ---------------------------------------------------------------------------------------------------------


async def hold(peer: Peer, broker: Broker, expression: str, **fields: Any) -> asyncio.Task[RemotingCommand]:
    """Pull where there is nothing, and wait until the broker holds the pull."""
    before = broker.http_info()["held_pulls"]
    header = pull_header(sys_flag=WAITS, subscription=expression, expression_type="SQL92", **fields)
    command = request(RequestCode.PULL_MESSAGE, header)
    task = asyncio.create_task(peer.remoting.request(peer.address, command, 600.0))
    await eventually(lambda: broker.http_info()["held_pulls"] == before + 1)
    return task


async def test_only_a_wanted_message_wakes_a_pull(peer: Peer, broker: Broker) -> None:
    await send(peer, "before", a="9")
    task = await hold(peer, broker, "a > 5", queue_offset=1)
    await send(peer, "small", a="1")
    await send(peer, "text", a="x")
    assert not task.done()
    await send(peer, "large", a="7")
    answer = await task
    assert [message.body for message in decode_messages(answer.body)] == [b"large"]
    assert next_offset(answer) == 4


async def test_a_wanted_message_among_many_that_come_at_once_wakes_a_pull(peer: Peer, broker: Broker) -> None:
    await send(peer, "before")
    task = await hold(peer, broker, "a > 5", queue_offset=1)
    await asyncio.gather(*[send(peer, str(number), a=str(number % 4 + (number == 150) * 9)) for number in range(200)])
    assert b"150" in (await task).body


async def test_unwanted_messages_move_a_held_pull_on(peer: Peer, broker: Broker, clock: TestClock) -> None:
    await send(peer, "before")
    task = await hold(peer, broker, "a > 5", queue_offset=1, suspend_timeout_millis=60_000)
    await send(peer, "small", a="1")
    await clock.advance_async(seconds=8)
    answer = await task
    assert answer.code == ResponseCode.PULL_RETRY_IMMEDIATELY
    assert next_offset(answer) == 2


async def test_a_filter_that_changes_while_a_pull_waits_counts_when_it_is_answered(peer: Peer, broker: Broker) -> None:
    await send(peer, "before")
    await beat(peer, "a > 5", version=1)
    header = pull_header(sys_flag=2, subscription=None, sub_version=1, queue_offset=1)
    task = asyncio.create_task(peer.remoting.request(peer.address, request(RequestCode.PULL_MESSAGE, header), 600.0))
    await eventually(lambda: broker.http_info()["held_pulls"] == 1)
    await beat(peer, "a > 50", version=2)
    await send(peer, "seven", a="7")
    assert (await task).code == ResponseCode.PULL_RETRY_IMMEDIATELY


async def test_a_filter_that_breaks_down_fails_its_pull_and_no_send(
    peer: Peer, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await send(peer, "before")
    task = await hold(peer, broker, "a > 5", queue_offset=1)

    def broken(scan: SqlScan, properties: bytes) -> bool:
        raise RuntimeError("broken")

    monkeypatch.setattr(SqlScan, "accepts", broken)
    await send(peer, "after", a="7")
    assert (await task).code == ResponseCode.SYSTEM_ERROR
    assert len(await peer.read()) == 2


# --- messages that come again ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("setting", "expected"), [("true", ["large", "elsewhere", "direct"]), ("false", None)])
async def test_messages_that_come_again_are_filtered_by_the_topic_they_came_from(
    start_broker: StartBroker, connect: Connect, setting: str, expected: list[str] | None
) -> None:
    peer = await connect(await start_broker(enablePropertyFilter="true", filterSupportRetry=setting))
    await beat(peer, "a > 5")
    for body, origin, value in (
        ("small", "orders", "1"), ("large", "orders", "7"), ("elsewhere", "refunds", "1"), ("direct", "", "1")
    ):  # fmt: skip
        extra = {"RETRY_TOPIC": origin} if origin else {}
        await send(peer, body, "%RETRY%billing", a=value, **extra)
    found = [message.body.decode() for message in await peer.read("%RETRY%billing")]
    assert found == (expected or ["small", "large", "elsewhere", "direct"])


# --- what a restart finds --------------------------------------------------------------------------------------------


async def test_registered_filters_are_kept_over_a_restart(
    start_broker: StartBroker, connect: Connect, tmp_path: Path
) -> None:
    broker = await start_broker(enablePropertyFilter="true")
    peer = await connect(broker)
    await beat(peer, "a > 5", version=7)
    await peer.remoting.close()
    await eventually(lambda: not broker.clients.consumers)
    await broker.__aexit__(None, None, None)
    text = (tmp_path / "store" / "config" / "consumerFilter.json").read_text()
    assert '"expression":"a > 5"' in text
    assert '"dead":true' in text
    again = await start_broker(enablePropertyFilter="true")
    found = again._tables.filters.get("orders", "billing")
    assert found is not None
    assert (found.expression, found.version) == ("a > 5", 7)
    assert found.dead_ms > 0
