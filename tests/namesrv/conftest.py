"""A name server on a free port, and a peer that talks to it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from pyromq.namesrv.server import NameServer
from pyromq.protocol import bodies
from pyromq.protocol.bodies import (
    DataVersion,
    RegisterBrokerBody,
    TopicConfig,
    TopicConfigSerializeWrapper,
    TopicRouteData,
)
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import RemotingCommand, request
from pyromq.protocol.headers import Header
from pyromq.protocol.headers.routes import (
    GetRouteInfoByTopicRequestHeader,
    RegisterBrokerRequestHeader,
    UnregisterBrokerRequestHeader,
)
from pyromq.protocol.messages.record import body_crc
from pyromq.remoting.client import RemotingClient
from pyromq.testing import TestClock

TOPICS = {"orders": TopicConfig(topic_name="orders", read_queue_nums=8, write_queue_nums=8)}


class Peer:
    """A broker, a client or an administrator, as the name server sees it."""

    def __init__(self, address: str, clock: TestClock) -> None:
        self.remoting = RemotingClient(clock)
        self._address = address

    async def ask(
        self,
        code: int,
        header: Header | Mapping[str, str] | None = None,
        body: bytes = b"",
        *,
        expect: int = ResponseCode.SUCCESS,
        **fields: Any,
    ) -> RemotingCommand:
        """Send a request, with fields of the command set as given, and return the answer that has the expected code."""
        command = request(code, header, body)
        for name, value in fields.items():
            setattr(command, name, value)
        answer = await self.remoting.request(self._address, command)
        assert answer.code == expect, answer.remark
        return answer

    async def register(
        self,
        topics: Mapping[str, TopicConfig] = TOPICS,
        *,
        name: str = "broker-a",
        address: str = "10.0.0.1:10911",
        broker_id: int = 0,
        cluster: str = "C1",
        version: int = 1,
        compressed: bool = False,
        epoch: int | None = None,
        history: str | None = None,
        **fields: Any,
    ) -> RemotingCommand:
        """Register as a broker."""
        wrapper = TopicConfigSerializeWrapper(DataVersion(version, version), dict(topics))
        body = bodies.encode_register_body(RegisterBrokerBody(wrapper), compressed=compressed)
        header = RegisterBrokerRequestHeader(
            broker_name=name,
            broker_addr=address,
            cluster_name=cluster,
            ha_server_addr=address.replace("10911", "10912"),
            broker_id=broker_id,
            compressed=compressed,
            body_crc32=body_crc(body),
            pyromq_epoch=epoch,
            pyromq_history=history,
        )
        return await self.ask(RequestCode.REGISTER_BROKER, header, body, **fields)

    async def unregister(self, address: str, *, epoch: int | None = None, broker_id: int = 0) -> None:
        """Unregister a broker of the name broker-a."""
        header = UnregisterBrokerRequestHeader(
            broker_name="broker-a", broker_addr=address, cluster_name="C1", broker_id=broker_id, pyromq_epoch=epoch
        )
        await self.ask(RequestCode.UNREGISTER_BROKER, header)

    async def route(self, topic: str = "orders") -> TopicRouteData | None:
        """Return the route of a topic, None if it has none."""
        header = GetRouteInfoByTopicRequestHeader(topic=topic)
        answer = await self.remoting.request(self._address, request(RequestCode.GET_ROUTEINFO_BY_TOPIC, header))
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            return None
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        return bodies.decode(TopicRouteData, answer.body)


@pytest.fixture
def clock() -> TestClock:
    return TestClock()


@pytest.fixture
async def server(clock: TestClock) -> AsyncIterator[NameServer]:
    async with NameServer(host="127.0.0.1", port=0, clock=clock, data_dir=None) as server:
        yield server


@pytest.fixture
async def peer(server: NameServer, clock: TestClock) -> AsyncIterator[Peer]:
    peer = Peer(server.address, clock)
    yield peer
    await peer.remoting.close()


@pytest.fixture
async def broker(server: NameServer, clock: TestClock) -> AsyncIterator[Peer]:
    """Give a second peer, over a connection of its own."""
    peer = Peer(server.address, clock)
    yield peer
    await peer.remoting.close()
