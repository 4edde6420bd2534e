"""Topics as tables, and what happens to them as lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.markup import escape
from rich.table import Column, Table

from pyromq.admin import ResizePlan, ResizeProgress, TopicDeletion, TopicDescription, TopicSummary
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


def deletion_as_lines(plan: TopicDeletion, what: str) -> Iterator[str]:
    """Yield what goes with a topic, a line each."""
    places = (f"{name} ({', '.join(addresses)})" for name, addresses in plan.brokers.items())
    yield f"{plan.topic} {what} on {', '.join(places) or 'name servers only'}"
    yield f"messages: {plan.messages:,} in {_queues(plan.queues)}"
    for it in plan.groups:
        yield f"offsets: of {it.group} (members {it.members}, lag {it.lag:,})"
    for name in plan.retry_topics:
        yield f"retry topic: {name}"
    if plan.order is not None:
        yield f"order setting: {plan.order}"
    yield f"route: at {', '.join(plan.name_servers)}"


def _queues(count: int) -> str:
    return "1 queue" if count == 1 else f"{count} queues"


def resize_plan_as_lines(plan: ResizePlan) -> Iterator[str]:
    """Yield what a resize does, a line for each broker and group."""
    for name, config in plan.settings.items():
        now = f"{config.read_queue_nums} read and {config.write_queue_nums} write queues"
        yield f"{plan.topic} on {name}: {now}, then {plan.queues} of both"
    for group in plan.groups:
        yield f"messages that {group.group} has to consume in the queues that go: {group.waiting:,}"


def resize_as_line(progress: ResizeProgress, settle: float) -> str:
    """Return how far a resize is."""
    head = f"{progress.topic}: "
    if progress.phase == "done":
        return f"{head}{_queues(progress.queues)} on each broker"
    if progress.phase == "write":
        return f"{head}producers have {_queues(progress.queues)} on each broker; queues that go: {progress.leaving}"
    if progress.silent_brokers:
        return f"{head}waiting for {', '.join(progress.silent_brokers)}, which does not answer"
    if progress.waiting:
        groups = (f"{it.group} {it.waiting:,}" for it in progress.groups if it.waiting)
        return f"{head}messages to consume in {_queues(progress.leaving)}: {', '.join(groups)}"
    return f"{head}all is consumed in {_queues(progress.leaving)}; they go if no message comes for {settle:g} s"
