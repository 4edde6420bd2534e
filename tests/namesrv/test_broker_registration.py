"""What a registration costs in memory."""

from __future__ import annotations

import tracemalloc

from pyromq.namesrv.broker_registration import reading_registration
from pyromq.namesrv.routes import RouteTable
from pyromq.protocol.bodies import DataVersion, RegisterBrokerBody, TopicConfig, TopicConfigSerializeWrapper
from pyromq.protocol.bodies.json_steps import finish
from pyromq.protocol.bodies.register_broker import encode_register_body
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import RemotingCommand, decode, request

COUNT = 20_000


def registration(count: int) -> RemotingCommand:
    """Return a registration of so many topics; every other one has 4 queues, the rest 8."""
    topics = (TopicConfig(f"topic-{number}", 4 + number % 2 * 4, 4 + number % 2 * 4) for number in range(count))
    table = TopicConfigSerializeWrapper(DataVersion(1, 1), {topic.topic_name: topic for topic in topics})
    who = {"brokerName": "broker-a", "brokerAddr": "10.0.0.1:1", "clusterName": "c", "brokerId": "0"}
    body = encode_register_body(RegisterBrokerBody(table), compressed=True)
    return decode(
        request(RequestCode.REGISTER_BROKER, who | {"haServerAddr": "", "compressed": "true"}, body).encode()[4:]
    )


def test_topics_with_the_same_numbers_share_one_object() -> None:
    topics = finish(reading_registration(registration(100))).topics
    assert len(topics) == 100
    assert len({id(queues) for queues in topics.values()}) == 2
    assert topics["topic-0"].read_queue_nums == 4
    assert topics["topic-1"].write_queue_nums == 8


def test_a_registered_topic_takes_little_more_than_its_name() -> None:
    registered = registration(COUNT)
    routes = RouteTable()
    tracemalloc.start()
    try:
        routes.register(finish(reading_registration(registered)), object(), 0.0)
        held, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert routes.counts().topics == COUNT
    assert held < COUNT * 160
    assert most < COUNT * 400
