"""The activity of all topics and groups in one answer each."""

from __future__ import annotations

from pyromq.broker.server import Broker
from pyromq.broker.tools import activity
from pyromq.protocol.bodies import MessageModel
from pyromq.protocol.bodies.activity import GroupActivities, TopicActivities, decode_activity
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import request
from pyromq.protocol.headers.admin import TablePartRequestHeader, TablePartResponseHeader
from pyromq.testing import TestClock
from tests.broker.helpers import Peer


async def groups_of(peer: Peer) -> GroupActivities:
    return decode_activity(GroupActivities, (await peer.ask(RequestCode.GROUP_ACTIVITY)).body)


async def test_topics_have_their_counts_and_dead_letters_their_number(broker: Broker, peer: Peer) -> None:
    for _ in range(3):
        await peer.send()
    broker.topics.ensure("%DLQ%billing", 1, "in a test")
    await peer.send("%DLQ%billing")
    found = decode_activity(TopicActivities, (await peer.ask(RequestCode.TOPIC_ACTIVITY)).body).topics
    assert (found["orders"].puts, found["orders"].held) == (3, None)
    assert found["orders"].put_bytes > 0
    assert found["%DLQ%billing"].held == 1
    assert set(found) == set(broker.topics.by_name)


async def test_many_topics_come_in_parts(broker: Broker, peer: Peer) -> None:
    assert activity.TOPICS_A_PART < 10_000
    names = [f"topic-{number}" for number in range(activity.TOPICS_A_PART + 10)]
    for name in names:
        broker.topics.ensure(name, 1, "in a test")
    found: dict[str, object] = {}
    start: int | None = 0
    parts = 0
    while start is not None:
        answer = await peer.ask(RequestCode.TOPIC_ACTIVITY, TablePartRequestHeader(pyromq_from=start))
        found |= decode_activity(TopicActivities, answer.body).topics
        start = answer.header(TablePartResponseHeader).pyromq_next
        parts += 1
    assert (set(names) <= set(found), parts) == (True, 2)


async def test_a_group_has_its_lag_and_the_time_of_its_first_waiting_message(
    broker: Broker, peer: Peer, clock: TestClock
) -> None:
    for _ in range(2):
        await peer.send(queue_id=1)
    await clock.advance_async(seconds=50)
    second_ms = clock.now_ms()
    for _ in range(3):
        await peer.send(queue_id=1)
    broker.offsets.commit("billing", "orders", 1, 2, "me")
    broker.offsets.commit("billing", "gone", 0, 7, "me")
    found = await groups_of(peer)
    row = found.groups["billing"]
    assert (row.lag, row.members, row.model) == (3, (), None)
    assert row.oldest_ms is not None
    assert second_ms <= row.oldest_ms <= found.now_ms <= clock.now_ms()
    broker.offsets.commit("billing", "orders", 1, 5, "me")
    row = (await groups_of(peer)).groups["billing"]
    assert (row.lag, row.oldest_ms) == (0, None)


async def test_members_count_with_the_topics_that_they_subscribe_to(broker: Broker, peer: Peer) -> None:
    await peer.send(queue_id=0)
    await peer.send("refunds", queue_id=0)
    broker.offsets.commit("billing", "refunds", 0, 0, "me")
    assert (await groups_of(peer)).groups["billing"].lag == 1
    await peer.beat("c1", "billing", {"orders": "*"})
    row = (await groups_of(peer)).groups["billing"]
    assert (row.members, row.model, row.lag) == (("c1",), MessageModel.CLUSTERING, 1)


async def test_a_group_that_stands_still_is_not_read_again(broker: Broker, peer: Peer) -> None:
    await peer.send(queue_id=0)
    broker.offsets.commit("billing", "orders", 0, 0, "me")
    first = (await groups_of(peer)).groups["billing"]
    reads, get = [], broker.store.get

    def counted(*arguments: object, **more: object) -> object:
        reads.append(arguments)
        return get(*arguments, **more)  # type: ignore[arg-type]

    broker.store.get = counted  # type: ignore[assignment,method-assign]
    assert (await groups_of(peer)).groups["billing"] == first
    assert reads == []
    broker.topics.remove("orders")
    assert (await groups_of(peer)).groups["billing"].lag == 0


async def test_an_answer_about_many_topics_is_made_in_short_steps(broker: Broker) -> None:
    handlers = activity.ActivityHandlers(broker.service.parts)
    for number in range(1_000):
        broker.topics.ensure(f"topic-{number}", 8, "in a test")
    steps = handlers.of_topics(request(RequestCode.TOPIC_ACTIVITY, TablePartRequestHeader()), None)  # type: ignore[arg-type]
    assert len(list(steps)) >= 4, "no step has more than 250 topics"
