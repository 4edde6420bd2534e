"""Offsets of a topic that was deleted mean other messages in the next one of that name: our clients are told apart."""

from __future__ import annotations

import pytest

from pyromq.broker.pulls.topic_lives import TopicLives
from pyromq.broker.server import Broker
from pyromq.protocol.codes import PULL_COMMIT_OFFSET_FLAG, PULL_FORWARD_FLAG, RequestCode, ResponseCode
from pyromq.protocol.headers.offsets import QueryConsumerOffsetResponseHeader
from pyromq.protocol.headers.pull import PullMessageResponseHeader
from tests.broker.helpers import Peer

QUEUE = {"topic": "orders", "queueId": "0", "consumerGroup": "billing"}
COMMITS = PULL_COMMIT_OFFSET_FLAG | PULL_FORWARD_FLAG


async def delete(peer: Peer, broker: Broker) -> int:
    """Delete the topic, fill another of its name just as far, and return by what they are told apart."""
    end = broker.store.max_offset("orders", 0)
    await peer.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "orders"})
    for _ in range(end):
        await peer.send("orders")
    return broker.store.cleaner.deleted_at("orders")


async def life_by_pull(peer: Peer, known: int) -> int | None:
    answer = await peer.pull(pyromq_deleted_at=known)
    return answer.header(PullMessageResponseHeader).pyromq_deleted_at


async def life_by_query(peer: Peer) -> int | None:
    answer = await peer.ask(RequestCode.QUERY_CONSUMER_OFFSET, QUEUE)
    return answer.header(QueryConsumerOffsetResponseHeader).pyromq_deleted_at


async def test_a_client_learns_the_life_of_a_topic_from_its_offset_or_a_pull_that_asks(
    peer: Peer, broker: Broker
) -> None:
    await peer.send("orders")
    assert (await life_by_query(peer), await life_by_pull(peer, -1)) == (None, None)
    life = await delete(peer, broker)
    assert life > 0
    assert (await life_by_query(peer), await life_by_pull(peer, -1), await life_by_pull(peer, life)) == (
        life,
        life,
        None,
    )


async def test_an_offset_of_a_deleted_topic_is_neither_read_nor_committed(peer: Peer, broker: Broker) -> None:
    await peer.send("orders")
    await peer.send("orders")
    first = await delete(peer, broker)
    second = await delete(peer, broker)
    for known in (0, first):
        code = ResponseCode.TOPIC_NOT_EXIST
        await peer.pull(expect=code, queue_offset=1, sys_flag=COMMITS, commit_offset=1, pyromq_deleted_at=known)
        late = QUEUE | {"commitOffset": "1", "pyromqForward": "true", "pyromqDeletedAt": str(known)}
        await peer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, late)
        assert broker.offsets.get("billing", "orders", 0) is None
    current = QUEUE | {"commitOffset": "1", "pyromqForward": "true", "pyromqDeletedAt": str(second)}
    await peer.ask(RequestCode.UPDATE_CONSUMER_OFFSET, current)
    assert broker.offsets.get("billing", "orders", 0) == 1
    assert len(await peer.read(queue_offset=1, pyromq_deleted_at=second)) == 1


async def test_a_client_that_does_not_tell_is_served_as_ever(peer: Peer, broker: Broker) -> None:
    await peer.send("orders")
    await delete(peer, broker)
    assert len(await peer.read(queue_offset=0)) == 1


@pytest.mark.parametrize(
    ("life", "known", "is_current"),
    [
        (0, None, True),
        (500, None, True),
        (500, -1, True),
        (0, 0, True),
        (500, 500, True),
        (500, 0, False),
        (500, 400, False),
        (500, 600, False),  # the log was cut, or this broker is a slave that lags behind
        (0, 90, True),  # the log begins behind the deletion, which is forgotten
        (0, 101, False),  # this broker has never heard of it
    ],
)
def test_when_offsets_count(life: int, known: int | None, is_current: bool) -> None:
    lives = TopicLives(lambda topic: life, lambda: 100)
    assert lives.is_current("orders", known) == is_current
