"""Find one message by its id (its producer's, or that of its place), or by its queue and offset."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pyromq.admin.masters import gather_limited
from pyromq.admin.topic_reader import TopicReader
from pyromq.client.net.calls.answers import PullStatus
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.client.send.find_message import find_by_client_id
from pyromq.clock import Clock
from pyromq.errors import ClientError, MalformedHeader, NoRoute, QueryNotFound, TopicNotFound
from pyromq.protocol.bodies import BrokerData
from pyromq.protocol.codes import MASTER_ID
from pyromq.protocol.messages.message import MessageExt, MessageQueue
from pyromq.protocol.messages.message_id import decode_offset_id
from pyromq.protocol.messages.record import decode_messages
from pyromq.protocol.names import is_system_topic

_PLACE = re.compile(r"([^:]+):(\d{1,9}):(\d{1,18})")
"""How `send`, `tail` and `find` show the place of a message: broker, queue, offset."""
MOST_TOPICS = 200
"""Topics that are searched for a message whose topic is not given."""
_AT_A_TIME = 8
_SHOWN = 64  # characters of an id in an error


class MessageLookup:
    """Asks the brokers of a topic, or of all topics, for a message."""

    def __init__(self, api: BrokerApi, clock: Clock) -> None:
        self._api = api
        self._clock = clock

    async def get(self, message_id: str, topic: str | None = None) -> MessageExt:
        """Return the message with this id, or at `broker:queue:offset`; raises QueryNotFound if no broker has it."""
        if place := _PLACE.fullmatch(message_id):
            return await self._at(place[1], int(place[2]), int(place[3]), topic)
        brokers = await self._brokers(topic)
        found = await self._by_client_id(message_id, topic, brokers) if topic else None
        found = found or await self._by_place(message_id, topic, brokers)
        if found is None and topic is None:
            found = await self._in_all_topics(message_id)
        if found is None:
            where = f"topic {topic!r} has" if topic else "any topic has"
            raise QueryNotFound(f"no message of {where} the id {message_id[:_SHOWN]}: it expired, or was never stored")
        return found

    async def _at(self, broker: str, queue_id: int, offset: int, topic: str | None) -> MessageExt:
        if topic is None:
            raise ClientError(f"{broker}:{queue_id}:{offset} is a place in a topic: name the topic")
        try:
            reader = await TopicReader.open(self._api, topic)
        except NoRoute:
            raise TopicNotFound(f"no broker has the topic {topic!r}") from None
        queue = MessageQueue(topic, broker, queue_id)
        if queue not in reader.queues:
            raise QueryNotFound(f"topic {topic!r} has no queue {broker}:{queue_id}")
        answer = await reader.pull(queue, offset, most=1)
        found = decode_messages(answer.body, broker) if answer.status is PullStatus.FOUND else ()
        for message in found:
            if message.queue_offset == offset:
                return message
        low, high = await reader.ends(queue)
        raise QueryNotFound(f"no message is at {offset} of {broker}:{queue_id}: it holds {low} to {high - 1}")

    async def _brokers(self, topic: str | None) -> list[BrokerData]:
        if topic is None:
            return list((await self._api.cluster_info()).broker_addr_table.values())
        try:
            return (await self._api.route(topic)).broker_datas
        except NoRoute:
            raise TopicNotFound(f"no broker has the topic {topic!r}") from None

    async def _by_client_id(self, message_id: str, topic: str, brokers: list[BrokerData]) -> MessageExt | None:
        addresses = {reader_of(broker): broker.broker_name for broker in brokers}
        return await find_by_client_id(self._api, addresses, topic, message_id, self._clock.now_ms())

    async def _by_place(self, message_id: str, topic: str | None, brokers: list[BrokerData]) -> MessageExt | None:
        try:
            address, physical_offset = decode_offset_id(message_id)
        except MalformedHeader:
            return None
        broker = _owners(brokers).get(address)
        if broker is None:  # a client's id has the same form: never call the address it happens to contain
            return None
        message = await self._api.view(reader_of(broker), physical_offset)
        if message is None or topic not in (None, message.topic):
            return None
        message.broker_name = broker.broker_name
        return message

    async def _in_all_topics(self, message_id: str) -> MessageExt | None:
        topics = [topic for topic in await self._api.topic_list() if not is_system_topic(topic)]
        if len(topics) > MOST_TOPICS:
            raise ClientError(f"there are {len(topics):,} topics: name the one of message {message_id[:_SHOWN]}")

        async def look(topic: str) -> MessageExt | None:
            try:
                return await self._by_client_id(message_id, topic, await self._brokers(topic))
            except TopicNotFound:  # deleted meanwhile
                return None

        found = [message for message in await gather_limited(topics, look, _AT_A_TIME) if message is not None]
        return min(found, key=lambda message: message.store_timestamp_ms, default=None)


def reader_of(broker: BrokerData) -> str:
    """Return the address to read from: the master, or else a slave."""
    return broker.broker_addrs.get(MASTER_ID) or broker.broker_addrs[min(broker.broker_addrs)]


def _owners(brokers: list[BrokerData]) -> Mapping[str, BrokerData]:
    """Return the brokers by all of their addresses: a slave may be master by now, with the same log."""
    return {address: broker for broker in brokers for address in broker.broker_addrs.values()}
