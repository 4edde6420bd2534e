"""Headers for name servers: brokers register, clients ask for routes, tools keep settings."""

from __future__ import annotations

from pyromq.protocol.headers import I32, I64, Header


class _BrokerRequestHeader(Header, frozen=True, kw_only=True, gc=False):
    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: I64


class RegisterBrokerRequestHeader(_BrokerRequestHeader, frozen=True, kw_only=True, gc=False):
    """REGISTER_BROKER (103); `body_crc32` covers the body as sent, and 0 means unchecked."""

    ha_server_addr: str
    compressed: bool = False
    body_crc32: I32 = 0
    pyromq_epoch: I64 | None = None
    """Ours: the epoch in which the broker is master; absent in what Apache's brokers and slaves send."""
    pyromq_history: str | None = None
    """Ours: the id of the first epoch of the master's log, which it shares with all copies of it."""


class RegisterBrokerResponseHeader(Header, frozen=True, kw_only=True, gc=False):
    """The addresses of a slave's master; empty for a master."""

    ha_server_addr: str | None = None
    master_addr: str | None = None
    pyromq_rival: str | None = None
    """Where another broker runs that registers under the same name and id; from our name servers only."""


class UnregisterBrokerRequestHeader(_BrokerRequestHeader, frozen=True, kw_only=True, gc=False):
    """UNREGISTER_BROKER (104)."""

    pyromq_epoch: I64 | None = None


class QueryDataVersionRequestHeader(_BrokerRequestHeader, frozen=True, kw_only=True, gc=False):
    """QUERY_DATA_VERSION (322)."""


class QueryDataVersionResponseHeader(Header, frozen=True, kw_only=True, gc=False):
    """True if the broker's topics differ from those that the name server knows."""

    changed: bool


class GetRouteInfoByTopicRequestHeader(Header, frozen=True, kw_only=True, gc=False):
    """GET_ROUTEINFO_BY_TOPIC (105)."""

    topic: str
    accept_standard_json_only: bool | None = None


class PutKvConfigRequestHeader(Header, frozen=True, kw_only=True, gc=False):
    """PUT_KV_CONFIG (100)."""

    namespace: str
    key: str
    value: str


class GetKvConfigRequestHeader(Header, frozen=True, kw_only=True, gc=False):
    """GET_KV_CONFIG (101)."""

    namespace: str
    key: str


class GetKvConfigResponseHeader(Header, frozen=True, kw_only=True, gc=False):
    """The value under that key."""

    value: str | None = None


class DeleteKvConfigRequestHeader(Header, frozen=True, kw_only=True, gc=False):
    """DELETE_KV_CONFIG (102)."""

    namespace: str
    key: str


class GetKvListByNamespaceRequestHeader(Header, frozen=True, kw_only=True, gc=False):
    """GET_KVLIST_BY_NAMESPACE (219)."""

    namespace: str


class WipeWritePermOfBrokerRequestHeader(Header, frozen=True, kw_only=True, gc=False):
    """WIPE_WRITE_PERM_OF_BROKER (205)."""

    broker_name: str


class WipeWritePermOfBrokerResponseHeader(Header, frozen=True, kw_only=True, gc=False):
    """How many topics lost the permission."""

    wipe_topic_count: I32


class AddWritePermOfBrokerRequestHeader(Header, frozen=True, kw_only=True, gc=False):
    """ADD_WRITE_PERM_OF_BROKER (327)."""

    broker_name: str


class AddWritePermOfBrokerResponseHeader(Header, frozen=True, kw_only=True, gc=False):
    """How many topics gained the permission."""

    add_topic_count: I32


class DeleteTopicInNamesrvRequestHeader(Header, frozen=True, kw_only=True, gc=False):
    """DELETE_TOPIC_IN_NAMESRV (216); a cluster name limits it to that cluster's brokers."""

    topic: str
    cluster_name: str | None = None


class GetTopicsByClusterRequestHeader(Header, frozen=True, kw_only=True, gc=False):
    """GET_TOPICS_BY_CLUSTER (224)."""

    cluster: str
