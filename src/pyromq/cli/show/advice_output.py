"""Advice for a group, for people."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.markup import escape
from rich.table import Column, Table

from pyromq.admin import GroupAdvice, MemberLoad
from pyromq.cli.show.lines import printable


def advice_as_lines(advice: GroupAdvice) -> Iterator[RenderableType]:
    """Yield what the members measured, the bottleneck, threads and members, and remarks."""
    count = len(advice.members)
    yield (
        f"[bold]{escape(advice.group)}[/]: {count} member{'' if count == 1 else 's'}; {advice.lag:,} messages wait, "
        f"{_rate(advice.arrival_rate)} arrive, the peak is {_rate(advice.peak_rate)}"
    )
    if advice.members:
        yield _table(advice)
    yield f"bottleneck: [bold]{advice.bottleneck}[/]: {escape(advice.reason)}"
    yield _threads(advice)
    yield _nodes(advice)
    for finding in advice.findings:
        yield f"[yellow]! {escape(printable(finding))}[/]"


def _table(advice: GroupAdvice) -> Table:
    table = Table(
        Column("member", overflow="fold"), "language", "threads", "CPU", "waits", "handles", "busy", "could handle"
    )
    for member in advice.members:
        table.add_row(*(escape(printable(cell)) for cell in _cells(member)))
    return table


def _cells(member: MemberLoad) -> tuple[str, ...]:
    return (
        member.client_id,
        member.language,
        "?" if member.threads is None else str(member.threads),
        _ms(member.cpu_ms),
        _ms(member.wait_ms),
        _rate(member.rate),
        "?" if member.busy is None else f"{member.busy:.0%}",
        "?" if member.capacity is None else _rate(member.capacity),
    )


def _threads(advice: GroupAdvice) -> str:
    if advice.threads is None or advice.cpu_ms is None or advice.wait_ms is None:
        return "threads: not known, no member measured the CPU time of a message"
    cores = f"{advice.cores} core{'' if advice.cores == 1 else 's'}"
    formula = f"{cores} * ({advice.cpu_ms:.3f} + {advice.wait_ms:.3f}) ms / {advice.cpu_ms:.3f} ms"
    return f"threads: [bold]{advice.threads:,}[/] for each member, {formula}"


def _nodes(advice: GroupAdvice) -> str:
    if advice.nodes is None or advice.node_rate is None:
        return "members: not known, no member measured the time of a message"
    how = "" if advice.threads is None else " with these threads"
    what = f"{_rate(advice.peak_rate)} / {_rate(advice.node_rate)} of one{how}"
    return f"members: [bold]{advice.nodes:,}[/] for the peak, {what}"


def _ms(number: float | None) -> str:
    return "?" if number is None else f"{number:.3f} ms"


def _rate(number: float) -> str:
    return f"{number:,.1f}/s"
