"""Messages that tell of pulls for offsets that are not there."""

from __future__ import annotations

import asyncio

from pyromq.broker.pulls.offset_moved_events import MOST_EVENTS
from pyromq.broker.server import Broker
from pyromq.protocol.bodies import OffsetMovedEvent, decode
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.messages.message import MessageQueue
from pyromq.testing import TestClock, eventually
from tests.broker.helpers import Peer, pull_header

MOVED = ResponseCode.PULL_OFFSET_MOVED
TOPIC = "OFFSET_MOVED_EVENT"


async def test_a_pull_that_has_to_go_elsewhere_is_noted_with_its_group(broker: Broker, peer: Peer) -> None:
    await peer.send()
    answer = await peer.pull(queue_offset=50, expect=MOVED)
    await eventually(lambda: broker.store.max_offset(TOPIC, 0) == 1)
    (message,) = await peer.read(TOPIC)
    assert (message.tags, message.properties["KEYS"]) == ("billing", "billing")
    event = decode(OffsetMovedEvent, message.body)
    assert (event.consumer_group, event.message_queue) == ("billing", MessageQueue("orders", "broker-a", 0))
    assert (event.offset_request, str(event.offset_new)) == (50, answer.ext_fields["nextBeginOffset"])
    assert (message.store_host, message.born_host) == (broker.address, broker.address)
    (tagged,) = await peer.read(TOPIC, subscription="billing")
    assert tagged.body == message.body


async def test_a_consumer_that_asks_again_and_again_is_noted_once_a_second(
    broker: Broker, peer: Peer, clock: TestClock
) -> None:
    await peer.send()
    for _ in range(20):
        await peer.pull(queue_offset=50, expect=MOVED)
    await peer.pull(queue_offset=50, expect=MOVED, consumer_group="audit")
    await eventually(lambda: broker.store.max_offset(TOPIC, 0) == 2)
    await clock.advance_async(seconds=2)
    await peer.pull(queue_offset=50, expect=MOVED)
    await eventually(lambda: broker.store.max_offset(TOPIC, 0) == 3)


async def test_many_groups_cannot_fill_the_log_with_events(broker: Broker, peer: Peer) -> None:
    await peer.send()
    for number in range(2 * MOST_EVENTS):
        await peer.pull(queue_offset=50, expect=MOVED, consumer_group=f"g{number}")
    await peer.send()  # whatever was put before is committed now
    assert MOST_EVENTS <= broker.store.max_offset(TOPIC, 0) < 2 * MOST_EVENTS


async def test_a_held_pull_that_has_to_go_elsewhere_is_noted_too(broker: Broker, peer: Peer, clock: TestClock) -> None:
    await peer.send()
    end = broker.store.max_physical_offset
    await peer.send()
    header = pull_header(sys_flag=4 | 2, queue_offset=2)
    pulling = asyncio.create_task(peer.ask(RequestCode.PULL_MESSAGE, header, expect=MOVED))
    await eventually(lambda: len(broker.service.reading.pulls.waiting) == 1)
    broker.store.cut(end)  # its queue ends at 1 now
    await clock.advance_async(seconds=20)
    await pulling
    await eventually(lambda: broker.store.max_offset(TOPIC, 0) == 1)
