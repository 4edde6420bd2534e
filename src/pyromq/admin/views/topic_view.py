"""The JSON of topics."""

from __future__ import annotations

from typing import Any

from pyromq.admin.topics.description import QueueContents, TopicDescription, TopicSummary
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
        "groups": [{"group": it.group, "members": it.members, "lag": it.lag} for it in topic.groups],
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
