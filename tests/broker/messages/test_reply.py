"""Replies to request messages, in raw frames: who gets them, what the replier hears, what is stored."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from pyromq.broker.messages.reply import PUSH_TIMEOUT
from pyromq.broker.server import Broker
from pyromq.protocol.codes import LanguageCode, RequestCode, ResponseCode
from pyromq.protocol.command import RemotingCommand, request, response
from pyromq.protocol.headers.send import (
    PushReplyMessageToClientRequestHeader,
    SendMessageRequestHeader,
    SendMessageResponseHeader,
)
from pyromq.protocol.messages.properties import decode_properties
from pyromq.remoting.connection import Connection
from pyromq.testing import TestClock, eventually
from tests.broker.conftest import Connect, StartBroker
from tests.broker.helpers import Peer, send_header

REPLY_TOPIC = "DefaultCluster_REPLY_TOPIC"
TO_ASKER = "MSG_TYPE\x01reply\x02CORRELATION_ID\x01c-1\x02REPLY_TO_CLIENT\x01asker\x02TTL\x013000"
V1, V2 = RequestCode.SEND_REPLY_MESSAGE, RequestCode.SEND_REPLY_MESSAGE_V2


async def waiting_client(broker: Broker, connect: Connect, code: int = ResponseCode.SUCCESS) -> Peer:
    """Connect a client that waits for replies and answers with a code."""
    asker = await connect(broker)

    def take(command: RemotingCommand, connection: Connection) -> RemotingCommand:
        asker.received.append(command)
        return response(command, code, "no such request" if code else None)

    asker.handlers[RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT] = take
    await asker.beat("asker", producer="asking")
    return asker


async def reply(peer: Peer, properties: str = TO_ASKER, code: int = V2, expect: int = 0, **fields: Any) -> Any:
    header = send_header(REPLY_TOPIC, properties=properties, **fields)
    return await peer.ask(code, header, b"the answer", expect=expect)


async def test_a_reply_is_pushed_to_the_client_that_asked_and_stored(
    broker: Broker, peer: Peer, connect: Connect, clock: TestClock
) -> None:
    asker = await waiting_client(broker, connect)
    before_ms = clock.now_ms()
    answer = await reply(peer, sys_flag=1, flag=7)
    (push,) = asker.received
    assert (push.body, push.language) == (b"the answer", LanguageCode.JAVA)
    header = push.header(PushReplyMessageToClientRequestHeader)
    assert (header.topic, header.producer_group, header.queue_id, header.sys_flag, header.flag) == (
        REPLY_TOPIC,
        "shop",
        0,
        1,
        7,
    )
    assert header.born_host.startswith("127.0.0.1:")  # without the slash, as since 4.9.4
    assert header.store_host == broker.address
    assert before_ms <= header.store_timestamp <= clock.now_ms()
    pushed = decode_properties(header.properties or "")
    assert before_ms <= int(pushed.pop("PUSH_REPLY_TIME")) <= clock.now_ms()
    assert pushed == decode_properties(TO_ASKER)

    (stored,) = await peer.read(REPLY_TOPIC)
    assert dict(stored.properties) == decode_properties(TO_ASKER)
    assert stored.sys_flag == 1
    told = answer.header(SendMessageResponseHeader)
    assert (told.msg_id, told.queue_id, told.queue_offset) == (stored.offset_message_id, 0, 0)
    assert (answer.ext_fields["MSG_REGION"], answer.ext_fields["TRACE_ON"]) == ("DefaultRegion", "true")


async def test_the_older_form_of_a_reply_is_understood(broker: Broker, peer: Peer, connect: Connect) -> None:
    asker = await waiting_client(broker, connect)
    await reply(peer, code=V1, kind=SendMessageRequestHeader)
    assert len(asker.received) == 1


async def test_a_reply_is_not_stored_where_that_is_switched_off(start_broker: StartBroker, connect: Connect) -> None:
    broker = await start_broker(storeReplyMessageEnable="false")
    await waiting_client(broker, connect)
    told = (await reply(await connect(broker))).header(SendMessageResponseHeader)
    assert (told.msg_id, told.queue_offset) == ("0", 0)  # as RocketMQ: a client needs something there
    assert broker.store.max_offset(REPLY_TOPIC, 0) == 0


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ("MSG_TYPE\x01reply", "it has no property REPLY_TO_CLIENT"),
        ("REPLY_TO_CLIENT\x01asker", "it has no property CORRELATION_ID"),
        ("REPLY_TO_CLIENT\x01nobody\x02CORRELATION_ID\x01c", "nobody that waits for this reply is not connected"),
        ("REPLY_TO_CLIENT\x01asker\x02CORRELATION_ID\x01c", "asker refused the reply: no such request"),
    ],
)
async def test_a_reply_that_nobody_takes_is_an_error_and_stored_all_the_same(
    broker: Broker, peer: Peer, connect: Connect, properties: str, reason: str
) -> None:
    await waiting_client(broker, connect, ResponseCode.SYSTEM_ERROR)
    answer = await reply(peer, properties, expect=ResponseCode.SYSTEM_ERROR)
    assert reason in answer.remark
    assert (broker.stats.replies_taken, broker.stats.replies_not_taken) == (0, 1)
    assert len(await peer.read(REPLY_TOPIC)) == 1


async def test_a_client_that_does_not_answer_is_waited_for_as_long_as_rocketmq_does(
    broker: Broker, peer: Peer, connect: Connect, clock: TestClock
) -> None:
    asker = await connect(broker)
    asker.handlers[RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT] = lambda command, connection: asker.received.append(
        command
    )
    await asker.beat("asker", producer="asking")
    sending = asyncio.create_task(reply(peer, expect=ResponseCode.SYSTEM_ERROR))
    await eventually(lambda: len(asker.received) == 1)
    await clock.advance_async(seconds=PUSH_TIMEOUT + 1)
    assert "asker did not take the reply" in (await sending).remark


async def test_only_producers_are_found_and_only_while_they_are_there(
    broker: Broker, peer: Peer, connect: Connect
) -> None:
    consumer = await connect(broker)
    await consumer.beat("asker", "billing")
    await reply(peer, expect=ResponseCode.SYSTEM_ERROR)
    asker = await waiting_client(broker, connect)
    await asker.beat("asker", producer="asking too")
    await asker.ask(RequestCode.UNREGISTER_CLIENT, {"clientID": "asker", "producerGroup": "asking"})
    await reply(peer)
    await asker.remoting.close()
    await eventually(lambda: broker.clients.producer_connection("asker") is None)
    await reply(peer, expect=ResponseCode.SYSTEM_ERROR)


async def test_a_reply_passes_the_checks_of_a_send(broker: Broker, peer: Peer, connect: Connect) -> None:
    asker = await waiting_client(broker, connect)
    for topic, code in (
        ("no blanks", ResponseCode.SYSTEM_ERROR),
        ("SCHEDULE_TOPIC_XXXX", ResponseCode.NO_PERMISSION),
    ):
        answer = await peer.ask(V2, send_header(topic, properties=TO_ASKER), expect=code)
        assert answer.ext_fields["MSG_REGION"] == "DefaultRegion"
    await reply(peer, queue_id=99, expect=ResponseCode.SYSTEM_ERROR)
    assert asker.received == []


async def test_a_reply_that_wants_no_answer_is_stored(broker: Broker, peer: Peer, connect: Connect) -> None:
    asker = await waiting_client(broker, connect)
    header = send_header(REPLY_TOPIC, properties=TO_ASKER)
    await peer.remoting.oneway(peer.address, request(V2, header, b"the answer"))
    await eventually(lambda: len(asker.received) == 1 and broker.store.max_offset(REPLY_TOPIC, 0) == 1)


async def test_the_replier_hears_of_the_push_without_waiting_for_the_disk(
    start_broker: StartBroker, connect: Connect
) -> None:
    broker = await start_broker(flushDiskType="SYNC_FLUSH")
    await waiting_client(broker, connect)
    told = (await reply(await connect(broker))).header(SendMessageResponseHeader)
    assert len(told.msg_id) == 32
