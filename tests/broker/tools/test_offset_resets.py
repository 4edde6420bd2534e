"""Offsets set from outside: what members are told, and what the broker does by itself."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pyromq.broker.server import Broker
from pyromq.broker.tools.offset_resets import STATUS_TIMEOUT
from pyromq.protocol.bodies import (
    GetConsumerStatusBody,
    QueryCorrectionOffsetBody,
    ResetOffsetBody,
    ResetOffsetBodyForC,
    decode,
    encode,
)
from pyromq.protocol.codes import LanguageCode, RequestCode, ResponseCode
from pyromq.protocol.command import RemotingCommand, response
from pyromq.protocol.headers.clients import (
    GetConsumerStatusFromClientRequestHeader,
    ResetConsumerClientOffsetRequestHeader,
)
from pyromq.protocol.messages.message import MessageQueue
from pyromq.remoting.connection import Connection
from pyromq.testing import TestClock, eventually
from tests.broker.conftest import Connect
from tests.broker.helpers import Peer

RESET = RequestCode.INVOKE_BROKER_TO_RESET_OFFSET
ORDERED = RequestCode.RESET_CONSUMER_CLIENT_OFFSET
STATUS = RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS
ASKED = RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT


def queue(queue_id: int) -> MessageQueue:
    return MessageQueue("orders", "broker-a", queue_id)


def asked_for(timestamp: int, force: bool = True, topic: str = "orders") -> dict[str, str]:
    return {
        "topic": topic,
        "group": "billing",
        "timestamp": str(timestamp),
        "isForce": "true" if force else "false",
    }


async def member(broker: Broker, connect: Connect, client_id: str = "c1") -> Peer:
    peer = await connect(broker)

    def note(command: RemotingCommand, connection: Connection) -> None:
        peer.received.append(command)

    peer.handlers[ORDERED] = note
    await peer.beat(client_id, "billing")
    return peer


def orders(peer: Peer) -> list[RemotingCommand]:
    return [command for command in peer.received if command.code == ORDERED]


@pytest.fixture
async def stored_ms(peer: Peer, broker: Broker, clock: TestClock) -> list[int]:
    """Four messages in queue 0, a minute apart, of which the group has two; nothing in the other queues."""
    times = []
    for _ in range(4):
        times.append(clock.now_ms())
        await peer.send()
        await clock.advance_async(seconds=60)
    for queue_id in range(4):
        broker.offsets.commit("billing", "orders", queue_id, 2 if queue_id == 0 else 0, "me")
    return times


async def test_members_are_told_where_to_go_on_and_the_broker_changes_nothing(
    broker: Broker, peer: Peer, connect: Connect, stored_ms: list[int]
) -> None:
    members = [await member(broker, connect, name) for name in ("c1", "c2")]
    answer = await peer.ask(RESET, asked_for(stored_ms[1]))
    expected = {queue(0): 1, queue(1): 0, queue(2): 0, queue(3): 0}
    assert decode(ResetOffsetBody, answer.body).offset_table == expected
    for each in members:
        await eventually(lambda each=each: len(orders(each)) == 1)  # type: ignore[misc]
        (order,) = orders(each)
        assert (order.is_oneway, order.language) == (True, LanguageCode.JAVA)
        header = order.header(ResetConsumerClientOffsetRequestHeader)
        assert (header.topic, header.group, header.timestamp) == ("orders", "billing", stored_ms[1])
        assert order.ext_fields["isForce"] == "false"  # as RocketMQ: the offsets are decided already
        assert decode(ResetOffsetBody, order.body).offset_table == expected
    assert broker.offsets.get("billing", "orders", 0) == 2


@pytest.mark.parametrize(("which", "force", "offset"), [(3, True, 3), (3, False, 2), (0, False, 0), (None, True, 4)])
async def test_without_force_a_group_goes_back_only(
    broker: Broker,
    peer: Peer,
    connect: Connect,
    stored_ms: list[int],
    which: int | None,
    force: bool,
    offset: int,
) -> None:
    await member(broker, connect)
    timestamp = -1 if which is None else stored_ms[which]
    answer = await peer.ask(RESET, asked_for(timestamp, force))
    assert decode(ResetOffsetBody, answer.body).offset_table[queue(0)] == offset


async def test_a_cpp_tool_has_members_told_in_the_form_that_cpp_clients_read(
    broker: Broker, peer: Peer, connect: Connect, stored_ms: list[int]
) -> None:
    consumer = await member(broker, connect)
    answer = await peer.ask(RESET, asked_for(-1), language=LanguageCode.CPP)
    assert decode(ResetOffsetBody, answer.body).offset_table[queue(0)] == 4
    await eventually(lambda: len(orders(consumer)) == 1)
    rows = decode(ResetOffsetBodyForC, orders(consumer)[0].body).offset_table
    assert len(rows) == 4
    assert (rows[0].topic, rows[0].broker_name, rows[0].queue_id, rows[0].offset) == ("orders", "broker-a", 0, 4)


async def test_a_reset_that_cannot_be_is_refused_with_rocketmqs_code(
    broker: Broker, peer: Peer, connect: Connect, stored_ms: list[int]
) -> None:
    # mqadmin resets the committed offsets by itself when it hears this code, and gives up at any other.
    await peer.ask(RESET, asked_for(-1), expect=ResponseCode.CONSUMER_NOT_ONLINE)
    consumer = await member(broker, connect)
    await peer.ask(RESET, asked_for(-1, topic="refunds"), expect=ResponseCode.SYSTEM_ERROR)
    (known,) = broker.clients.consumers["billing"].members.values()
    known.version = 27
    await peer.ask(RESET, asked_for(-1), expect=ResponseCode.SYSTEM_ERROR)
    known.version = 28
    broker.offsets.remove_group("billing")
    broker.offsets.commit("billing", "orders", 0, 1, "me")
    answer = await peer.ask(RESET, asked_for(-1), expect=ResponseCode.SYSTEM_ERROR)
    assert "no offset of orders queue 1" in (answer.remark or "")
    assert orders(consumer) == []


async def test_members_say_how_far_they_are(broker: Broker, peer: Peer, connect: Connect) -> None:
    def answering(offset: int) -> Any:
        def answer(command: RemotingCommand, connection: Connection) -> RemotingCommand:
            header = command.header(GetConsumerStatusFromClientRequestHeader)
            assert (header.topic, header.group) == ("orders", "billing")
            return response(command, body=encode(GetConsumerStatusBody({queue(0): offset})))

        return answer

    for number, name in enumerate(("c1", "c2")):
        (await member(broker, connect, name)).handlers[ASKED] = answering(number)
    await member(broker, connect, "c3")  # does not know the question
    wanted = {"topic": "orders", "group": "billing"}
    table = decode(GetConsumerStatusBody, (await peer.ask(STATUS, wanted)).body).consumer_table
    assert table == {"c1": {queue(0): 0}, "c2": {queue(0): 1}}
    one = await peer.ask(STATUS, {**wanted, "clientAddr": "c2"})
    assert list(decode(GetConsumerStatusBody, one.body).consumer_table) == ["c2"]
    await peer.ask(STATUS, {**wanted, "group": "nobody"}, expect=ResponseCode.SYSTEM_ERROR)


async def test_a_member_that_says_nothing_is_left_out_after_5_seconds(
    broker: Broker, peer: Peer, connect: Connect, clock: TestClock
) -> None:
    silent = await member(broker, connect)
    silent.handlers[ASKED] = lambda command, connection: silent.received.append(command)
    asking = asyncio.create_task(peer.ask(STATUS, {"topic": "orders", "group": "billing"}))
    await eventually(lambda: any(command.code == ASKED for command in silent.received))
    await clock.advance_async(seconds=STATUS_TIMEOUT + 1)
    assert decode(GetConsumerStatusBody, (await asking).body).consumer_table == {}


async def test_a_groups_offsets_are_copied_to_another(broker: Broker, peer: Peer) -> None:
    await peer.send()
    await peer.send("refunds")
    for topic, offset in (("orders", 1), ("refunds", 1), ("gone", 5)):
        broker.offsets.commit("billing", topic, 0, offset, "me")
    broker.offsets.commit("audit", "orders", 0, 0, "me")
    broker.offsets.commit("audit", "orders", 3, 9, "me")
    one = {"srcGroup": "billing", "destGroup": "audit", "offline": "false"}
    await peer.ask(RequestCode.CLONE_GROUP_OFFSET, {**one, "topic": "orders"})
    assert (dict(broker.offsets.of("audit", "orders")), broker.offsets.topics_of("audit")) == ({0: 1}, ["orders"])
    await peer.ask(RequestCode.CLONE_GROUP_OFFSET, one)  # without a topic RocketMQ copies nothing
    assert broker.offsets.topics_of("audit") == ["orders", "refunds"]
    broker.offsets.commit("audit", "refunds", 0, 0, "me")
    assert broker.offsets.get("billing", "refunds", 0) == 1


async def test_what_an_online_group_no_longer_consumes_is_copied_only_if_offline_is_said(
    broker: Broker, peer: Peer
) -> None:
    await peer.send()
    broker.offsets.commit("billing", "orders", 0, 1, "me")
    await peer.beat("c1", "billing", {"refunds": "*"})
    fields = {"srcGroup": "billing", "destGroup": "audit", "topic": "orders"}
    await peer.ask(RequestCode.CLONE_GROUP_OFFSET, {**fields, "offline": "false"})
    assert broker.offsets.topics_of("audit") == []
    await peer.ask(RequestCode.CLONE_GROUP_OFFSET, {**fields, "offline": "true"})
    assert broker.offsets.topics_of("audit") == ["orders"]


async def test_the_lowest_offsets_of_all_groups_are_told_and_none_is_forgotten(broker: Broker, peer: Peer) -> None:
    for _ in range(5):
        await peer.send()
    for group, offset in (("billing", 4), ("audit", 2), ("slow", 1)):
        broker.offsets.commit(group, "orders", 0, offset, "me")
    before = broker.offsets.snapshot()

    async def lowest(compare: str, ignored: str = "") -> dict[int, int]:
        fields = {"topic": "orders", "compareGroup": compare, "filterGroups": ignored}
        answer = await peer.ask(RequestCode.QUERY_CORRECTION_OFFSET, fields)
        return decode(QueryCorrectionOffsetBody, answer.body).correction_offsets

    assert await lowest("billing") == {0: 1}
    assert await lowest("billing", "slow,other") == {0: 2}
    assert await lowest("slow", "slow") == {0: 2**63 - 1}  # that group is behind them all
    assert broker.offsets.snapshot() == before
