"""How far groups are behind, as a walk through all of them finds it."""

from __future__ import annotations

from pathlib import Path

from pyromq.broker.server import Broker
from pyromq.broker.stats.group_lag import GroupBacklog
from pyromq.protocol.bodies import MessageModel
from pyromq.protocol.codes import RequestCode
from pyromq.testing import TestClock
from tests.broker.conftest import Connect, StartBroker
from tests.broker.helpers import Peer, heartbeat


async def walk(broker: Broker) -> list[GroupBacklog]:
    return [each async for batch in broker.service.reading.lags.walk() for each in batch]


async def find(broker: Broker, topic: str = "orders") -> GroupBacklog:
    (found,) = [each for each in await walk(broker) if (each.group, each.topic) == ("billing", topic)]
    return found


async def test_a_group_that_was_never_online_and_one_that_subscribes_have_a_lag(broker: Broker, peer: Peer) -> None:
    await peer.send()
    assert await walk(broker) == []
    await peer.ask(RequestCode.HEART_BEAT, body=heartbeat())
    assert ((await find(broker)).lag, (await find(broker)).members) == (1, 1)
    broker.groups.find_or_create("billing")
    broker.offsets.commit("billing", "orders", 0, 1, "test")
    await peer.remoting.close()
    assert (await find(broker)).lag == 0


async def test_a_group_that_no_longer_subscribes_has_no_lag_there(broker: Broker, peer: Peer) -> None:
    await peer.send()
    broker.groups.find_or_create("billing")
    broker.offsets.commit("billing", "orders", 0, 0, "test")
    await peer.ask(RequestCode.HEART_BEAT, body=heartbeat(topics={"others": "*"}))
    assert [each.topic for each in await walk(broker)] == []


async def test_brokers_do_not_know_how_far_a_broadcasting_group_is(broker: Broker, peer: Peer) -> None:
    await peer.send()
    await peer.ask(RequestCode.HEART_BEAT, body=heartbeat(model=MessageModel.BROADCASTING))
    assert await walk(broker) == []


async def test_a_queue_stands_still_since_its_offset_moved_and_not_before_a_message_waited(
    broker: Broker, peer: Peer, clock: TestClock
) -> None:
    await peer.ask(RequestCode.HEART_BEAT, body=heartbeat())
    await clock.advance_async(seconds=50)
    await peer.send()
    await clock.advance_async(seconds=30)
    (queue,) = (await find(broker)).queues
    assert queue.behind is not None
    assert 29 <= queue.behind <= 31
    assert 19 <= queue.still <= queue.behind, "the broker looks every 10 s"
    await peer.send()
    broker.offsets.commit("billing", "orders", 0, 1, "test")
    (queue,) = (await find(broker)).queues
    assert (queue.still, queue.lag) == (0, 1)


async def test_a_message_that_expired_is_no_lag(
    start_broker: StartBroker, connect: Connect, clock: TestClock, tmp_path: Path
) -> None:
    broker = await start_broker(mappedFileSizeCommitLog=65_536)
    peer = await connect(broker)
    await peer.ask(RequestCode.HEART_BEAT, body=heartbeat())
    for _ in range(7):
        await peer.send(body=b"x" * 20_000)
    assert (await find(broker)).lag == 7
    broker.store.cleaner.drop_log_before(2 * 65_536)
    while broker.store.cleaner.go_on():
        pass
    (queue,) = (await find(broker)).queues
    assert (queue.lag, queue.committed, queue.end) == (1, 0, 7)


async def test_a_queue_that_stands_still_is_read_once(broker: Broker, peer: Peer) -> None:
    await peer.ask(RequestCode.HEART_BEAT, body=heartbeat())
    await peer.send()
    await walk(broker)
    reads: list[str] = []
    whole = broker.store.get

    def counted(topic: str, *args: object, **named: object) -> object:
        reads.append(topic)
        return whole(topic, *args, **named)  # type: ignore[arg-type]

    broker.store.get = counted  # type: ignore[method-assign, assignment]
    assert (await find(broker)).behind is not None
    assert reads == []


async def test_a_topic_made_anew_has_the_age_of_its_own_messages(broker: Broker, peer: Peer, clock: TestClock) -> None:
    await peer.ask(RequestCode.HEART_BEAT, body=heartbeat())
    await peer.send()
    await clock.advance_async(seconds=100)
    behind = (await find(broker)).behind
    assert behind is not None
    assert behind >= 99
    await peer.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "orders"})
    await peer.send()
    behind = (await find(broker)).behind
    assert behind is not None
    assert behind < 50
