"""Local members: the consumers of each group in this process, to notice those that subscribe differently."""

from __future__ import annotations

import logging

from pyromq.protocol.bodies import ConsumerData, MessageModel
from pyromq.protocol.names import RETRY_PREFIX

logger = logging.getLogger(__name__)

_Filters = dict[str, tuple[str, str]]  # by topic: the kind of expression and its text
_members: dict[object, tuple[object, _Filters]] = {}


def note_member(member: object, cluster: object, data: ConsumerData) -> None:
    """Note a consumer; log a warning if another one of its group in this process has other subscriptions.

    The members of a group share the queues: what only one of them wants is skipped in the queues of the other.
    """
    if data.message_model is MessageModel.BROADCASTING:  # every member has all queues
        return
    key = (cluster, data.group_name)
    filters = {
        wanted.topic: (wanted.expression_type, wanted.sub_string)
        for wanted in data.subscription_data_set
        if not wanted.topic.startswith(RETRY_PREFIX)
    }
    others = [found for theirs, found in list(_members.values()) if theirs == key and found != filters]
    _members[member] = key, filters
    if others:
        logger.warning(
            "two consumers of group=%s in this process subscribe differently: %s. They share the queues, so each loses "
            "what only the other one wants. Give them the same subscriptions, or groups of their own",
            data.group_name, _difference(filters, others[0]),
        )  # fmt: skip


def forget_member(member: object) -> None:
    """Forget a consumer that leaves its group."""
    _members.pop(member, None)


def _difference(mine: _Filters, theirs: _Filters) -> str:
    topic = next(topic for topic in sorted({*mine, *theirs}) if mine.get(topic) != theirs.get(topic))
    return f"topic {topic!r} by {_shown(theirs.get(topic))} and by {_shown(mine.get(topic))}"


def _shown(wanted: tuple[str, str] | None) -> str:
    return f"{wanted[0]} {wanted[1]!r}" if wanted else "nothing"
