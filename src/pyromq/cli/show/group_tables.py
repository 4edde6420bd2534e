"""Consumer groups as tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from rich.console import RenderableType
from rich.markup import escape
from rich.table import Column, Table

from pyromq.admin import GroupDescription, GroupSummary, OffsetMove, QueueProgress, TopicCount
from pyromq.admin.views.iso_times import iso_moment
from pyromq.cli.show.lines import counted, printable
from pyromq.protocol.bodies import ConsumeType


def groups_as_table(groups: Iterable[GroupSummary]) -> Table:
    """Return a table with a row for each group."""
    table = Table(Column("group", overflow="fold"), "members", "model", "topics", "lag")
    for group in groups:
        model = group.model.lower() if group.model else "-"
        table.add_row(*_cells(group.group, str(group.members), model, ", ".join(group.topics), f"{group.lag:,}"))
    return table


def description_as_tables(group: GroupDescription) -> Iterator[RenderableType]:
    """Yield the parts of a group's description: headline, members, queues, retries and dead letters, findings."""
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
        how = f"{group.model.lower()}, {kind}, {counted(len(group.members), 'member')}"
    number = counted(group.lag, "message")
    waiting = f"{number} wait{'s' if group.lag == 1 else ''}" if group.lag else "no messages wait"
    oldest = f", the first for {age(group.behind)}" if group.lag and group.behind is not None else ""
    return f"{how}; {waiting}{oldest}"


def _members_table(group: GroupDescription) -> Table:
    table = Table("#", Column("member", overflow="fold"), "address", "language", "version", "queues", "since")
    for number, member in enumerate(group.members, 1):
        queues = "?" if member.silence is not None else str(len(member.queues))
        started = iso_moment(member.started) or "?"
        named = member.client_id, member.address, member.language, member.version
        table.add_row(*_cells(str(number), *named, queues, started))
    return table


def _queues_table(group: GroupDescription) -> Table:
    """Return the queues; columns that are empty for all of them are left out, for narrow terminals."""
    names = "topic", "broker", "queue", "committed", "end", "lag", "behind", "#", "in hand", "first message"
    members = {member.client_id: str(number) for number, member in enumerate(group.members, 1)}
    rows = [_queue_cells(progress, members) for progress in group.queues]
    shown = [index for index in range(len(names)) if any(row[index] for row in rows)]
    table = Table(*(names[index] for index in shown))
    for row, progress in zip(rows, group.queues, strict=True):
        table.add_row(*(row[index] for index in shown), style="bold red" if progress.blocked else None)
    return table


def _queue_cells(progress: QueueProgress, members: Mapping[str, str]) -> list[str]:
    queue = progress.queue
    return _cells(
        queue.topic,
        queue.broker_name,
        str(queue.queue_id),
        f"{progress.committed_offset:,}",
        f"{progress.end_offset:,}",
        f"{progress.lag:,}",
        age(progress.behind) if progress.lag else "",
        ",".join(members[owner] for owner in progress.owners) or "-",
        "" if progress.held is None else f"{progress.held:,}",
        "" if progress.head is None else " ".join(progress.head.keys) or progress.head.message_id,
    )


def move_as_line(move: OffsetMove) -> str:
    """Return one line about the move of a group in a queue."""
    queue, before = move.queue, "nothing" if move.before is None else f"{move.before}"
    return f"{queue.topic} {queue.broker_name}:{queue.queue_id} {before} -> {move.after}"


def _count(count: TopicCount | None) -> str:
    return "none" if count is None else f"{count.messages:,} in {escape(count.topic)}"


def _cells(*texts: str) -> list[str]:
    return [_safe(text) for text in texts]


def _safe(text: str) -> str:
    """Return text of a message or a member without control characters and markup."""
    return escape(printable(text))


def age(seconds: float | None) -> str:
    """Return a duration as people write it."""
    if seconds is None:
        return "?"
    if seconds < 120:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 120:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"
