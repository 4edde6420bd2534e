from __future__ import annotations

import pytest

from pyromq.client.net.publish_info import TopicPublishInfo, queue_by_choice, queue_for_key, write_queues
from pyromq.errors import ClientError, InvalidMessage
from pyromq.protocol.bodies import BrokerData, QueueData, TopicRouteData
from pyromq.protocol.messages.message import Message, MessageQueue


def route(**brokers: tuple[int, int]) -> TopicRouteData:
    """Return a route of brokers by name, each with its write queues and permission."""
    return TopicRouteData(
        queue_datas=[
            QueueData(broker_name=name, read_queue_nums=8, write_queue_nums=count, perm=perm)
            for name, (count, perm) in brokers.items()
        ],
        broker_datas=[BrokerData(broker_name=name, broker_addrs={0: f"{name}:1"}) for name in brokers],
    )


def queues(*counts: tuple[str, int]) -> list[MessageQueue]:
    return [MessageQueue("T", name, number) for name, count in counts for number in range(count)]


def test_write_queues_come_by_broker_name_and_number() -> None:
    assert write_queues("T", route(b=(1, 6), a=(2, 6))) == queues(("a", 2), ("b", 1))


def test_brokers_that_may_not_be_written_are_left_out() -> None:
    assert write_queues("T", route(a=(2, 4), b=(1, 2))) == queues(("b", 1))


def test_a_broker_without_a_master_is_left_out() -> None:
    both = route(a=(1, 6), b=(1, 6))
    both.broker_datas[0].broker_addrs = {1: "slave:1"}
    assert write_queues("T", both) == queues(("b", 1))


def test_a_new_topic_gets_as_many_queues_as_asked_for_but_no_more_than_its_template() -> None:
    assert write_queues("T", route(a=(8, 7)), 4) == queues(("a", 4))
    assert len(write_queues("T", route(a=(8, 7)), 100)) == 8


def test_an_order_topic_keeps_the_queues_of_its_setting() -> None:
    ordered = route(a=(1, 6))
    ordered.order_topic_conf = "b:2;a:1;;broken"
    assert write_queues("T", ordered) == queues(("b", 2), ("a", 1))


def test_queues_are_taken_in_turn() -> None:
    info = TopicPublishInfo(queues(("a", 2), ("b", 1)))
    taken = [info.next() for _ in range(6)]
    assert taken[:3] == taken[3:]
    assert set(taken) == set(info.queues)


def test_a_retry_goes_to_another_broker_where_there_is_one() -> None:
    info = TopicPublishInfo(queues(("a", 3), ("b", 1)))
    assert {info.next_elsewhere("a").broker_name for _ in range(10)} == {"b"}
    alone = TopicPublishInfo(queues(("a", 3)))
    assert alone.next_elsewhere("a").broker_name == "a"


# From Java: "o-1".hashCode() is 108115; "payment".hashCode() is -786681338, whose remainder by 4 is -2.
@pytest.mark.parametrize(("key", "queue_id"), [("o-1", 108115 % 4), ("payment", 2), ("a", 97 % 4)])
def test_a_key_goes_to_the_queue_that_java_chooses(key: str, queue_id: int) -> None:
    assert queue_for_key(queues(("a", 4)), key).queue_id == queue_id


@pytest.mark.parametrize("key", ["", "  ", 7])
def test_an_order_key_must_be_a_text(key: str) -> None:
    with pytest.raises(InvalidMessage, match="order key"):
        queue_for_key(queues(("a", 4)), key)


def test_the_callers_choice_must_be_a_queue() -> None:
    message = Message(topic="T", body=b"x")
    assert queue_by_choice(queues(("a", 4)), message, lambda found, _: found[2]).queue_id == 2
    with pytest.raises(ClientError, match="select must return"):
        queue_by_choice(queues(("a", 4)), message, lambda found, _: None)  # type: ignore[arg-type,return-value]
