"""Finding messages on two brokers, by key, time, tag, body and id."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import patch

import pytest

from pyromq import Message, blocking
from pyromq.admin import AdminClient, MessageSearch, SearchBudget
from pyromq.errors import BrokerError, ClientError, LocalProtocolError, QueryNotFound, TopicNotFound
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import RemotingCommand
from pyromq.protocol.messages.message import MessageExt
from pyromq.remoting.connection import Connection
from pyromq.testing import LocalCluster

COUNT = 40


TOPIC = "orders"


def fill(cluster: LocalCluster) -> None:
    """Send numbered messages to the queues of all brokers in turn, each at a millisecond of its own."""
    with blocking.AdminClient(cluster.namesrv) as admin:
        admin.topics.create(TOPIC, read_queues=2, write_queues=2)
    with blocking.Producer("filling", cluster.namesrv, clock=cluster.clock) as producer:
        for number in range(COUNT):
            message = Message(
                topic=TOPIC,
                body=json.dumps({"n": number, "half": number / 2}).encode(),
                tags="even" if number % 2 == 0 else "odd",
                keys=[f"k-{number}", "all"],
                properties={"n": str(number)},
            )
            producer.send(message)
            cluster.clock.advance(seconds=0.01)


@pytest.fixture(scope="module")
def filled_pair() -> Iterator[LocalCluster]:
    """Two brokers with messages that no test changes."""
    with LocalCluster(2) as running:
        fill(running)
        yield running


@pytest.fixture
async def admin(filled_pair: LocalCluster) -> AsyncIterator[AdminClient]:
    async with AdminClient(filled_pair.namesrv, clock=filled_pair.clock) as opened:
        yield opened


async def numbers(search: MessageSearch) -> list[int]:
    return [json.loads(message.body)["n"] async for message in search]


async def newest(admin: AdminClient) -> list[MessageExt]:
    return [message async for message in admin.messages.find(TOPIC)]


async def test_every_message_is_found_the_newest_first(admin: AdminClient) -> None:
    search = admin.messages.find(TOPIC)
    assert await numbers(search) == list(range(COUNT))[::-1]
    assert (search.looked_at, search.found, search.stopped, search.silent_brokers) == (COUNT, COUNT, None, {})
    assert await numbers(admin.messages.find(TOPIC, oldest_first=True)) == list(range(COUNT))


async def test_messages_are_found_by_tag_and_by_condition(admin: AdminClient) -> None:
    assert await numbers(admin.messages.find(TOPIC, tags="odd", where="n > 34")) == [39, 37, 35]
    assert await numbers(admin.messages.find(TOPIC, where="body.half > 19")) == [39]
    assert await numbers(admin.messages.find(TOPIC, where="TAGS = 'odd' AND KEYS = 'k-3 all'")) == [3]
    assert await numbers(admin.messages.find(TOPIC, contains=b'"n": 7,')) == [7]


async def test_messages_are_found_by_time(admin: AdminClient) -> None:
    found = (await newest(admin))[::-1]
    since, until = found[10].stored_at, found[12].stored_at
    assert await numbers(admin.messages.find(TOPIC, since=since, until=until)) == [12, 11, 10]
    assert await numbers(admin.messages.find(TOPIC, until=found[2].stored_at)) == [2, 1, 0]
    assert await numbers(admin.messages.find(TOPIC, since=found[38].stored_at, oldest_first=True)) == [38, 39]
    later = datetime.fromtimestamp(found[-1].store_timestamp_ms / 1000 + 60, UTC)
    search = admin.messages.find(TOPIC, since=later)
    assert await numbers(search) == []
    assert search.looked_at == 0, "the others were not even read"


async def test_messages_are_found_by_key_through_the_index(admin: AdminClient) -> None:
    search = admin.messages.find(TOPIC, key="k-7")
    assert await numbers(search) == [7]
    assert search.looked_at == 1, "the others were not even read"
    assert await numbers(admin.messages.find(TOPIC, key="all")) == list(range(COUNT))[::-1]
    found = await newest(admin)
    search = admin.messages.find(TOPIC, key="all", until=found[30].stored_at, where="body.n > 5", tags="even")
    assert await numbers(search) == [8, 6]
    assert await numbers(admin.messages.find(TOPIC, key="no-such")) == []


@pytest.mark.parametrize("options", [{}, {"oldest_first": True}, {"key": "all"}])
async def test_a_stopped_search_goes_on_where_it_was(admin: AdminClient, options: dict[str, Any]) -> None:
    seen: list[int] = []
    since = until = None
    for _ in range(COUNT):
        search = admin.messages.find(
            TOPIC,
            since=since,
            until=until,
            budget=SearchBudget(messages=7),
            **options,
        )
        seen += await numbers(search)
        assert search.looked_at <= 7
        if search.stopped is None:
            break
        since, until = search.stopped.rest.since, search.stopped.rest.until
    assert seen == (list(range(COUNT)) if options.get("oldest_first") else list(range(COUNT))[::-1])


async def test_what_cannot_be_searched_is_said_at_once(admin: AdminClient) -> None:
    now = datetime.now(UTC)
    for wrong in (
        {"key": "k", "oldest_first": True},
        {"key": ""},
        {"since": now, "until": now - timedelta(seconds=1)},
    ):
        with pytest.raises(ClientError):
            admin.messages.find("orders", **wrong)
    with pytest.raises(LocalProtocolError, match="character 10"):
        admin.messages.find("orders", where="body.a = ")
    with pytest.raises(TopicNotFound, match="no broker has the topic 'nowhere'"):
        await numbers(admin.messages.find("nowhere"))


@pytest.mark.parametrize(
    ("code", "options"),
    [
        (RequestCode.GET_MAX_OFFSET, {}),
        (RequestCode.PULL_MESSAGE, {}),
        (RequestCode.QUERY_MESSAGE, {"key": "all"}),
    ],
)
async def test_a_broker_that_does_not_answer_is_named(
    filled_pair: LocalCluster, admin: AdminClient, code: RequestCode, options: dict[str, Any]
) -> None:
    def refuse(request: RemotingCommand, connection: Connection) -> RemotingCommand:
        raise BrokerError("not now")

    server = filled_pair.brokers[1].server
    assert server is not None
    with patch.dict(server.handlers, {code: refuse}):
        search = admin.messages.find(TOPIC, **options)
        assert 0 < len(await numbers(search)) < COUNT
    assert list(search.silent_brokers) == ["broker-b"]
    assert "not now" in search.silent_brokers["broker-b"]


async def test_the_blocking_face_searches_too(filled_pair: LocalCluster) -> None:
    def look() -> None:
        with blocking.AdminClient(filled_pair.namesrv) as admin:
            search = admin.messages.find(TOPIC, tags="odd", budget=SearchBudget(messages=10))
            found = [json.loads(message.body)["n"] for message in search]
            assert found == [39, 37, 35, 33, 31]
            assert (search.looked_at, search.found, search.silent_brokers) == (10, 5, {})
            assert search.stopped is not None
            assert search.rest == search.stopped.rest
            message = admin.messages.get(next(iter(admin.messages.find(TOPIC, key="k-7"))).message_id, TOPIC)
            assert json.loads(message.body)["n"] == 7
            assert admin.messages.consumed_by(message) == []

    await asyncio.to_thread(look)


async def test_a_place_in_a_topic_names_a_message(admin: AdminClient) -> None:
    async for message in admin.messages.find(TOPIC, key="k-7"):
        place = f"{message.broker_name}:{message.queue_id}:{message.queue_offset}"
        assert (await admin.messages.get(place, TOPIC)).message_id == message.message_id
    with pytest.raises(ClientError, match="broker-a:0:0 is a place in a topic: name the topic"):
        await admin.messages.get("broker-a:0:0")
    with pytest.raises(QueryNotFound, match="has no queue broker-a:9"):
        await admin.messages.get("broker-a:9:0", TOPIC)
    with pytest.raises(QueryNotFound, match=f"no message is at {COUNT} of broker-a:0: it holds 0 to {COUNT // 4 - 1}"):
        await admin.messages.get(f"broker-a:0:{COUNT}", TOPIC)
    with pytest.raises(TopicNotFound):
        await admin.messages.get("broker-a:0:0", "nothing")


async def test_an_id_that_nobody_has_is_an_error(admin: AdminClient) -> None:
    with pytest.raises(QueryNotFound, match="no message of topic"):
        await admin.messages.get("7F00000100002A9F0000000000FFFFFF", TOPIC)
