"""Headers of administration: topics, groups, offsets and the state of a broker."""

from __future__ import annotations

from typing import Final, Literal

from pyromq.protocol.headers import I32, I64, Header

RESET_TO_END: Final = -1
"""The timestamp that resets a group to the end of each queue."""


class UpdateAndCreateTopicRequestHeader(Header, frozen=True, kw_only=True, gc=False):
    """UPDATE_AND_CREATE_TOPIC (17); `default_topic` names the template."""

    topic: str
    default_topic: str
    read_queue_nums: I32
    write_queue_nums: I32
    perm: I32
    topic_filter_type: Literal["SINGLE_TAG", "MULTI_TAG"]
    topic_sys_flag: I32 | None = None
    order: bool = False


class TablePartRequestHeader(Header, frozen=True, kw_only=True, gc=False):
    """GET_ALL_TOPIC_CONFIG (21), GET_ALL_CONSUMER_OFFSET (43), GET_ALL_SUBSCRIPTIONGROUP_CONFIG (201).

    `pyromq_from` is ours: send the table in parts, and leave out so many rows.
    """

    pyromq_from: I64 | None = None


class TablePartResponseHeader(Header, frozen=True, kw_only=True, gc=False):
    """The answer to them in parts: how many rows come before the next part, None at the end, and the table's edition.

    Parts with different editions do not belong together. Other brokers answer with the whole table, and without these.
    """

    pyromq_next: I64 | None = None
    pyromq_edition: str | None = None


class DeleteTopicInBrokerRequestHeader(Header, frozen=True, kw_only=True, gc=False):
    """DELETE_TOPIC_IN_BROKER (215)."""

    topic: str


class GetBrokerConfigResponseHeader(Header, frozen=True, kw_only=True, gc=False):
    """The answer to GET_BROKER_CONFIG (26); `version` is a DataVersion as JSON."""

    version: str


class GetTopicStatsInfoRequestHeader(Header, frozen=True, kw_only=True, gc=False):
    """GET_TOPIC_STATS_INFO (202)."""

    topic: str


class GetConsumerConnectionListRequestHeader(Header, frozen=True, kw_only=True, gc=False):
    """GET_CONSUMER_CONNECTION_LIST (203)."""

    consumer_group: str


class GetProducerConnectionListRequestHeader(Header, frozen=True, kw_only=True, gc=False):
    """GET_PRODUCER_CONNECTION_LIST (204)."""

    producer_group: str


class DeleteSubscriptionGroupRequestHeader(Header, frozen=True, kw_only=True, gc=False):
    """DELETE_SUBSCRIPTIONGROUP (207)."""

    group_name: str
    remove_offset: bool = False


class GetConsumeStatsRequestHeader(Header, frozen=True, kw_only=True, gc=False):
    """GET_CONSUME_STATS (208); all topics of the group unless one is given."""

    consumer_group: str
    topic: str | None = None


class InvokeBrokerToResetOffsetRequestHeader(Header, frozen=True, kw_only=True, gc=False):
    """INVOKE_BROKER_TO_RESET_OFFSET (222); a timestamp, or RESET_TO_END."""

    topic: str
    group: str
    timestamp: I64
    is_force: bool = False


class InvokeBrokerToGetConsumerStatusRequestHeader(Header, frozen=True, kw_only=True, gc=False):
    """INVOKE_BROKER_TO_GET_CONSUMER_STATUS (223); `client_addr` holds a client id."""

    topic: str
    group: str
    client_addr: str | None = None


class QueryTopicConsumeByWhoRequestHeader(Header, frozen=True, kw_only=True, gc=False):
    """QUERY_TOPIC_CONSUME_BY_WHO (300)."""

    topic: str


class QueryConsumeTimeSpanRequestHeader(Header, frozen=True, kw_only=True, gc=False):
    """QUERY_CONSUME_TIME_SPAN (303)."""

    topic: str
    group: str


class QueryCorrectionOffsetRequestHeader(Header, frozen=True, kw_only=True, gc=False):
    """QUERY_CORRECTION_OFFSET (308); `filter_groups` are separated by commas."""

    filter_groups: str | None = None
    compare_group: str
    topic: str


class CloneGroupOffsetRequestHeader(Header, frozen=True, kw_only=True, gc=False):
    """CLONE_GROUP_OFFSET (314)."""

    src_group: str
    dest_group: str
    topic: str | None = None
    offline: bool = False


class ViewBrokerStatsDataRequestHeader(Header, frozen=True, kw_only=True, gc=False):
    """VIEW_BROKER_STATS_DATA (315)."""

    stats_name: str
    stats_key: str


class GetBrokerConsumeStatsRequestHeader(Header, frozen=True, kw_only=True, gc=False):
    """GET_BROKER_CONSUME_STATS (317)."""

    is_order: bool = False


class QueryConsumeQueueRequestHeader(Header, frozen=True, kw_only=True, gc=False):
    """QUERY_CONSUME_QUEUE (321): `count` entries starting at `index`."""

    topic: str
    queue_id: I32
    index: I64
    count: I32
    consumer_group: str | None = None


class ReadAuditLogRequestHeader(Header, frozen=True, kw_only=True, gc=False):
    """READ_AUDIT_LOG (30060), ours: the newest entries, at most so many."""

    limit: I32 = 100
