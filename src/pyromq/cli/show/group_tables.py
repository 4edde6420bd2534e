"""How consumer groups look: tables for people, JSON by the same names for programs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table

from pyromq.admin import GroupDescription, GroupSummary, HeadMessage, Member, OffsetMove, QueueProgress, TopicCount
from pyromq.admin.views.message_view import iso_moment
from pyromq.protocol.bodies import ConsumeType, SubscriptionGroupConfig

# --- JSON -------------------------------------------------------------------------------------------------------------


def summary_fields(summary: GroupSummary) -> dict[str, Any]:
    """Return one group of a list."""
    fields: dict[str, Any] = msgspec.to_builtins(summary)
    return fields


def description_fields(group: GroupDescription) -> dict[str, Any]:
    """Return all that is known of a group."""
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
        "settings": {broker: settings_fields(settings) for broker, settings in group.settings.items()},
        "findings": list(group.findings),
        "silent_brokers": dict(group.silent_brokers),
    }


def settings_fields(settings: SubscriptionGroupConfig) -> dict[str, Any]:
    """Return what a group may do at a broker."""
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


# --- tables -----------------------------------------------------------------------------------------------------------


def groups_as_table(groups: Iterable[GroupSummary]) -> Table:
    """Return a line for each group."""
    table = Table("group", "members", "model", "topics", "lag")
    for group in groups:
        model = group.model.lower() if group.model else "-"
        table.add_row(*_cells(group.group, str(group.members), model, ", ".join(group.topics), f"{group.lag:,}"))
    return table


def description_as_tables(group: GroupDescription) -> Iterator[RenderableType]:
    """Yield a group piece by piece: a headline, members, queues, what else there is, and what to look at."""
    yield f"[bold]{escape(group.group)}[/]: {_headline(group)}"
    if group.subscriptions and not group.opinions:
        yield f"subscribes to {_safe(', '.join(map(str, group.subscriptions)))}"
    if group.members:
        yield _members_table(group)
    if group.queues:
        yield _queues_table(group)
    yield f"retries: {_count(group.retries)}, dead letters: {_count(group.dead_letters)}"
    for finding in group.findings:
        yield f"[yellow]! {_safe(finding)}[/]"


def _headline(group: GroupDescription) -> str:
    if group.model is None or group.consume_type is None:
        how = "no members, only offsets" if group.queues else "no members"
    else:
        kind = "push" if group.consume_type is ConsumeType.CONSUME_PASSIVELY else "pull"
        count = len(group.members)
        how = f"{group.model.lower()}, {kind}, {count} member{'s' if count != 1 else ''}"
    waiting = f"{group.lag:,} messages wait" if group.lag else "nothing waits"
    oldest = f", the first for {age(group.behind)}" if group.lag and group.behind is not None else ""
    return f"{how}; {waiting}{oldest}"


def _members_table(group: GroupDescription) -> Table:
    table = Table("#", "member", "address", "language", "version", "queues", "since")
    for number, member in enumerate(group.members, 1):
        queues = "?" if member.silence is not None else str(len(member.queues))
        started = iso_moment(member.started) or "?"
        named = member.client_id, member.address, member.language, member.version
        table.add_row(*_cells(str(number), *named, queues, started))
    return table


def _queues_table(group: GroupDescription) -> Table:
    table = Table("topic", "broker", "queue", "committed", "end", "lag", "behind", "#", "in hand", "first message")
    numbers = {member.client_id: str(number) for number, member in enumerate(group.members, 1)}
    for progress in group.queues:
        queue = progress.queue
        cells = _cells(
            queue.topic,
            queue.broker_name,
            str(queue.queue_id),
            f"{progress.committed_offset:,}",
            f"{progress.end_offset:,}",
            f"{progress.lag:,}",
            age(progress.behind) if progress.lag else "",
            ",".join(numbers[owner] for owner in progress.owners) or "-",
            "" if progress.held is None else f"{progress.held:,}",
            "" if progress.head is None else " ".join(progress.head.keys) or progress.head.message_id,
        )
        table.add_row(*cells, style="bold red" if progress.blocked else None)
    return table


def move_as_line(move: OffsetMove) -> str:
    """Return one line about a queue in which a group goes on elsewhere."""
    queue, before = move.queue, "nothing" if move.before is None else f"{move.before}"
    return f"{queue.topic} {queue.broker_name}:{queue.queue_id} {before} -> {move.after}"


def _count(count: TopicCount | None) -> str:
    return "none" if count is None else f"{count.messages:,} in {escape(count.topic)}"


def _cells(*texts: str) -> list[str]:
    return [_safe(text) for text in texts]


def _safe(text: str) -> str:
    """Keep control characters and markup of a hostile message or member from the terminal."""
    return escape("".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text))


def age(seconds: float | None) -> str:
    """Return a time span as people say it."""
    if seconds is None:
        return "?"
    if seconds < 120:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 120:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"
