"""Bodies about routes: topics, brokers and clusters, between name servers, brokers and clients."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct, field

from pyromq.protocol.bodies.codec import Body
from pyromq.protocol.headers import I32, I64


class QueueData(Body, gc=False):
    """The queues of a topic on one broker."""

    broker_name: str = ""
    read_queue_nums: I32 = 0
    write_queue_nums: I32 = 0
    perm: I32 = 0
    topic_sys_flag: I32 = 0


class BrokerData(Body):
    """A broker's name and the addresses of its members by broker id; MASTER_ID is the master."""

    cluster: str | None = None
    broker_name: str = ""
    broker_addrs: dict[I64, str] = field(default_factory=dict)


class TopicRouteData(Body):
    """The route of a topic (answer to GET_ROUTEINFO_BY_TOPIC)."""

    order_topic_conf: str | None = None
    queue_datas: list[QueueData] = field(default_factory=list)
    broker_datas: list[BrokerData] = field(default_factory=list)
    filter_server_table: dict[str, list[str]] = field(default_factory=dict)


class ClusterInfo(Body):
    """All brokers by name, and the broker names of each cluster."""

    broker_addr_table: dict[str, BrokerData] = field(default_factory=dict)
    cluster_addr_table: dict[str, list[str]] = field(default_factory=dict)


class DataVersion(Struct, frozen=True, rename="camel", forbid_unknown_fields=True, gc=False):
    """The version of a table; versions are equal if both numbers are."""

    timestamp: I64 = 0
    counter: I64 = 0

    def next(self, now_ms: int) -> DataVersion:
        """Return the version after a change at this time."""
        return DataVersion(now_ms, self.counter + 1)


class TopicFilterType(StrEnum):
    """Whether a message of the topic has one tag or several; either way they are compared as one text."""

    SINGLE_TAG = "SINGLE_TAG"
    MULTI_TAG = "MULTI_TAG"


class TopicConfig(Body, gc=False):
    """The settings of one topic on a broker."""

    topic_name: str = ""
    read_queue_nums: I32 = 16
    write_queue_nums: I32 = 16
    perm: I32 = 6
    topic_filter_type: TopicFilterType = TopicFilterType.SINGLE_TAG
    topic_sys_flag: I32 = 0
    order: bool = False


class TopicConfigSerializeWrapper(Body):
    """A broker's topics (answer to GET_ALL_TOPIC_CONFIG, topics.json, part of a registration)."""

    data_version: DataVersion = DataVersion()
    topic_config_table: dict[str, TopicConfig] = field(default_factory=dict)


class RegisterBrokerBody(Body):
    """What a broker registers at a name server."""

    topic_config_serialize_wrapper: TopicConfigSerializeWrapper = field(default_factory=TopicConfigSerializeWrapper)
    filter_server_list: list[str] = field(default_factory=list)


class KVTable(Body):
    """Names and values: the settings of a namespace, the runtime information of a broker."""

    table: dict[str, str] = field(default_factory=dict)


class TopicList(Body):
    """Names of topics."""

    topic_list: list[str] = field(default_factory=list)
    broker_addr: str | None = None
