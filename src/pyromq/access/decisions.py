"""From the right in a row of the table of requests to the check of one request.

The rows are the decision: this module only says how each right is read from the ext fields of a request. Where a right
depends on what is in the body, or on what is stored, the handler checks it (open_access.py), and there is no check
here beyond the account itself. Administrators pass every check.

RocketMQ 4.9 decides differently, and about few codes (`pyromqAclCompatible=true`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from pyromq.access.account import PUB, SUB, Account, Permission
from pyromq.errors import AccessRefused
from pyromq.protocol.codes import RequestCode as Code
from pyromq.protocol.headers import Header
from pyromq.protocol.messages.properties import RETRY_TOPIC, find_property
from pyromq.protocol.names import DLQ_PREFIX, RETRY_PREFIX
from pyromq.protocol.rights import Right
from pyromq.remoting.requests import RequestRow, RequestTable

Fields: TypeAlias = Mapping[str, str]
Check: TypeAlias = Callable[[Account, Fields], None]
"""Raises AccessRefused."""

_GROUP_FIELDS: Final = ("consumer_group", "group")
_EITHER: Final = PUB | SUB


def need_topic(account: Account, right: Permission, topic: str) -> None:
    """Raise AccessRefused unless the account has one of the rights on a topic."""
    if not account.on_topic(topic) & right:
        raise _refusal(account, right, topic)


def _refusal(account: Account, right: Permission, topic: str) -> AccessRefused:
    words = " or ".join(one.name or "" for one in right)
    what = f"topic {topic!r}"
    if topic.startswith(RETRY_PREFIX):
        what = f"group {topic.removeprefix(RETRY_PREFIX)!r}"
    elif topic.startswith(DLQ_PREFIX) and right == SUB:
        what = f"group {topic.removeprefix(DLQ_PREFIX)!r}, whose dead letters these are"
    return AccessRefused(f"account {account.access_key!r} has no {words} right on {what}")


def need_group(account: Account, group: str) -> None:
    """Raise AccessRefused unless the account may consume as a group."""
    if not account.on_group(group) & SUB:
        raise AccessRefused(f"account {account.access_key!r} has no SUB right on group {group!r}")


def need_admin(account: Account, fields: Fields) -> None:
    """Raise AccessRefused: administrators are not asked."""
    raise AccessRefused(f"account {account.access_key!r} is no administrator, and this request needs one")


def _nothing(account: Account, fields: Fields) -> None:
    """Any account will do, or the handler decides."""


def decide(table: RequestTable) -> dict[int, Check]:
    """Return the check of each code; a code that is not among them needs an administrator."""
    return {row.code: _check(row) for row in table}


def _check(row: RequestRow) -> Check:
    match row.right:
        case Right.PUB:
            return _send(row.header)
        case Right.MEMBERS:
            return _nothing if row.header is None else _all_named(row.header, SUB, may_name_none=True)
        case Right.SUB | Right.SUB_TOPIC | Right.SEND_BACK:
            return _all_named(row.header, SUB)
        case Right.PUB_OR_SUB | Right.PUB_OR_SUB_OR_ADMIN:
            return _all_named(row.header, _EITHER)
        case Right.REPLY:
            return _some_right
        case Right.ADMIN:
            return need_admin
        case _:
            return _nothing


def _wire_name(header: type[Header] | None, *attributes: str) -> str | None:
    """Return under which name an attribute of a header travels; None if it has none of them."""
    if header is None:
        return None
    names = dict(zip(header.__struct_fields__, header.__struct_encode_fields__, strict=True))
    return next((names[attribute] for attribute in attributes if attribute in names), None)


may_publish = int.__and__
"""The same as `&`, in a tenth of its time: enum's is written in Python, and every send asks."""


def _send(header: type[Header] | None) -> Check:
    topic_field = _wire_name(header, "topic") or ""
    properties_field = _wire_name(header, "properties") or ""
    batch_field = _wire_name(header, "batch") or ""

    def check(account: Account, fields: Fields) -> None:
        topic = fields.get(topic_field, "")
        if not topic.startswith(RETRY_PREFIX):
            if not may_publish(account.on_topic(topic), PUB):
                need_topic(account, PUB, topic)
            return
        need_topic(account, SUB, topic)
        if fields.get(batch_field, "").lower() not in ("", "false", "0"):
            raise AccessRefused("a batch cannot be sent to a retry topic: its messages may be of any topic")
        origin = find_property(fields.get(properties_field, ""), RETRY_TOPIC)
        if origin is not None:
            need_topic(account, SUB, origin)

    return check


def _all_named(header: type[Header] | None, right: Permission, *, may_name_none: bool = False) -> Check:
    """Check the group and the topic that a request names; one that names neither needs an administrator.

    So does GET_PRODUCER_CONNECTION_LIST, which names a group of producers only: about those there are no rights.
    """
    topic_field, group_field = _wire_name(header, "topic"), _wire_name(header, *_GROUP_FIELDS)

    def check(account: Account, fields: Fields) -> None:
        group = fields.get(group_field) if group_field else None
        topic = fields.get(topic_field) if topic_field else None
        if group:
            need_group(account, group)
        if topic:
            need_topic(account, right, topic)
        if not (group or topic or may_name_none):
            need_admin(account, fields)

    return check


def _some_right(account: Account, fields: Fields) -> None:
    if not account.has_some_right:
        raise AccessRefused(f"account {account.access_key!r} has no right at all")


# --- RocketMQ 4.9 to the letter ---------------------------------------------------------------------------------------

_ADMIN_CODES: Final = (
    Code.UPDATE_AND_CREATE_TOPIC,
    Code.UPDATE_BROKER_CONFIG,
    Code.DELETE_TOPIC_IN_BROKER,
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
    Code.DELETE_SUBSCRIPTIONGROUP,
    # Apache leaves these to every account, which could make itself an administrator. That is not copied.
    Code.UPDATE_AND_CREATE_ACL_CONFIG,
    Code.DELETE_ACL_CONFIG,
    Code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG,
)


def decide_as_apache(table: RequestTable) -> dict[int, Check]:
    """Return the checks of 4.9.8: five codes need an administrator, nine a right, and all others only an account."""
    checks: dict[int, Check] = dict.fromkeys((row.code for row in table), _nothing)
    checks |= dict.fromkeys(_ADMIN_CODES, need_admin)
    checks[Code.SEND_MESSAGE] = _as_apache_sends("topic", "")
    checks[Code.SEND_MESSAGE_V2] = _as_apache_sends("b", "a")
    checks[Code.CONSUMER_SEND_MSG_BACK] = _named("", "group")
    checks[Code.PULL_MESSAGE] = checks[Code.UPDATE_CONSUMER_OFFSET] = _named("topic", "consumerGroup")
    checks[Code.QUERY_MESSAGE] = _named("topic", "")
    checks[Code.UNREGISTER_CLIENT] = checks[Code.GET_CONSUMER_LIST_BY_GROUP] = _named("", "consumerGroup")
    return checks


def _need_as_apache(account: Account, right: Permission, topic: str) -> None:
    if not account.on_topic_as_apache(topic) & right:
        raise _refusal(account, right, topic)


def _as_apache_sends(topic_field: str, group_field: str) -> Check:
    def check(account: Account, fields: Fields) -> None:
        topic = fields.get(topic_field, "")
        if group_field and topic.startswith(RETRY_PREFIX):
            need_group(account, fields.get(group_field, ""))
        else:
            _need_as_apache(account, PUB, topic)

    return check


def _named(topic_field: str, group_field: str) -> Check:
    def check(account: Account, fields: Fields) -> None:
        if topic := fields.get(topic_field):
            _need_as_apache(account, SUB, topic)
        if group := fields.get(group_field):
            need_group(account, group)

    return check
