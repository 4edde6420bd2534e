"""What several tests of the client need: filling topics, reading all of them, waiting for what must come."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Self

from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.client.poll.lite_pull_consumer import LitePullConsumer
from pyromq.client.send.producer import Producer
from pyromq.clock import Clock
from pyromq.protocol.bodies import RegisterBrokerBody, TopicConfig, TopicConfigSerializeWrapper, encode
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import RemotingCommand, request, response
from pyromq.protocol.headers.routes import RegisterBrokerRequestHeader
from pyromq.protocol.headers.send import (
    ConsumerSendMsgBackRequestHeader,
    SendMessageRequestHeaderV2,
    SendMessageResponseHeader,
)
from pyromq.protocol.messages.message import Message, MessageExt, MessageQueue
from pyromq.protocol.messages.properties import UNIQ_KEY, find_property
from pyromq.protocol.names import RETRY_PREFIX
from pyromq.remoting.connection import Connection
from pyromq.remoting.requests import Handler, HandlerResult
from pyromq.remoting.server import RemotingServer
from pyromq.testing import LocalCluster, eventually

PATIENCE = 30.0


async def fill(producer: Producer, topic: str, count: int, tags: Sequence[str] = ()) -> list[bytes]:
    """Send so many messages, their tags in turn, and return their bodies."""
    bodies = [f"{topic}/{number}".encode() for number in range(count)]
    messages = [
        Message(topic=topic, body=body, tags=tags[number % len(tags)] if tags else None)
        for number, body in enumerate(bodies)
    ]
    await asyncio.gather(*[producer.send(message) for message in messages])
    return bodies


async def read(consumer: LitePullConsumer, count: int) -> list[MessageExt]:
    """Poll until so many messages have come."""
    messages: list[MessageExt] = []
    async with asyncio.timeout(PATIENCE):
        while len(messages) < count:
            messages += await consumer.poll(timeout=1.0, max_messages=count - len(messages))
    return messages


async def read_topic(cluster: LocalCluster, topic: str, count: int) -> list[MessageExt]:
    """Return the first messages of a topic."""
    async with LitePullConsumer("reader", cluster.namesrv, {topic: "*"}, start_from="earliest") as consumer:
        return await read(consumer, count)


def bodies_by_queue(messages: Sequence[MessageExt]) -> dict[MessageQueue, list[bytes]]:
    """Return what came from each queue, in the order it came."""
    found: dict[MessageQueue, list[bytes]] = {}
    for message in messages:
        found.setdefault(message.queue, []).append(message.body)
    return found


def in_queue_order(messages: Sequence[MessageExt]) -> bool:
    """Tell whether the offsets of each queue only go up."""
    last: dict[MessageQueue, int] = {}
    for message in messages:
        if message.queue_offset <= last.get(message.queue, -1):
            return False
        last[message.queue] = message.queue_offset
    return True


async def stored_count(api: BrokerApi, topic: str) -> int:
    """Return how many messages the topic holds on all brokers."""
    route = await api.route(topic)
    addresses = {broker.broker_name: broker.broker_addrs[0] for broker in route.broker_datas}
    count = 0
    for data in route.queue_datas:
        for number in range(data.write_queue_nums):
            count += await api.max_offset(addresses[data.broker_name], topic, number)
    return count


async def register_broker(api: BrokerApi, name: str, address: str, *topics: str) -> None:
    """Tell the name server of a broker at some address, whoever listens there."""
    header = RegisterBrokerRequestHeader(
        broker_name=name, broker_addr=address, cluster_name="DefaultCluster", broker_id=0, ha_server_addr=address
    )
    table = {topic: TopicConfig(topic_name=topic, read_queue_nums=4, write_queue_nums=4, perm=6) for topic in topics}
    body = RegisterBrokerBody(topic_config_serialize_wrapper=TopicConfigSerializeWrapper(topic_config_table=table))
    answer = await api.name_servers.call(request(RequestCode.REGISTER_BROKER, header, encode(body)), 3.0)
    assert answer.code == 0, answer.remark


class MemoryOffsets:
    """An offset store of the caller's own, which starts empty: then `start_from` counts."""

    def __init__(self) -> None:
        self.offsets: dict[MessageQueue, int] = {}

    async def load(self, queue: MessageQueue) -> int | None:
        return self.offsets.get(queue)

    async def commit(self, queue: MessageQueue, offset: int) -> None:
        self.offsets[queue] = offset


class Heard:
    """A listener that keeps what it gets, each with the time it came."""

    def __init__(self) -> None:
        self.messages: list[MessageExt] = []

    async def __call__(self, message: MessageExt) -> None:
        self.messages.append(message)

    @property
    def bodies(self) -> list[bytes]:
        return [message.body for message in self.messages]

    async def wait_for(self, count: int) -> list[bytes]:
        """Return the bodies, sorted, once so many messages have come."""
        await eventually(lambda: len(self.messages) >= count)
        return sorted(self.bodies)


async def committed(api: BrokerApi, address: str, group: str, topic: str) -> list[int]:
    """Return what the group committed in each queue of a broker's topic."""
    route = await api.route(topic)
    return [
        await api.query_offset(address, group, topic, number) or 0
        for number in range(route.queue_datas[0].read_queue_nums)
    ]


class ScriptedBroker:
    """A real server that answers every send with one code: what no healthy broker can be made to say."""

    def __init__(self, code: int, clock: Clock) -> None:
        self.sends = 0
        self.message_ids: list[str | None] = []
        self._code = code
        self.handlers: dict[int, Handler] = {
            RequestCode.SEND_MESSAGE_V2: self._send,
            RequestCode.HEART_BEAT: lambda command, _: response(command),
            RequestCode.UNREGISTER_CLIENT: lambda command, _: response(command),
        }
        self._server = RemotingServer(self.handlers, host="127.0.0.1", port=0, clock=clock)

    def _send(self, command: RemotingCommand, connection: Connection) -> RemotingCommand:
        self.sends += 1
        header = command.header(SendMessageRequestHeaderV2)
        self.message_ids.append(find_property(header.properties or "", UNIQ_KEY))
        stored = SendMessageResponseHeader(msg_id="00" * 16, queue_id=header.queue_id, queue_offset=7)
        return response(command, self._code, "as the script says", stored)

    async def __aenter__(self) -> Self:
        await self._server.__aenter__()
        self.address = f"127.0.0.1:{self._server.port}"
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._server.__aexit__(None, None, None)


class SendBacks:
    """Takes the place of a broker's answer to CONSUMER_SEND_MSG_BACK (36): keeps what came, and says what is told.

    Copies that are sent to a retry topic are kept as well, and refused unless `takes_copies`.
    """

    def __init__(self, cluster: LocalCluster, code: int = 0, *, takes_copies: bool = False) -> None:
        self.headers: list[ConsumerSendMsgBackRequestHeader] = []
        self.copies: list[SendMessageRequestHeaderV2] = []
        self.code = code
        self.takes_copies = takes_copies
        self._seen: list[RemotingCommand] = []
        server = cluster.brokers[0].server
        assert server is not None
        self._send = server.handlers[RequestCode.SEND_MESSAGE_V2]
        server.handlers[RequestCode.CONSUMER_SEND_MSG_BACK] = self._answer
        server.handlers[RequestCode.SEND_MESSAGE_V2] = self._answer_copy

    def _answer(self, command: RemotingCommand, connection: Connection) -> RemotingCommand:
        self.headers.append(command.header(ConsumerSendMsgBackRequestHeader))
        return response(command, self.code, "as the script says")

    def _answer_copy(self, command: RemotingCommand, connection: Connection) -> HandlerResult:
        header = command.header(SendMessageRequestHeaderV2)
        if header.topic.startswith(RETRY_PREFIX):
            if not any(command is one for one in self._seen):  # one that waits for its new topic is served twice
                self._seen.append(command)
                self.copies.append(header)
            if not self.takes_copies:
                return response(command, ResponseCode.SYSTEM_ERROR, "no copies either")
        return self._send(command, connection)


class Proxy:
    """Passes bytes on to an address; `freeze` lets its open connections fall silent, as a lost network does.

    New connections work. While it is held, nothing arrives.
    """

    def __init__(self, target: str) -> None:
        self.address = ""
        self._target = target
        self._open = asyncio.Event()
        self._open.set()
        self._pumps: set[asyncio.Task[None]] = set()
        self._writers: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> Self:
        self._listener = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{self._listener.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._listener.close()
        self.freeze()
        for writer in self._writers:
            writer.transport.abort()

    def freeze(self) -> None:
        """Pass nothing more on, in either direction, and close nothing."""
        for pump in self._pumps:
            pump.cancel()

    def hold(self) -> None:
        """Keep all bytes until `release`."""
        self._open.clear()

    def release(self) -> None:
        """Pass on what was held, and what comes."""
        self._open.set()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, port = self._target.split(":")
        far_reader, far_writer = await asyncio.open_connection(host, int(port))
        self._writers += [writer, far_writer]
        for ends in ((reader, far_writer), (far_reader, writer)):
            pump = asyncio.create_task(self._pump(*ends))
            self._pumps.add(pump)
            pump.add_done_callback(self._pumps.discard)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(65536):
                await self._open.wait()
                writer.write(data)
                await writer.drain()
        writer.close()
