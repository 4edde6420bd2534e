"""PULL_QUEUES: several queues in one answer, with the checks of a pull, no answer where plain pulls must be made."""

from __future__ import annotations

import struct

import pytest

from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import RemotingCommand, request
from pyromq.protocol.headers.pull import PullQueuesRequestHeader, PullQueuesResponseHeader
from pyromq.protocol.messages.record import decode_messages
from tests.broker.conftest import Connect, StartBroker
from tests.broker.helpers import Peer


async def _pull(peer: Peer, ranges: str, topic: str = "orders", tags: str = "*") -> RemotingCommand:
    header = PullQueuesRequestHeader(
        consumer_group="audit", topic=topic, ranges=ranges, subscription=tags, max_msg_nums=100, max_bytes=1 << 20
    )
    return await peer.remoting.request(peer.address, request(RequestCode.PULL_QUEUES, header), 5.0)


async def test_an_answer_has_the_messages_in_the_order_of_the_log_and_their_sizes(peer: Peer) -> None:
    for number in range(6):
        await peer.send(body=b"%d" % number, queue_id=number % 2)
    answer = await _pull(peer, "0:1:9,1:0:2")
    header = answer.header(PullQueuesResponseHeader)
    assert (header.count, header.next_offsets, header.min_offsets, header.max_offsets) == (4, "3,2", "0,0", "3,3")
    records, sizes = answer.body[:-16], struct.unpack(">4i", answer.body[-16:])
    assert [message.body for message in decode_messages(records)] == [b"1", b"2", b"3", b"4"]
    assert sum(sizes) == len(records)


async def test_only_wanted_tags_come(peer: Peer) -> None:
    for tag in ("a", "b", "a"):
        await peer.send(body=tag.encode(), properties=f"TAGS\x01{tag}")
    answer = await _pull(peer, "0:0:3", tags="b || c")
    assert answer.header(PullQueuesResponseHeader).next_offsets == "3"
    assert [message.body for message in decode_messages(answer.body[:-4])] == [b"b"]


@pytest.mark.parametrize(
    ("ranges", "topic", "code"),
    [
        ("0:0:3", "unknown", ResponseCode.TOPIC_NOT_EXIST),
        ("0:0:3,99:0:3", "orders", ResponseCode.SYSTEM_ERROR),
        ("0:0", "orders", ResponseCode.SYSTEM_ERROR),
        ("", "orders", ResponseCode.SYSTEM_ERROR),
        (",".join(["0:0:1"] * 300), "orders", ResponseCode.SYSTEM_ERROR),
    ],
)
async def test_the_checks_of_a_pull_are_made_for_each_queue(peer: Peer, ranges: str, topic: str, code: int) -> None:
    await peer.send()
    assert (await _pull(peer, ranges, topic)).code == code


async def test_a_damaged_message_is_left_to_plain_pulls(start_broker: StartBroker, connect: Connect) -> None:
    broker = await start_broker()
    peer = await connect(broker)
    await peer.send(body=b"sound")
    broker.store.get_merged = lambda *_: None  # type: ignore[method-assign]
    assert (await _pull(peer, "0:0:1")).code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
