"""The JSON of topics."""

from __future__ import annotations

from typing import Any

from pyromq.admin.topics.deletion import TopicDeletion
from pyromq.admin.topics.description import QueueContents, TopicConsumer, TopicDescription, TopicSummary
from pyromq.admin.topics.resize import DrainingGroup, ResizePlan, ResizeProgress
from pyromq.admin.views.iso_times import iso_moment
from pyromq.protocol.bodies import TopicConfig

_SETTINGS = ("read_queue_nums", "write_queue_nums", "perm")


def topic_summary_fields(topic: TopicSummary) -> dict[str, Any]:
    """Return the fields of one topic in a list."""
    fields = {name: getattr(topic, name) for name in topic.__struct_fields__}
    return fields | {"brokers": list(topic.brokers)}


def topic_fields(topic: TopicDescription) -> dict[str, Any]:
    """Return everything that is known about a topic."""
    return {
        "topic": topic.topic,
        "kind": topic.kind,
        "messages": topic.messages,
        "order": topic.order,
        "settings": {at: {name: getattr(data, name) for name in _SETTINGS} for at, data in topic.settings.items()},
        "queues": [_queue_fields(contents) for contents in topic.queues],
        "groups": [_consumer_fields(it) for it in topic.groups],
        "findings": list(topic.findings),
        "silent_brokers": dict(topic.silent_brokers),
    }


def topic_settings_fields(topic: str, broker: str, settings: TopicConfig) -> dict[str, Any]:
    """Return the settings of a topic on one broker."""
    fields = {name: getattr(settings, name) for name in (*_SETTINGS, "order")}
    return {"topic": topic, "broker_name": broker, **fields}


def _queue_fields(contents: QueueContents) -> dict[str, Any]:
    return {
        **contents.queue._asdict(),
        "min_offset": contents.min_offset,
        "max_offset": contents.max_offset,
        "messages": contents.messages,
        "last_store_timestamp": iso_moment(contents.last_stored),
    }


def topic_deletion_fields(plan: TopicDeletion) -> dict[str, Any]:
    """Return what goes with a topic."""
    return {
        "topic": plan.topic,
        "brokers": {name: list(addresses) for name, addresses in plan.brokers.items()},
        "queues": plan.queues,
        "messages": plan.messages,
        "groups": [_consumer_fields(it) for it in plan.groups],
        "retry_topics": list(plan.retry_topics),
        "order": plan.order,
        "name_servers": list(plan.name_servers),
        "silent_slaves": dict(plan.silent_slaves),
    }


def resize_plan_fields(plan: ResizePlan) -> dict[str, Any]:
    """Return what a resize would do."""
    return {
        "topic": plan.topic,
        "queues": plan.queues,
        "settings": {at: {name: getattr(data, name) for name in _SETTINGS} for at, data in plan.settings.items()},
        "leaving": [queue._asdict() for queue in plan.leaving],
        "groups": [_draining_fields(group) for group in plan.groups],
    }


def resize_fields(progress: ResizeProgress) -> dict[str, Any]:
    """Return how far a resize is."""
    return {
        "topic": progress.topic,
        "queues": progress.queues,
        "phase": progress.phase,
        "leaving": progress.leaving,
        "waiting": progress.waiting,
        "groups": [_draining_fields(group) for group in progress.groups],
        "quiet_seconds": round(progress.quiet, 3),
        "silent_brokers": dict(progress.silent_brokers),
    }


def _draining_fields(group: DrainingGroup) -> dict[str, Any]:
    return {"group": group.group, "members": group.members, "waiting": group.waiting}


def _consumer_fields(consumer: TopicConsumer) -> dict[str, Any]:
    return {"group": consumer.group, "members": consumer.members, "lag": consumer.lag}
