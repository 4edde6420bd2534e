"""Names of topics and groups: those that always exist, how others are derived, and which are legal."""

from __future__ import annotations

import re
from typing import Final

from pyromq.errors import InvalidName

TBW102: Final = "TBW102"  # the template for topics that a send creates
SCHEDULE_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"
BENCHMARK_TOPIC: Final = "BenchmarkTest"
TRANSACTION_HALF_TOPIC: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
TRANSACTION_OP_TOPIC: Final = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
TIMER_TOPIC: Final = "rmq_sys_wheel_timer"  # RocketMQ 5's topic for messages with any delay
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

# A broker since 4.9.4 refuses sends of clients to these topics; earlier ones refused only the first.
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

# Groups that every broker has when it starts.
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
ORDER_CONFIG_NAMESPACE: Final = "ORDER_TOPIC_CONFIG"  # in the name server's KV configuration

MAX_QUEUES: Final = 65_535
"""Queues of one topic on one broker."""

MAX_TOPIC_LENGTH: Final = 127
MAX_GROUP_LENGTH: Final = 255
_LEGAL: Final = re.compile(r"[%|a-zA-Z0-9_-]+")
_MORE_LEGAL: Final = re.compile(r"[%|a-zA-Z0-9_-][%|a-zA-Z0-9_.@-]*")


def retry_topic(group: str) -> str:
    """Return the topic from which the group's failed messages are redelivered."""
    return RETRY_PREFIX + group


def dlq_topic(group: str) -> str:
    """Return the topic of the group's dead letters."""
    return DLQ_PREFIX + group


def reply_topic(cluster: str) -> str:
    """Return the topic through which replies to request messages pass."""
    return cluster + REPLY_SUFFIX


def is_system_topic(topic: str) -> bool:
    """Return True if every cluster has this topic for RocketMQ's own use."""
    return topic in SYSTEM_TOPICS or topic.startswith(SYSTEM_TOPIC_PREFIX)


def is_system_group(group: str) -> bool:
    """Return True if every cluster has this group for RocketMQ's own use."""
    return group.startswith(SYSTEM_GROUP_PREFIX)


def check_topic(name: str) -> None:
    """Raise InvalidName unless this is a legal topic name."""
    _check("topic", name, MAX_TOPIC_LENGTH)


def check_group(name: str) -> None:
    """Raise InvalidName unless this is a legal group name."""
    _check("group", name, MAX_GROUP_LENGTH)


def check_broker(name: str) -> None:
    """Raise InvalidName unless this is a legal broker or cluster name; `room@name` and host names are."""
    _check("broker or cluster", name, MAX_TOPIC_LENGTH, _MORE_LEGAL, "%, |, -, _, @ and .")


def _check(
    what: str, name: str, max_length: int, legal: re.Pattern[str] = _LEGAL, besides: str = "%, |, - and _"
) -> None:
    if not isinstance(name, str):
        raise InvalidName(f"the {what} name must be a str, not {type(name).__name__}")
    if not name or name.isspace():
        raise InvalidName(f"the {what} name is blank")
    if len(name) > max_length:
        raise InvalidName(f"the {what} name is {len(name)} characters long, the limit is {max_length}")
    if not legal.fullmatch(name):
        raise InvalidName(f"the {what} name {name!r} has characters other than letters, digits, {besides}")


def with_namespace(name: str, namespace: str | None) -> str:
    """Return the name inside a namespace; names of system topics and groups, or already inside it, stay as they are."""
    if not namespace or not name or is_system_topic(name) or is_system_group(name):
        return name
    prefix, rest = _split_prefix(name)
    inside = namespace + "%"
    return name if rest.startswith(inside) else prefix + inside + rest


def without_namespace(name: str, namespace: str | None) -> str:
    """Return the name without the namespace, as its user wrote it."""
    if not namespace:
        return name
    prefix, rest = _split_prefix(name)
    return prefix + rest.removeprefix(namespace + "%")


def _split_prefix(name: str) -> tuple[str, str]:
    for prefix in (RETRY_PREFIX, DLQ_PREFIX):
        if name.startswith(prefix):
            return prefix, name[len(prefix) :]
    return "", name
