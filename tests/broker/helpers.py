"""A peer that talks to a broker over a real socket, and waiting for what must come."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from pyromq.broker.clients.client_registry import ClientRegistry
from pyromq.broker.config.broker_config import BrokerConfig
from pyromq.broker.config.live_settings import LiveSettings
from pyromq.broker.parts import OffsetMoved, Parts
from pyromq.broker.pulls.disk_reads import DiskReads
from pyromq.broker.signals import StoreSignals
from pyromq.broker.stats.broker_stats import BrokerStats
from pyromq.broker.tables.all_tables import Tables
from pyromq.broker.tables.table_followers import TableFollowers
from pyromq.clock import Clock
from pyromq.figures import Figures
from pyromq.protocol.bodies import ConsumerData, HeartbeatData, MessageModel, ProducerData, SubscriptionData, encode
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import RemotingCommand, request
from pyromq.protocol.headers import Header
from pyromq.protocol.headers.pull import PullMessageRequestHeader
from pyromq.protocol.headers.send import SendMessageRequestHeader, SendMessageRequestHeaderV2
from pyromq.protocol.messages.message import MessageExt
from pyromq.protocol.messages.record import decode_messages
from pyromq.protocol.tag_filter import parse_tags
from pyromq.remoting.client import RemotingClient
from pyromq.remoting.connection import Connection
from pyromq.remoting.requests import Handler
from pyromq.remoting.round import Round
from pyromq.store.message_store import MessageStore
from tests.store.helpers import HOST, QuickFiles

PATIENCE = 30.0


def send_header(
    topic: str = "orders", kind: type[SendMessageRequestHeader] = SendMessageRequestHeaderV2, **fields: Any
) -> SendMessageRequestHeader:
    """Return the header of a send as a Java producer fills it in."""
    values: dict[str, Any] = {
        "producer_group": "shop",
        "topic": topic,
        "default_topic": "TBW102",
        "default_topic_queue_nums": 4,
        "queue_id": 0,
        "sys_flag": 0,
        "born_timestamp": 1_700_000_000_000,
        "flag": 0,
        "reconsume_times": 0,
    }
    return kind(**values | fields)


def pull_header(topic: str = "orders", **fields: Any) -> PullMessageRequestHeader:
    """Return the header of a pull that brings its own subscription and does not wait."""
    values: dict[str, Any] = {
        "consumer_group": "billing",
        "topic": topic,
        "queue_id": 0,
        "queue_offset": 0,
        "max_msg_nums": 32,
        "sys_flag": 4,
        "commit_offset": 0,
        "suspend_timeout_millis": 15_000,
        "subscription": "*",
        "sub_version": 0,
    }
    return PullMessageRequestHeader(**values | fields)


def heartbeat(
    client_id: str = "client-1",
    group: str = "billing",
    topics: Mapping[str, str] | None = None,
    *,
    version: int = 1,
    model: MessageModel = MessageModel.CLUSTERING,
    producer: str | None = None,
) -> bytes:
    """Return the body of a heartbeat of one consumer, or of one producer."""
    wanted = [
        SubscriptionData(
            topic=topic,
            sub_string=tags,
            tags_set=list(parse_tags(tags).tags),
            code_set=list(parse_tags(tags).codes),
            sub_version=version,
        )
        for topic, tags in (topics or {"orders": "*"}).items()
    ]
    consumers = [ConsumerData(group_name=group, subscription_data_set=wanted, message_model=model)]
    data = (
        HeartbeatData(client_id, [], consumers)
        if producer is None
        else HeartbeatData(client_id, [ProducerData(producer)])
    )
    return encode(data)


PATIENT = {"brokerFastFailureEnable": "false", "osPageCacheBusyTimeOutMills": "60000"}
"""Settings of a broker that refuses no send because the machine is busy with other tests."""


class Peer:
    """A producer, consumer or administrator, as a broker sees it."""

    def __init__(self, address: str, clock: Clock) -> None:
        self.address = address
        self.received: list[RemotingCommand] = []
        self.handlers: dict[int, Handler] = {RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: self._note}
        """What it answers when the broker asks; tests may add to it."""
        self.remoting = RemotingClient(clock, handlers=self.handlers)

    def _note(self, command: RemotingCommand, connection: Connection) -> None:
        self.received.append(command)

    async def ask(
        self,
        code: int,
        header: Header | Mapping[str, str] | None = None,
        body: bytes = b"",
        *,
        expect: int = ResponseCode.SUCCESS,
        timeout: float = PATIENCE,
        **fields: Any,
    ) -> RemotingCommand:
        """Send a request, with fields of the command set as given, and return the answer that has the expected code."""
        command = request(code, header, body)
        for name, value in fields.items():
            setattr(command, name, value)
        answer = await self.remoting.request(self.address, command, timeout)
        assert answer.code == expect, answer.remark
        return answer

    async def send(
        self, topic: str = "orders", body: bytes = b"hello", *, expect: int = 0, **fields: Any
    ) -> RemotingCommand:
        """Send one message by SEND_MESSAGE_V2."""
        return await self.ask(RequestCode.SEND_MESSAGE_V2, send_header(topic, **fields), body, expect=expect)

    async def pull(self, topic: str = "orders", *, expect: int = 0, **fields: Any) -> RemotingCommand:
        """Pull once."""
        return await self.ask(RequestCode.PULL_MESSAGE, pull_header(topic, **fields), expect=expect)

    async def read(self, topic: str = "orders", **fields: Any) -> list[MessageExt]:
        """Pull once and return the messages."""
        return decode_messages((await self.pull(topic, **fields)).body)

    async def beat(self, *args: Any, expect: int = 0, **fields: Any) -> RemotingCommand:
        """Send a heartbeat."""
        return await self.ask(RequestCode.HEART_BEAT, None, heartbeat(*args, **fields), expect=expect)


def parts_over(store: MessageStore, clock: Clock, signals: StoreSignals) -> Parts:
    """Return the parts of a broker that has a store and tables, and no ports."""
    loop = asyncio.get_running_loop()
    tables = Tables(BrokerConfig(store=store.config), clock.now_ms, QuickFiles())
    tables.load()
    return Parts(
        settings=LiveSettings(BrokerConfig(store=store.config)),
        clock=clock,
        round=Round(loop),
        store=store,
        reads=DiskReads(store),
        tables=tables,
        clients=ClientRegistry(),
        followers=TableFollowers(tables, clock),
        stats=BrokerStats(tables.topics, clock.now(), loop.call_soon),
        signals=signals,
        offset_moved=OffsetMoved(),
        address="127.0.0.1:10911",
        store_host=HOST,
        figures=Figures,
        register=_registers_nowhere,
    )


async def _registers_nowhere() -> None:
    pass
