"""What administrators ask of consumers through a broker, in raw frames."""

from __future__ import annotations

import asyncio

import pytest

from pyromq.broker.server import Broker
from pyromq.broker.tools.consumer_relay import RELAY_TIMEOUT
from pyromq.protocol.codes import LanguageCode, RequestCode, ResponseCode
from pyromq.protocol.command import RemotingCommand, response
from pyromq.protocol.headers.send import SendMessageResponseHeader
from pyromq.protocol.messages.record import decode_messages
from pyromq.remoting.connection import Connection
from pyromq.testing import TestClock, eventually
from tests.broker.conftest import Connect
from tests.broker.helpers import Peer

RUNNING_INFO = RequestCode.GET_CONSUMER_RUNNING_INFO
DIRECTLY = RequestCode.CONSUME_MESSAGE_DIRECTLY
C1 = {"consumerGroup": "billing", "clientId": "c1"}


async def consumer(broker: Broker, connect: Connect, client_id: str = "c1", *codes: int) -> Peer:
    """Connect a consumer that answers these codes in words of its own."""
    member = await connect(broker)

    def answer(command: RemotingCommand, connection: Connection) -> RemotingCommand:
        member.received.append(command)
        return response(command, 0, "as it came", {"mine": "1"}, b'{"odd" :  1}')

    for code in codes:
        member.handlers[code] = answer
    await member.beat(client_id, "billing")
    return member


def asked(member: Peer) -> list[RemotingCommand]:
    """Return what a consumer was asked, without the notices that its group changed."""
    return [command for command in member.received if command.code in (RUNNING_INFO, DIRECTLY)]


async def test_running_info_is_asked_of_the_consumer_and_its_answer_comes_back_unchanged(
    broker: Broker, peer: Peer, connect: Connect
) -> None:
    member = await consumer(broker, connect, "c1", RUNNING_INFO)
    answer = await peer.ask(RUNNING_INFO, {**C1, "jstackEnable": "true"})
    assert (answer.remark, answer.ext_fields, answer.body) == ("as it came", {"mine": "1"}, b'{"odd" :  1}')
    (question,) = asked(member)
    assert (question.ext_fields, question.language) == ({**C1, "jstackEnable": "true"}, LanguageCode.JAVA)


async def test_a_stored_message_is_given_to_a_consumer_with_the_brokers_name(
    broker: Broker, peer: Peer, connect: Connect
) -> None:
    member = await consumer(broker, connect, "c1", DIRECTLY)
    message_id = (await peer.send(body=b"try this")).header(SendMessageResponseHeader).msg_id
    await peer.ask(DIRECTLY, {**C1, "msgId": message_id})
    (question,) = asked(member)
    assert question.ext_fields == {**C1, "msgId": message_id, "brokerName": "broker-a"}
    assert [message.body for message in decode_messages(question.body)] == [b"try this"]


@pytest.mark.parametrize("message_id", ["", "nonsense", "7F00000100002A9F0000000000FFFFFF"])
async def test_a_message_that_is_not_there_is_given_to_nobody(
    broker: Broker, peer: Peer, connect: Connect, message_id: str
) -> None:
    member = await consumer(broker, connect, "c1", DIRECTLY)
    await peer.ask(DIRECTLY, {**C1, "msgId": message_id}, expect=ResponseCode.SYSTEM_ERROR)
    assert asked(member) == []


async def test_a_consumer_that_is_not_there_is_an_error_that_names_it(broker: Broker, peer: Peer) -> None:
    for code in (RUNNING_INFO, DIRECTLY):
        answer = await peer.ask(code, C1, expect=ResponseCode.SYSTEM_ERROR)
        assert answer.remark == "client c1 of consumer group billing is not connected to this broker"


async def test_a_client_of_before_3_1_8_is_not_asked(broker: Broker, peer: Peer, connect: Connect) -> None:
    member = await consumer(broker, connect, "c1", RUNNING_INFO)
    (known,) = broker.clients.consumers["billing"].members.values()
    known.version = 61
    answer = await peer.ask(RUNNING_INFO, C1, expect=ResponseCode.SYSTEM_ERROR)
    assert "version 61" in (answer.remark or "")
    known.version = 62
    await peer.ask(RUNNING_INFO, C1)
    assert len(asked(member)) == 1


async def test_a_consumer_that_does_not_answer_is_given_up_after_10_seconds(
    broker: Broker, peer: Peer, connect: Connect, clock: TestClock
) -> None:
    member = await connect(broker)
    member.handlers[RUNNING_INFO] = lambda command, connection: member.received.append(command)
    await member.beat("c1", "billing")
    asking = asyncio.create_task(peer.ask(RUNNING_INFO, C1, expect=ResponseCode.CONSUME_MSG_TIMEOUT))
    await eventually(lambda: len(asked(member)) == 1)
    await clock.advance_async(seconds=RELAY_TIMEOUT + 1)
    await asking


async def test_a_consumer_that_goes_away_meanwhile_is_an_error(broker: Broker, peer: Peer, connect: Connect) -> None:
    member = await connect(broker)

    async def vanish(command: RemotingCommand, connection: Connection) -> None:
        connection.abort("gone")

    member.handlers[RUNNING_INFO] = vanish
    await member.beat("c1", "billing")
    answer = await peer.ask(RUNNING_INFO, C1, expect=ResponseCode.SYSTEM_ERROR)
    assert "c1 could not be asked" in (answer.remark or "")
