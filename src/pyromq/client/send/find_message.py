"""Find a stored message by its id, the client's or the broker's."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.client.net.routes import Routes
from pyromq.errors import MalformedHeader
from pyromq.protocol.messages.message import MessageExt
from pyromq.protocol.messages.message_id import decode_offset_id, near_time_ms

_MARGIN_MS = 24 * 3600 * 1000  # clocks and time zones differ


async def find_message(api: BrokerApi, routes: Routes, topic: str, message_id: str, now_ms: int) -> MessageExt | None:
    """Return the message with this client's or broker's id, None if no broker has it.

    Raises the error of a broker that could not be asked if no other one has the message; NoRoute if there is no such
    topic.
    """
    route = await routes.find(topic)
    readers = {name: routes.reader(name) for name in (broker.broker_name for broker in route.broker_datas)}
    addresses = {reader.address: name for name, reader in readers.items() if reader is not None}
    return await find_by_client_id(api, addresses, topic, message_id, now_ms) or await _by_place(
        api, addresses, topic, message_id
    )


async def find_by_client_id(
    api: BrokerApi, addresses: Mapping[str, str], topic: str, message_id: str, now_ms: int
) -> MessageExt | None:
    """Return the first stored message with a client's id among some brokers, whose names are given by address."""
    begin_ms = max((near_time_ms(message_id, now_ms) or 0) - _MARGIN_MS, 0)
    answers = await asyncio.gather(
        *[api.query(address, topic, message_id, unique=True, begin_ms=begin_ms) for address in addresses],
        return_exceptions=True,
    )
    found: list[MessageExt] = []
    for name, answer in zip(addresses.values(), answers, strict=True):
        if not isinstance(answer, BaseException):
            found += [_of(message, name) for message in answer]
    if found:
        return min(found, key=lambda message: message.store_timestamp_ms)
    for answer in answers:
        if isinstance(answer, BaseException):
            raise answer
    return None


async def _by_place(api: BrokerApi, addresses: Mapping[str, str], topic: str, message_id: str) -> MessageExt | None:
    try:
        address, physical_offset = decode_offset_id(message_id)
    except MalformedHeader:
        return None
    if address not in addresses:  # a client's id has the same form: never call the address it happens to contain
        return None
    message = await api.view(address, physical_offset)
    if message is None or message.topic != topic:
        return None
    return _of(message, addresses[address])


def _of(message: MessageExt, broker_name: str) -> MessageExt:
    message.broker_name = broker_name
    return message
