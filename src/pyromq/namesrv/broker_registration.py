"""BrokerRegistration: what a broker says when it registers, read from every form that brokers have used."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Final

from msgspec import Struct

from pyromq.errors import BrokerError
from pyromq.protocol.bodies import DataVersion, RegisterBrokerBody, TopicConfig, TopicConfigSerializeWrapper
from pyromq.protocol.bodies.clients import MAX_NAME
from pyromq.protocol.bodies.json_steps import decoding
from pyromq.protocol.bodies.register_broker import MAX_REGISTERED, decoding_register_body
from pyromq.protocol.command import RemotingCommand
from pyromq.protocol.headers.routes import RegisterBrokerRequestHeader
from pyromq.protocol.messages.record import body_crc
from pyromq.protocol.names import MAX_QUEUES

TOPICS_A_STEP: Final = 1_000
WHOLE_BODY_VERSION: Final = 37  # 3.0.11; brokers before it sent their topic table alone


class TopicQueues(Struct, frozen=True, gc=False):
    """How a broker serves a topic. Most of its topics have the same numbers, and then one object."""

    read_queue_nums: int = 16
    write_queue_nums: int = 16
    perm: int = 6
    topic_sys_flag: int = 0


class BrokerRegistration(Struct, frozen=True, kw_only=True):
    """A broker and its topics. If `filter_servers` is None, those known before stay."""

    cluster: str
    broker_name: str
    broker_id: int
    address: str
    ha_address: str
    data_version: DataVersion
    topics: Mapping[str, TopicQueues]
    filter_servers: list[str] | None = None
    epoch: int = 0
    """The epoch in which it is master; 0 if it did not say."""
    history: str = ""
    """Names the log of which it is master; empty if it did not say."""


def reading_registration(
    request: RemotingCommand, most_topics: int = MAX_REGISTERED
) -> Generator[None, None, BrokerRegistration]:
    """Read a REGISTER_BROKER request in steps; raise BrokerError if the body was changed on its way, or is too much."""
    header = request.header(RegisterBrokerRequestHeader)
    history = header.pyromq_history or ""
    for text in (header.cluster_name, header.broker_name, header.broker_addr, header.ha_server_addr, history):
        if len(text) > MAX_NAME:
            raise BrokerError(f"a name or address of {len(text)} characters, the limit is {MAX_NAME}")
    if header.body_crc32 != 0 and header.body_crc32 != body_crc(request.body):
        raise BrokerError("the body does not match its CRC32")
    yield
    body = yield from _reading_body(request, header.compressed)
    table = body.topic_config_serialize_wrapper.topic_config_table
    if len(table) > most_topics:
        text = f"a registration of {len(table)} topics, the limit is {most_topics} (pyromqMaxRegisteredTopics)"
        raise BrokerError(text, limit="pyromqMaxRegisteredTopics")
    topics = yield from _reading_topics(table)
    if any(len(server) > MAX_NAME for server in body.filter_server_list):
        raise BrokerError(f"the address of a filter server is longer than {MAX_NAME} characters")
    return BrokerRegistration(
        cluster=header.cluster_name,
        broker_name=header.broker_name,
        broker_id=header.broker_id,
        address=header.broker_addr,
        ha_address=header.ha_server_addr,
        data_version=body.topic_config_serialize_wrapper.data_version,
        topics=topics,
        filter_servers=body.filter_server_list if request.version >= WHOLE_BODY_VERSION else None,
        epoch=max(header.pyromq_epoch or 0, 0),
        history=history,
    )


def _reading_body(request: RemotingCommand, compressed: bool) -> Generator[None, None, RegisterBrokerBody]:
    if not request.body:
        return RegisterBrokerBody()  # version 0/0 and no topics
    if request.version >= WHOLE_BODY_VERSION:
        return (yield from decoding_register_body(request.body, compressed=compressed))
    return RegisterBrokerBody((yield from decoding(TopicConfigSerializeWrapper, request.body)))


def _reading_topics(table: Mapping[str, TopicConfig]) -> Generator[None, None, dict[str, TopicQueues]]:
    """Return what counts of each topic; refuse what no client could use: it would make an object of each queue."""
    topics: dict[str, TopicQueues] = {}
    shared: dict[TopicQueues, TopicQueues] = {}
    for count, (name, topic) in enumerate(table.items(), 1):
        if len(name) > MAX_NAME:
            raise BrokerError(f"a topic has a name of {len(name)} characters, the limit is {MAX_NAME}")
        if not (0 <= topic.read_queue_nums <= MAX_QUEUES and 0 <= topic.write_queue_nums <= MAX_QUEUES):
            raise BrokerError(
                f"topic {name} has {topic.read_queue_nums} and {topic.write_queue_nums} queues, not 0 to {MAX_QUEUES}"
            )
        queues = TopicQueues(topic.read_queue_nums, topic.write_queue_nums, topic.perm, topic.topic_sys_flag)
        topics[name] = shared.setdefault(queues, queues)
        if count % TOPICS_A_STEP == 0:
            yield
    return topics
