"""Bodies for operators' tools: progress, connections, statistics, accounts, and resetting offsets."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from msgspec import field

from pyromq.protocol.bodies.clients import ConsumeFromWhere, ConsumeType, MessageModel, SubscriptionData
from pyromq.protocol.bodies.codec import Body
from pyromq.protocol.codes import LanguageCode
from pyromq.protocol.headers import I32, I64
from pyromq.protocol.messages.message import MessageQueue


class GroupList(Body):
    """Names of groups."""

    group_list: list[str] = field(default_factory=list)


# --- progress ---------------------------------------------------------------------------------------------------------


class OffsetWrapper(Body, gc=False):
    """A group's progress in one queue, and the store time of the last message it consumed."""

    broker_offset: I64 = 0
    consumer_offset: I64 = 0
    last_timestamp: I64 = 0


class ConsumeStats(Body):
    """A group's progress in every queue (GET_CONSUME_STATS)."""

    offset_table: dict[MessageQueue, OffsetWrapper] = field(default_factory=dict)
    consume_tps: float = 0.0


class ConsumeStatsList(Body):
    """The progress of all groups of a broker (GET_BROKER_CONSUME_STATS)."""

    consume_stats_list: list[dict[str, list[ConsumeStats]]] = field(default_factory=list)
    broker_addr: str | None = None
    total_diff: I64 = 0


class TopicOffset(Body, gc=False):
    """The first and last offset of one queue."""

    min_offset: I64 = 0
    max_offset: I64 = 0
    last_update_timestamp: I64 = 0


class TopicStatsTable(Body):
    """The first and last offset of every queue of a topic (GET_TOPIC_STATS_INFO)."""

    offset_table: dict[MessageQueue, TopicOffset] = field(default_factory=dict)


class QueueTimeSpan(Body):
    """Store times of one queue: of its first message, its last message and the last one consumed."""

    message_queue: MessageQueue | None = None
    min_time_stamp: I64 = 0
    max_time_stamp: I64 = 0
    consume_time_stamp: I64 = 0
    delay_time: I64 = 0
    min_time_stamp_str: str | None = None
    max_time_stamp_str: str | None = None
    consume_time_stamp_str: str | None = None

    def with_texts(self) -> QueueTimeSpan:
        """Return a copy that also has the times as text, in the server's time zone, as Java adds them."""
        return QueueTimeSpan(
            self.message_queue,
            self.min_time_stamp,
            self.max_time_stamp,
            self.consume_time_stamp,
            self.delay_time,
            _time_text(self.min_time_stamp),
            _time_text(self.max_time_stamp),
            _time_text(self.consume_time_stamp),
        )


def _time_text(timestamp_ms: int) -> str:
    moment = datetime.fromtimestamp(timestamp_ms // 1000)
    return f"{moment:%Y-%m-%d#%H:%M:%S}:{timestamp_ms % 1000:03}"


class QueryConsumeTimeSpanBody(Body):
    """The time spans of a topic's queues (QUERY_CONSUME_TIME_SPAN)."""

    consume_time_span_set: list[QueueTimeSpan] = field(default_factory=list)


class ConsumeQueueData(Body):
    """One entry of a consume queue, and whether a filter accepts it."""

    physic_offset: I64 = 0
    physic_size: I32 = 0
    tags_code: I64 = 0
    extend_data_json: str | None = None
    bit_map: str | None = None
    eval: bool = False
    msg: str | None = None


class QueryConsumeQueueResponseBody(Body):
    """A range of a consume queue (QUERY_CONSUME_QUEUE)."""

    subscription_data: SubscriptionData | None = None
    filter_data: str | None = None
    queue_data: list[ConsumeQueueData] = field(default_factory=list)
    max_queue_index: I64 = 0
    min_queue_index: I64 = 0


class QueryCorrectionOffsetBody(Body):
    """The smallest offset of other groups by queue id (QUERY_CORRECTION_OFFSET)."""

    correction_offsets: dict[I32, I64] = field(default_factory=dict)


# --- offsets set from outside -----------------------------------------------------------------------------------------


class ResetOffsetBody(Body):
    """The offsets at which a group continues."""

    offset_table: dict[MessageQueue, I64] = field(default_factory=dict)


class MessageQueueOffset(Body):
    """A queue and an offset, in the form that C++ clients read."""

    topic: str = ""
    broker_name: str = ""
    queue_id: I32 = 0
    offset: I64 = 0


class ResetOffsetBodyForC(Body):
    """ResetOffsetBody in the form that C++ clients read."""

    offset_table: list[MessageQueueOffset] = field(default_factory=list)


class GetConsumerStatusBody(Body):
    """Consumed offsets: of one client (from that client), or of all by client id (from the broker)."""

    message_queue_table: dict[MessageQueue, I64] = field(default_factory=dict)
    consumer_table: dict[str, dict[MessageQueue, I64]] = field(default_factory=dict)


# --- connections and running clients ----------------------------------------------------------------------------------


class ClientConnection(Body):
    """One connected client."""

    client_id: str = ""
    client_addr: str = ""
    language: LanguageCode = LanguageCode.JAVA
    version: I32 = 0


class ConsumerConnection(Body):
    """The clients of a consumer group and what it subscribes to (GET_CONSUMER_CONNECTION_LIST)."""

    connection_set: list[ClientConnection] = field(default_factory=list)
    subscription_table: dict[str, SubscriptionData] = field(default_factory=dict)
    consume_type: ConsumeType = ConsumeType.CONSUME_PASSIVELY
    message_model: MessageModel = MessageModel.CLUSTERING
    consume_from_where: ConsumeFromWhere = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET


class ProducerConnection(Body):
    """The clients of a producer group (GET_PRODUCER_CONNECTION_LIST)."""

    connection_set: list[ClientConnection] = field(default_factory=list)


class ProducerInfo(Body):
    """One client of a producer group, since 4.9.4."""

    client_id: str = ""
    remote_ip: str = field(name="remoteIP", default="")
    language: LanguageCode = LanguageCode.JAVA
    version: I32 = 0
    last_update_timestamp: I64 = 0


class ProducerTableInfo(Body):
    """All producer groups of a broker (GET_ALL_PRODUCER_INFO, since 4.9.4)."""

    data: dict[str, list[ProducerInfo]] = field(default_factory=dict)


class ProcessQueueInfo(Body):
    """One queue in a running consumer."""

    commit_offset: I64 = 0
    cached_msg_min_offset: I64 = 0
    cached_msg_max_offset: I64 = 0
    cached_msg_count: I32 = 0
    cached_msg_size_in_mib: I32 = field(name="cachedMsgSizeInMiB", default=0)
    transaction_msg_min_offset: I64 = 0
    transaction_msg_max_offset: I64 = 0
    transaction_msg_count: I32 = 0
    locked: bool = False
    try_unlock_times: I64 = 0
    last_lock_timestamp: I64 = 0
    dropped: bool = field(name="droped", default=False)
    last_pull_timestamp: I64 = 0
    last_consume_timestamp: I64 = 0


class ConsumeStatus(Body):
    """How fast a running consumer consumes a topic."""

    pull_rt: float = field(name="pullRT", default=0.0)
    pull_tps: float = field(name="pullTPS", default=0.0)
    consume_rt: float = field(name="consumeRT", default=0.0)
    consume_ok_tps: float = field(name="consumeOKTPS", default=0.0)
    consume_failed_tps: float = field(name="consumeFailedTPS", default=0.0)
    consume_failed_msgs: I64 = 0


class ConsumerRunningInfo(Body):
    """The state of a running consumer (GET_CONSUMER_RUNNING_INFO)."""

    properties: dict[str, str] = field(default_factory=dict)
    subscription_set: list[SubscriptionData] = field(default_factory=list)
    mq_table: dict[MessageQueue, ProcessQueueInfo] = field(default_factory=dict)
    status_table: dict[str, ConsumeStatus] = field(default_factory=dict)
    jstack: str | None = None


class ConsumeResult(StrEnum):
    """The outcome of consuming one message on request; also read by ordinal."""

    CR_SUCCESS = "CR_SUCCESS"
    CR_LATER = "CR_LATER"
    CR_ROLLBACK = "CR_ROLLBACK"
    CR_COMMIT = "CR_COMMIT"
    CR_THROW_EXCEPTION = "CR_THROW_EXCEPTION"
    CR_RETURN_NULL = "CR_RETURN_NULL"


class ConsumeMessageDirectlyResult(Body):
    """The outcome of CONSUME_MESSAGE_DIRECTLY."""

    order: bool = False
    auto_commit: bool = True
    consume_result: ConsumeResult | None = None
    remark: str | None = None
    spent_time_mills: I64 = 0


# --- statistics and access --------------------------------------------------------------------------------------------


class BrokerStatsItem(Body):
    """Sum and averages of a figure over one period."""

    sum: I64 = 0
    tps: float = 0.0
    avgpt: float = 0.0


class BrokerStatsData(Body):
    """A figure over the last minute, hour and day (VIEW_BROKER_STATS_DATA)."""

    stats_minute: BrokerStatsItem = field(default_factory=BrokerStatsItem)
    stats_hour: BrokerStatsItem = field(default_factory=BrokerStatsItem)
    stats_day: BrokerStatsItem = field(default_factory=BrokerStatsItem)


class PlainAccessConfig(Body):
    """An account and its permissions."""

    access_key: str = ""
    secret_key: str | None = None
    white_remote_address: str | None = None
    admin: bool = False
    default_topic_perm: str | None = None
    default_group_perm: str | None = None
    topic_perms: list[str] | None = None
    group_perms: list[str] | None = None


class AclInfo(Body):
    """All accounts of a broker (GET_BROKER_CLUSTER_ACL_CONFIG)."""

    global_white_addrs: list[str] = field(default_factory=list)
    plain_access_configs: list[PlainAccessConfig] = field(default_factory=list)
