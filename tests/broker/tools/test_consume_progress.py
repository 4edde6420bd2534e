"""How far groups are, in messages and in time, and what queues hold."""

from __future__ import annotations

from pyromq.broker.server import Broker
from pyromq.broker.tools.queue_entries import MOST_ENTRIES
from pyromq.protocol.bodies import (
    ConsumeStatsList,
    ProducerTableInfo,
    QueryConsumeQueueResponseBody,
    QueryConsumeTimeSpanBody,
    decode,
)
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.messages.message import MessageQueue
from pyromq.protocol.tag_filter import java_hash
from pyromq.testing import TestClock
from tests.broker.conftest import Connect, StartBroker
from tests.broker.helpers import Peer, heartbeat

ALL = RequestCode.GET_BROKER_CONSUME_STATS
SPANS = RequestCode.QUERY_CONSUME_TIME_SPAN
ENTRIES = RequestCode.QUERY_CONSUME_QUEUE


async def test_the_progress_of_all_groups_is_told_with_what_is_left(broker: Broker, peer: Peer) -> None:
    for _ in range(5):
        await peer.send(queue_id=1)
    await peer.send("refunds", queue_id=0)
    await peer.beat("c1", "billing", {"orders": "*", "refunds": "*"})
    broker.offsets.commit("billing", "orders", 1, 3, "me")
    broker.offsets.commit("billing", "refunds", 0, 1, "me")
    broker.offsets.commit("billing", "gone", 0, 7, "me")
    found = decode(ConsumeStatsList, (await peer.ask(ALL, {"isOrder": "false"})).body)
    assert (found.broker_addr, found.total_diff) == (broker.address, 2)
    groups = {name: stats for row in found.consume_stats_list for name, stats in row.items()}
    assert "TOOLS_CONSUMER" in groups
    tables = [stats.offset_table for stats in groups["billing"]]
    assert [{queue.topic for queue in table} for table in tables] == [{"orders"}, {"refunds"}]
    row = tables[0][MessageQueue("orders", "broker-a", 1)]
    assert (row.broker_offset, row.consumer_offset) == (5, 3)
    assert row.last_timestamp > 0


async def test_only_ordered_topics_are_told_where_that_is_asked(broker: Broker, peer: Peer) -> None:
    await peer.send()
    await peer.send("refunds")
    await peer.beat("c1", "billing", {"orders": "*", "refunds": "*"})
    for topic in ("orders", "refunds"):
        broker.offsets.commit("billing", topic, 0, 0, "me")
    broker.topics.set_ordered({"orders"})
    found = decode(ConsumeStatsList, (await peer.ask(ALL, {"isOrder": "true"})).body)
    topics = {
        queue.topic
        for row in found.consume_stats_list
        for stats in row.values()
        for each in stats
        for queue in each.offset_table
    }
    assert (topics, found.total_diff) == ({"orders"}, 1)


async def test_how_late_a_group_is_is_told_by_queue(broker: Broker, peer: Peer, clock: TestClock) -> None:
    times = []
    for _ in range(3):
        times.append(clock.now_ms())
        await peer.send()
        await clock.advance_async(seconds=60)
    broker.offsets.commit("billing", "orders", 0, 2, "me")
    fields = {"topic": "orders", "group": "billing"}
    body = decode(QueryConsumeTimeSpanBody, (await peer.ask(SPANS, fields)).body)
    first, second = body.consume_time_span_set[:2]
    assert first.message_queue == MessageQueue("orders", "broker-a", 0)
    for told, expected in zip(
        (first.min_time_stamp, first.consume_time_stamp, first.max_time_stamp), times, strict=True
    ):
        assert 0 <= told - expected < 5_000
    assert 55_000 < first.delay_time < 70_000  # of the message that comes next
    assert first.min_time_stamp_str is not None
    assert (second.min_time_stamp, second.max_time_stamp, second.delay_time) == (-1, -1, 0)
    await peer.ask(SPANS, {**fields, "topic": "nothing"}, expect=ResponseCode.TOPIC_NOT_EXIST)


async def test_a_group_that_never_consumed_is_as_late_as_the_first_message(peer: Peer, clock: TestClock) -> None:
    await peer.send()
    await clock.advance_async(seconds=60)
    body = (await peer.ask(SPANS, {"topic": "orders", "group": "nobody"})).body
    first = decode(QueryConsumeTimeSpanBody, body).consume_time_span_set[0]
    assert first.consume_time_stamp == first.min_time_stamp
    assert 55_000 < first.delay_time < 70_000


async def entries(peer: Peer, expect_body: bool = True, **fields: object) -> QueryConsumeQueueResponseBody | None:
    values = {"topic": "orders", "queueId": 0, "index": 0, "count": 10} | fields
    answer = await peer.ask(ENTRIES, {name: str(value) for name, value in values.items()})
    assert bool(answer.body) is expect_body
    return decode(QueryConsumeQueueResponseBody, answer.body) if answer.body else None


async def test_the_entries_of_a_queue_are_told_as_stored(peer: Peer, broker: Broker) -> None:
    for tag in ("a", "b", "c"):
        await peer.send(properties=f"TAGS\x01{tag}")
    body = await entries(peer, index=1, count=MOST_ENTRIES * 2)
    assert body is not None
    assert (body.min_queue_index, body.max_queue_index) == (0, 3)
    assert [row.tags_code for row in body.queue_data] == [java_hash("b"), java_hash("c")]
    stored = broker.store.read(body.queue_data[0].physic_offset)
    assert stored is not None
    assert len(stored) == body.queue_data[0].physic_size
    few = await entries(peer, count=1)
    assert few is not None
    assert len(few.queue_data) == 1


async def test_an_index_outside_the_queue_is_answered_without_a_body(peer: Peer) -> None:
    await peer.send()
    for index in (1, -1, 99):
        await entries(peer, expect_body=False, index=index)
    unknown = {"topic": "orders", "queueId": "3", "index": "0", "count": "1"}
    await peer.ask(ENTRIES, unknown, expect=ResponseCode.SYSTEM_ERROR)


async def test_what_a_group_wants_of_a_queue_is_told_beside_its_entries(
    start_broker: StartBroker, connect: Connect
) -> None:
    peer = await connect(await start_broker(enablePropertyFilter="true"))
    for tag in ("a", "b"):
        await peer.send(properties=f"TAGS\x01{tag}\x02size\x01{ord(tag)}")
    offline = await entries(peer, consumerGroup="billing")
    assert offline is not None
    assert offline.filter_data == "billing does not subscribe to orders now"
    assert not any(row.eval for row in offline.queue_data)
    await peer.beat("c1", "billing", {"orders": "b"})
    tags = await entries(peer, consumerGroup="billing")
    assert tags is not None
    assert tags.subscription_data is not None
    assert tags.subscription_data.sub_string == "b"
    assert [row.eval for row in tags.queue_data] == [False, True]
    by_property = heartbeat("c2", "sql", {"orders": "*"}).replace(b'"*"', b'"size < 98"').replace(b'"TAG"', b'"SQL92"')
    await peer.ask(RequestCode.HEART_BEAT, None, by_property)
    sql = await entries(peer, consumerGroup="sql")
    assert sql is not None
    assert '"expression":"size < 98"' in (sql.filter_data or "")
    assert [row.eval for row in sql.queue_data] == [True, False]


async def test_all_producers_are_told_by_group(peer: Peer, clock: TestClock) -> None:
    await peer.beat("p1", producer="shop")
    await peer.beat("p1", producer="office")
    table = decode(ProducerTableInfo, (await peer.ask(RequestCode.GET_ALL_PRODUCER_INFO)).body).data
    assert sorted(table) == ["office", "shop"]
    (info,) = table["shop"]
    assert (info.client_id, info.language.name) == ("p1", "PYTHON")
    assert info.remote_ip.startswith("/127.0.0.1:")
    assert abs(info.last_update_timestamp - clock.now_ms()) < 60_000
