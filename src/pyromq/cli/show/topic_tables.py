"""Topics as tables."""

from __future__ import annotations

from collections.abc import Iterable

from rich.markup import escape
from rich.table import Column, Table

from pyromq.admin import TopicDescription, TopicSummary
from pyromq.admin.views.iso_times import iso_moment


def topics_as_table(topics: Iterable[TopicSummary]) -> Table:
    """Return a table with a row for each topic."""
    table = Table(Column("topic", overflow="fold"), "kind", "brokers", "read queues", "write queues", "rights")
    for topic in topics:
        counts = str(topic.read_queues), str(topic.write_queues)
        table.add_row(escape(topic.topic), topic.kind, escape(", ".join(topic.brokers)), *counts, topic.perm)
    return table


def topic_queues_table(topic: TopicDescription) -> Table:
    """Return a table with a row for each queue of a topic."""
    table = Table("broker", "queue", "first", "end", "messages", "last stored")
    for contents in topic.queues:
        table.add_row(
            escape(contents.queue.broker_name),
            str(contents.queue.queue_id),
            f"{contents.min_offset:,}",
            f"{contents.max_offset:,}",
            f"{contents.messages:,}",
            iso_moment(contents.last_stored) or "",
        )
    return table


def topic_groups_table(topic: TopicDescription) -> Table:
    """Return a table with a row for each group that consumes a topic."""
    table = Table(Column("group", overflow="fold"), "members", "lag")
    for consumer in topic.groups:
        table.add_row(escape(consumer.group), str(consumer.members), f"{consumer.lag:,}")
    return table
