"""BrokerRegistration: what a broker says when it registers, read from every form that brokers have used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from pyromq.errors import BrokerError
from pyromq.protocol import bodies
from pyromq.protocol.bodies import DataVersion, RegisterBrokerBody, TopicConfig, TopicConfigSerializeWrapper
from pyromq.protocol.command import RemotingCommand
from pyromq.protocol.headers.routes import RegisterBrokerRequestHeader
from pyromq.protocol.messages.record import body_crc

WHOLE_BODY_VERSION: Final = 37  # 3.0.11; brokers before it sent their topic table alone


class BrokerRegistration(Struct, frozen=True, kw_only=True):
    """A broker and its topics. If `filter_servers` is None, those known before stay."""

    cluster: str
    broker_name: str
    broker_id: int
    address: str
    ha_address: str
    data_version: DataVersion
    topics: Mapping[str, TopicConfig]
    filter_servers: list[str] | None = None


def read_registration(request: RemotingCommand) -> BrokerRegistration:
    """Read a REGISTER_BROKER request; raise BrokerError if the body was changed on its way."""
    header = request.header(RegisterBrokerRequestHeader)
    if header.body_crc32 != 0 and header.body_crc32 != body_crc(request.body):
        raise BrokerError("the body does not match its CRC32")
    body = _read_body(request, header.compressed)
    return BrokerRegistration(
        cluster=header.cluster_name,
        broker_name=header.broker_name,
        broker_id=header.broker_id,
        address=header.broker_addr,
        ha_address=header.ha_server_addr,
        data_version=body.topic_config_serialize_wrapper.data_version,
        topics=body.topic_config_serialize_wrapper.topic_config_table,
        filter_servers=body.filter_server_list if request.version >= WHOLE_BODY_VERSION else None,
    )


def _read_body(request: RemotingCommand, compressed: bool) -> RegisterBrokerBody:
    if not request.body:
        return RegisterBrokerBody()  # version 0/0 and no topics
    if request.version >= WHOLE_BODY_VERSION:
        return bodies.decode_register_body(request.body, compressed=compressed)
    return RegisterBrokerBody(bodies.decode(TopicConfigSerializeWrapper, request.body))
