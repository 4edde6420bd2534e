"""Names of topics and groups: which exist by themselves, how others are derived, which are legal."""

from __future__ import annotations

import re
from typing import Final

from pyromq.errors import LocalProtocolError

TBW102: Final = "TBW102"  # the template that sends create unknown topics from
SCHEDULE_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"
BENCHMARK_TOPIC: Final = "BenchmarkTest"
TRANSACTION_HALF_TOPIC: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
TRANSACTION_OP_TOPIC: Final = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
TIMER_TOPIC: Final = "rmq_sys_wheel_timer"  # RocketMQ 5's: messages that wait for any time
LMQ_PREFIX: Final = "%LMQ%"
TRANSACTION_CHECK_MAX_TOPIC: Final = "TRANS_CHECK_MAX_TIME_TOPIC"
TRACE_TOPIC: Final = "RMQ_SYS_TRACE_TOPIC"
SELF_TEST_TOPIC: Final = "SELF_TEST_TOPIC"
OFFSET_MOVED_TOPIC: Final = "OFFSET_MOVED_EVENT"

SYSTEM_TOPICS: Final = frozenset(
    {
        TBW102,
        SCHEDULE_TOPIC,
        BENCHMARK_TOPIC,
        TRANSACTION_HALF_TOPIC,
        TRANSACTION_OP_TOPIC,
        TRANSACTION_CHECK_MAX_TOPIC,
        TRACE_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_TOPIC,
    }
)
SYSTEM_TOPIC_PREFIX: Final = "rmq_sys_"

# Since 4.9.4 a broker refuses sends of clients to these; earlier ones refused the first only.
NO_SEND_TOPICS: Final = frozenset(
    {
        SCHEDULE_TOPIC,
        TIMER_TOPIC,
        TRANSACTION_HALF_TOPIC,
        TRANSACTION_OP_TOPIC,
        TRANSACTION_CHECK_MAX_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_TOPIC,
    }
)

DEFAULT_PRODUCER_GROUP: Final = "DEFAULT_PRODUCER"
DEFAULT_CONSUMER_GROUP: Final = "DEFAULT_CONSUMER"
TOOLS_CONSUMER_GROUP: Final = "TOOLS_CONSUMER"
SCHEDULE_CONSUMER_GROUP: Final = "SCHEDULE_CONSUMER"
CLIENT_INNER_PRODUCER_GROUP: Final = "CLIENT_INNER_PRODUCER"
TRANSACTION_GROUP: Final = "CID_RMQ_SYS_TRANS"
SYSTEM_GROUP_PREFIX: Final = "CID_RMQ_SYS_"

# Groups that every broker has from the start.
BUILT_IN_GROUPS: Final = (
    TOOLS_CONSUMER_GROUP,
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
)

DEFAULT_REGION: Final = "DefaultRegion"

RETRY_PREFIX: Final = "%RETRY%"
DLQ_PREFIX: Final = "%DLQ%"
REPLY_SUFFIX: Final = "_REPLY_TOPIC"
TOPIC_GROUP_SEPARATOR: Final = "@"  # in `topic@group`; legal in neither name, so it splits in one way only
ORDER_CONFIG_NAMESPACE: Final = "ORDER_TOPIC_CONFIG"  # of a name server's settings

MAX_TOPIC_LENGTH: Final = 127
MAX_GROUP_LENGTH: Final = 255
_LEGAL: Final = re.compile(r"[%|a-zA-Z0-9_-]+")
_MORE_LEGAL: Final = re.compile(r"[%|a-zA-Z0-9_-][%|a-zA-Z0-9_.@-]*")


def retry_topic(group: str) -> str:
    """Return the topic from which the group's failed messages come again."""
    return RETRY_PREFIX + group


def dlq_topic(group: str) -> str:
    """Return the topic that holds what the group gave up."""
    return DLQ_PREFIX + group


def reply_topic(cluster: str) -> str:
    """Return the topic that replies to request messages go through."""
    return cluster + REPLY_SUFFIX


def is_system_topic(topic: str) -> bool:
    """Tell whether the topic is one of RocketMQ's own, in every cluster."""
    return topic in SYSTEM_TOPICS or topic.startswith(SYSTEM_TOPIC_PREFIX)


def is_system_group(group: str) -> bool:
    """Tell whether the group is one of RocketMQ's own, in every cluster."""
    return group.startswith(SYSTEM_GROUP_PREFIX)


def check_topic(name: str) -> None:
    """Raise LocalProtocolError unless this may be a topic's name."""
    _check("topic", name, MAX_TOPIC_LENGTH)


def check_group(name: str) -> None:
    """Raise LocalProtocolError unless this may be a group's name."""
    _check("group", name, MAX_GROUP_LENGTH)


def check_broker(name: str) -> None:
    """Raise LocalProtocolError unless this may be a broker's or a cluster's name: `room@name` and host names may."""
    _check("broker or cluster", name, MAX_TOPIC_LENGTH, _MORE_LEGAL, "%, |, -, _, @ and .")


def _check(
    what: str, name: str, max_length: int, legal: re.Pattern[str] = _LEGAL, besides: str = "%, |, - and _"
) -> None:
    if not name or name.isspace():
        raise LocalProtocolError(f"the {what} name is blank")
    if len(name) > max_length:
        raise LocalProtocolError(f"the {what} name is {len(name)} characters long, the limit is {max_length}")
    if not legal.fullmatch(name):
        raise LocalProtocolError(f"the {what} name {name!r} has characters other than letters, digits, {besides}")


def with_namespace(name: str, namespace: str | None) -> str:
    """Return the name inside a namespace; the names of system topics and groups stay, and none gets it twice."""
    if not namespace or not name or is_system_topic(name) or is_system_group(name):
        return name
    prefix, rest = _split_prefix(name)
    inside = namespace + "%"
    return name if rest.startswith(inside) else prefix + inside + rest


def without_namespace(name: str, namespace: str | None) -> str:
    """Return the name as its user wrote it."""
    if not namespace:
        return name
    prefix, rest = _split_prefix(name)
    return prefix + rest.removeprefix(namespace + "%")


def _split_prefix(name: str) -> tuple[str, str]:
    for prefix in (RETRY_PREFIX, DLQ_PREFIX):
        if name.startswith(prefix):
            return prefix, name[len(prefix) :]
    return "", name
