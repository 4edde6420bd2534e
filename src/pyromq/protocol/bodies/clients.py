"""Bodies between clients and brokers: subscriptions, filters, committed offsets, locked queues."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

from msgspec import Meta, field

from pyromq.protocol.bodies.codec import Body
from pyromq.protocol.bodies.routes import DataVersion
from pyromq.protocol.headers import I32, I64
from pyromq.protocol.messages.message import MessageQueue

MAX_GROUPS: Final = 10_000
"""Groups of one client; a heartbeat with more is refused."""
MAX_SUBSCRIPTIONS: Final = 100_000
"""Topics that one group subscribes to."""
MAX_EXPRESSION: Final = 32_768
"""Characters of a tag or SQL expression."""
MAX_TAGS: Final = 10_000
"""Tags of one subscription."""
MAX_LOCKED_QUEUES: Final = 100_000
"""Queues that one request locks or unlocks."""

MAX_NAME: Final = 300
"""Characters of a group, which may have 255, or of the topic that is derived from one."""

Name = Annotated[str, Meta(max_length=MAX_NAME)]
ClientId = Annotated[str, Meta(max_length=1_024)]
Expression = Annotated[str, Meta(max_length=MAX_EXPRESSION)]

# Java reads these by name or by ordinal, so the order of the members matters.


class ConsumeType(StrEnum):
    """Whether the application asks for messages (pull) or is called with them (push)."""

    CONSUME_ACTIVELY = "CONSUME_ACTIVELY"
    CONSUME_PASSIVELY = "CONSUME_PASSIVELY"


class MessageModel(StrEnum):
    """Whether each member of a group gets every message, or the members share them."""

    BROADCASTING = "BROADCASTING"
    CLUSTERING = "CLUSTERING"


class ConsumeFromWhere(StrEnum):
    """Where a group starts in a queue without a committed offset."""

    CONSUME_FROM_LAST_OFFSET = "CONSUME_FROM_LAST_OFFSET"
    CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST = "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST"
    CONSUME_FROM_MIN_OFFSET = "CONSUME_FROM_MIN_OFFSET"
    CONSUME_FROM_MAX_OFFSET = "CONSUME_FROM_MAX_OFFSET"
    CONSUME_FROM_FIRST_OFFSET = "CONSUME_FROM_FIRST_OFFSET"
    CONSUME_FROM_TIMESTAMP = "CONSUME_FROM_TIMESTAMP"


class SubscriptionData(Body):
    """A group's subscription to a topic; the larger version replaces the smaller."""

    topic: Name = ""
    sub_string: Expression = "*"
    tags_set: Annotated[list[str], Meta(max_length=MAX_TAGS)] = field(default_factory=list)
    code_set: Annotated[list[I32], Meta(max_length=MAX_TAGS)] = field(default_factory=list)
    sub_version: I64 = 0
    expression_type: Name = "TAG"
    class_filter_mode: bool = False


class ProducerData(Body):
    """A producer group of a client."""

    group_name: Name = ""


class ConsumerData(Body):
    """A consumer group of a client and its subscriptions."""

    group_name: Name = ""
    consume_type: ConsumeType = ConsumeType.CONSUME_PASSIVELY
    message_model: MessageModel = MessageModel.CLUSTERING
    consume_from_where: ConsumeFromWhere = ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET
    subscription_data_set: Annotated[list[SubscriptionData], Meta(max_length=MAX_SUBSCRIPTIONS)] = field(
        default_factory=list
    )
    unit_mode: bool = False


class HeartbeatData(Body):
    """What a client reports to every broker at an interval (HEART_BEAT)."""

    client_id: ClientId = field(name="clientID", default="")
    producer_data_set: Annotated[list[ProducerData], Meta(max_length=MAX_GROUPS)] = field(default_factory=list)
    consumer_data_set: Annotated[list[ConsumerData], Meta(max_length=MAX_GROUPS)] = field(default_factory=list)


class CheckClientRequestBody(Body):
    """Asks a broker whether it accepts a client's filter (CHECK_CLIENT_CONFIG)."""

    client_id: ClientId = ""
    group: Name = ""
    subscription_data: SubscriptionData = field(default_factory=SubscriptionData)
    namespace: str | None = None


class GetConsumerListByGroupResponseBody(Body):
    """The client ids of a group."""

    consumer_id_list: list[str] = field(default_factory=list)


class LockBatchRequestBody(Body):
    """Asks to lock queues for one client of the group (LOCK_BATCH_MQ)."""

    consumer_group: Name = ""
    client_id: ClientId = ""
    mq_set: Annotated[list[MessageQueue], Meta(max_length=MAX_LOCKED_QUEUES)] = field(default_factory=list)


class LockBatchResponseBody(Body):
    """The queues that are now locked for the client."""

    lock_ok_mq_set: list[MessageQueue] = field(name="lockOKMQSet", default_factory=list)


class UnlockBatchRequestBody(LockBatchRequestBody):
    """Unlocks queues (UNLOCK_BATCH_MQ)."""


class ConsumerOffsetSerializeWrapper(Body):
    """Committed offsets by `topic@group` and queue id (answer to GET_ALL_CONSUMER_OFFSET, consumerOffset.json)."""

    offset_table: dict[str, dict[I32, I64]] = field(default_factory=dict)


class DelayOffsetSerializeWrapper(Body):
    """The next entry to deliver of each delay level (answer to GET_ALL_DELAY_OFFSET, delayOffset.json)."""

    offset_table: dict[I32, I64] = field(default_factory=dict)


class SubscriptionGroupConfig(Body):
    """The settings of a consumer group."""

    group_name: str = ""
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_broadcast_enable: bool = True
    retry_queue_nums: I32 = 1
    retry_max_times: I32 = 16
    broker_id: I64 = 0
    which_broker_when_consume_slowly: I64 = 1
    notify_consumer_ids_changed_enable: bool = True


class SubscriptionGroupWrapper(Body):
    """All groups of a broker (answer to GET_ALL_SUBSCRIPTIONGROUP_CONFIG, subscriptionGroup.json)."""

    data_version: DataVersion = DataVersion()
    subscription_group_table: dict[str, SubscriptionGroupConfig] = field(default_factory=dict)


class OffsetMovedEvent(Body):
    """The body of a message in OFFSET_MOVED_EVENT: a pull asked for an offset that does not exist."""

    consumer_group: str = ""
    message_queue: MessageQueue | None = None
    offset_request: I64 = 0
    offset_new: I64 = 0


class BloomFilterData(Body):
    """The bits of a group and topic in the bit maps that Apache's broker can keep beside consume queues."""

    bit_num: I32 = 0
    bit_pos: list[I32] = field(default_factory=list)


class ConsumerFilterData(Body):
    """One filter: its expression, when it was registered, and when its last consumer left (0: it is in use)."""

    topic: str = ""
    consumer_group: str = ""
    expression: str = ""
    expression_type: str = ""
    client_version: I64 = 0
    born_time: I64 = 0
    dead_time: I64 = 0
    dead: bool = False
    bloom_filter_data: BloomFilterData | None = None


class FilterDataMapByTopic(Body):
    """The filters of one topic by group."""

    topic: str = ""
    group_filter_data: dict[str, ConsumerFilterData] = field(default_factory=dict)


class ConsumerFilterWrapper(Body):
    """All filters of a broker by topic (consumerFilter.json)."""

    filter_data_by_topic: dict[str, FilterDataMapByTopic] = field(default_factory=dict)
