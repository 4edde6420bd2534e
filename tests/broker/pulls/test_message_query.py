"""QUERY_MESSAGE over a real socket: by key, by unique key, by time."""

from __future__ import annotations

import pytest

from pyromq.broker.server import Broker
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import RemotingCommand
from pyromq.protocol.messages.record import decode_messages
from pyromq.testing import TestClock
from tests.broker.conftest import Connect, StartBroker
from tests.broker.helpers import Peer, send_header

FOREVER = 2**63 - 1


async def send(peer: Peer, keys: str, unique: str, body: bytes = b"hello") -> None:
    properties = f"KEYS\x01{keys}\x02UNIQ_KEY\x01{unique}\x02WAIT\x01true"
    await peer.ask(RequestCode.SEND_MESSAGE_V2, send_header(properties=properties), body)


async def query(
    peer: Peer, key: str, expect: int = ResponseCode.SUCCESS, count: int = 64, *, topic: str = "orders",
    unique: bool = False, begin_ms: int = 0, end_ms: int = FOREVER,
) -> RemotingCommand:  # fmt: skip
    fields = {
        "topic": topic, "key": key, "maxNum": str(count), "beginTimestamp": str(begin_ms),
        "endTimestamp": str(end_ms), "_UNIQUE_KEY_QUERY": str(unique).lower(),
    }  # fmt: skip
    return await peer.ask(RequestCode.QUERY_MESSAGE, fields, expect=expect)


def bodies(answer: RemotingCommand) -> list[bytes]:
    return [message.body for message in decode_messages(answer.body)]


async def test_a_sent_message_is_found_at_once_by_each_of_its_keys(peer: Peer, broker: Broker) -> None:
    await send(peer, "a b", "U1", b"one")
    await send(peer, "b", "U2", b"two")
    assert bodies(await query(peer, "a")) == [b"one"]
    answer = await query(peer, "b")
    assert bodies(answer) == [b"one", b"two"]
    last = decode_messages(answer.body)[-1]
    assert answer.ext_fields == {
        "indexLastUpdateTimestamp": str(last.store_timestamp_ms),
        "indexLastUpdatePhyoffset": str(last.physical_offset),
    }


async def test_a_unique_key_is_asked_for_32_whatever_the_query_says(peer: Peer) -> None:
    for number in range(40):
        await send(peer, "a", "same", b"%d" % number)
    assert len(bodies(await query(peer, "same", count=1, unique=True))) == 32
    assert bodies(await query(peer, "same", count=1)) == [b"39"]
    assert len(bodies(await query(peer, "a", count=1000))) == 40


async def test_only_messages_of_the_time_are_answered(peer: Peer, clock: TestClock) -> None:
    for number in range(3):
        await send(peer, "a", f"U{number}", b"%d" % number)
        await clock.advance_async(seconds=10)
    now_ms = clock.now_ms()
    assert bodies(await query(peer, "a", begin_ms=now_ms - 25_000, end_ms=now_ms - 15_000)) == [b"1"]
    await query(peer, "a", ResponseCode.QUERY_NOT_FOUND, begin_ms=now_ms)


@pytest.mark.parametrize("fields", [{"key": "b"}, {"key": "a", "topic": "others"}, {"key": "a", "count": -1}])
async def test_nothing_found_is_said_so(peer: Peer, fields: dict[str, object]) -> None:
    await send(peer, "a", "U1")
    await query(peer, **fields, expect=ResponseCode.QUERY_NOT_FOUND)  # type: ignore[arg-type]


async def test_without_an_index_nothing_is_found(start_broker: StartBroker, connect: Connect) -> None:
    broker = await start_broker(messageIndexEnable="false")
    peer = await connect(broker)
    await send(peer, "a", "U1")
    await query(peer, "a", ResponseCode.QUERY_NOT_FOUND)


async def test_the_limits_can_be_set(start_broker: StartBroker, connect: Connect) -> None:
    broker = await start_broker(maxMsgsNumBatch=3, defaultQueryMaxNum=2, maxHashSlotNum=16, maxIndexNum=8)
    peer = await connect(broker)
    for number in range(9):
        await send(peer, "a", "same", b"%d" % number)
    assert bodies(await query(peer, "a")) == [b"6", b"7", b"8"]
    assert bodies(await query(peer, "same", unique=True)) == [b"7", b"8"]
    assert {path.stat().st_size for path in (broker.config.store.root / "index").iterdir()} == {40 + 4 * 16 + 20 * 8}
