"""The JSON of consumer groups."""

from __future__ import annotations

from typing import Any

import msgspec

from pyromq.admin.groups.description import (
    GroupDescription,
    GroupSummary,
    HeadMessage,
    Member,
    QueueProgress,
    TopicCount,
)
from pyromq.admin.views.iso_times import iso_moment
from pyromq.protocol.bodies import SubscriptionGroupConfig


def group_summary_fields(summary: GroupSummary) -> dict[str, Any]:
    """Return the fields of one group in a list."""
    fields: dict[str, Any] = msgspec.to_builtins(summary)
    return fields


def group_fields(group: GroupDescription) -> dict[str, Any]:
    """Return everything that is known about a group."""
    return {
        "group": group.group,
        "model": group.model,
        "consume_type": group.consume_type,
        "start_from": group.start_from,
        "lag": group.lag,
        "behind_seconds": _rounded(group.behind),
        "messages_per_second": round(group.rate, 3),
        "members": [_member_fields(member) for member in group.members],
        "subscriptions": msgspec.to_builtins(group.subscriptions),
        "differing_subscriptions": msgspec.to_builtins(group.opinions),
        "queues": [_queue_fields(queue) for queue in group.queues],
        "retries": _count_fields(group.retries),
        "dead_letters": _count_fields(group.dead_letters),
        "settings": {broker: group_settings_fields(settings) for broker, settings in group.settings.items()},
        "findings": list(group.findings),
        "silent_brokers": dict(group.silent_brokers),
    }


def group_settings_fields(settings: SubscriptionGroupConfig) -> dict[str, Any]:
    """Return a group's settings at a broker."""
    return {name: getattr(settings, name) for name in settings.__struct_fields__ if name != "group_name"}


def _member_fields(member: Member) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(member)
    return fields | {
        "started": iso_moment(member.started),
        "queues": [queue._asdict() for queue in member.queues],
        "idle": member.is_idle,
    }


def _queue_fields(progress: QueueProgress) -> dict[str, Any]:
    return {
        **progress.queue._asdict(),
        "committed_offset": progress.committed_offset,
        "end_offset": progress.end_offset,
        "lag": progress.lag,
        "behind_seconds": _rounded(progress.behind),
        "owners": list(progress.owners),
        "held": progress.held,
        "moved": progress.moved,
        "head": None if progress.head is None else _head_fields(progress.head),
        "blocked": progress.blocked,
    }


def _head_fields(head: HeadMessage) -> dict[str, Any]:
    return {
        "queue_offset": head.queue_offset,
        "message_id": head.message_id,
        "keys": list(head.keys),
        "tags": head.tags,
        "store_timestamp": iso_moment(head.stored),
        "listening_seconds": _rounded(head.listening),
    }


def _count_fields(count: TopicCount | None) -> dict[str, Any] | None:
    return None if count is None else msgspec.to_builtins(count)


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)
