"""`pyromq group`: list, describe and change consumer groups."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Annotated

import typer
from rich.markup import escape

from pyromq.admin import AdminClient, GroupAdvice, GroupDescription, GroupListing, ResetTo
from pyromq.admin.views.advice_view import advice_fields
from pyromq.admin.views.group_view import group_fields, group_settings_fields, group_summary_fields
from pyromq.cli.arguments import (
    AsJson,
    DryRun,
    Namesrv,
    Yes,
    confirm,
    namesrv_addresses,
    parse_duration,
    parse_time,
    split_assignment,
)
from pyromq.cli.family import Family
from pyromq.cli.show.advice_output import advice_as_lines
from pyromq.cli.show.console import output, remarks
from pyromq.cli.show.group_tables import description_as_tables, groups_as_table, move_as_line
from pyromq.cli.show.lines import counted, json_line
from pyromq.client.environment import environment_credentials
from pyromq.remoting.loop import run
from pyromq.settings.values import integer

Group = Annotated[str, typer.Argument(metavar="GROUP", help="The consumer group.")]

app = Family(help="Consumer groups: members, lag, blocked queues; move and change them.")


@app.command("list")
def list_groups(
    namesrv: Namesrv = None,
    everything: Annotated[bool, typer.Option("--all", help="Include RocketMQ's own groups.")] = False,
    as_json: AsJson = False,
) -> None:
    """List all groups with their members, topics and lag."""
    listing = run(_list(namesrv_addresses(namesrv)))
    groups = [group for group in listing.groups if everything or not group.is_built_in]
    if as_json:
        for group in groups:
            print(json_line(group_summary_fields(group)))
    else:
        output().print(groups_as_table(groups) if groups else "there are no groups")
    _warn(listing.silent_brokers)


async def _list(namesrv: str) -> GroupListing:
    async with AdminClient(namesrv, credentials=environment_credentials()) as admin:
        return await admin.groups.list()


def _warn(silent: Mapping[str, str]) -> None:
    for broker, reason in silent.items():
        remarks().print(f"[yellow]{broker} does not answer: {escape(reason)}[/]", soft_wrap=True)


@app.command()
def describe(
    group: Group,
    namesrv: Namesrv = None,
    watch: Annotated[str, typer.Option(help="If messages wait, watch this long whether offsets move.")] = "1s",
    slow: Annotated[str, typer.Option(help="Report messages that take longer than this.")] = "10s",
    as_json: AsJson = False,
) -> None:
    """Show a group's members, its lag in each queue, and what blocks it."""
    seconds = [parse_duration(text, name).total_seconds() for text, name in ((watch, "--watch"), (slow, "--slow"))]
    found = run(_describe(namesrv_addresses(namesrv), group, *seconds))
    if as_json:
        print(json_line(group_fields(found)))
        return
    for piece in description_as_tables(found):
        output().print(piece, soft_wrap=isinstance(piece, str))


async def _describe(namesrv: str, group: str, watch: float, slow: float) -> GroupDescription:
    async with AdminClient(namesrv, credentials=environment_credentials()) as admin:
        return await admin.groups.describe(group, watch=watch, slow=slow)


@app.command()
def advise(
    group: Group,
    namesrv: Namesrv = None,
    peak: Annotated[
        float | None,
        typer.Option(min=0, help="Messages a second that it shall handle.", show_default="the highest rate known"),
    ] = None,
    watch: Annotated[str, typer.Option(help="Watch this long how many messages arrive.")] = "5s",
    as_json: AsJson = False,
) -> None:
    """Show how many threads and members a group needs, and what limits it.

    Members report the CPU time and the waiting time of a message, if they are PyroMQ's.
    """
    seconds = parse_duration(watch, "--watch").total_seconds()
    advice = run(_advise(namesrv_addresses(namesrv), group, seconds, peak))
    if as_json:
        print(json_line(advice_fields(advice)))
    else:
        for piece in advice_as_lines(advice):
            output().print(piece, soft_wrap=isinstance(piece, str))
    _warn(advice.silent_brokers)


async def _advise(namesrv: str, group: str, watch: float, peak: float | None) -> GroupAdvice:
    async with AdminClient(namesrv, credentials=environment_credentials()) as admin:
        return await admin.groups.advise(group, watch=watch, peak=peak)


@app.command()
def reset(
    group: Group,
    to: Annotated[str, typer.Option(help="Where to: earliest, latest, an offset, or a time such as 2026-01-31T12:00.")],
    namesrv: Namesrv = None,
    topic: Annotated[
        list[str] | None, typer.Option(help="Only in this topic; may be repeated.", show_default="all of the group's")
    ] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Move a group to other offsets, to receive messages again or to skip some.

    Members with a listener are told and carry it out within seconds. Stop members that poll first.
    """
    run(_reset(namesrv_addresses(namesrv), group, _target(to), topic or (), dry_run=dry_run, ask=not yes))


def _target(text: str) -> ResetTo:
    ends: dict[str, ResetTo] = {"earliest": "earliest", "latest": "latest"}
    if text in ends:
        return ends[text]
    return int(text) if text.isdecimal() else parse_time(text, "--to", "earliest, latest, an offset or ")


def _are(number: int, thing: str = "") -> str:
    return f"{counted(number, thing) if thing else f'{number:,}'} {'is' if number == 1 else 'are'}"


async def _reset(namesrv: str, group: str, to: ResetTo, topics: Sequence[str], *, dry_run: bool, ask: bool) -> None:
    async with AdminClient(namesrv, credentials=environment_credentials()) as admin:
        plan = await admin.groups.plan_reset(group, to, topics)
        if dry_run:
            print(*map(move_as_line, plan.moves), sep="\n")
            return
        what = f"{_are(plan.again, 'message')} delivered again, {_are(plan.skipped)} skipped"
        if ask:
            confirm(f"Move {group} in {counted(len(plan.moves), 'queue')}: {what}?")
        print(*map(move_as_line, await admin.groups.reset(plan)), sep="\n")
        told = f"; {counted(len(plan.members), 'member')} told, to carry it out" if plan.members else ""
        print(f"{group} moved: {what}{told}", file=sys.stderr)


@app.command()
def clone(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="The group to copy offsets from.")],
    target: Annotated[str, typer.Argument(metavar="TARGET", help="The group to copy them to; it must not be online.")],
    namesrv: Namesrv = None,
    topic: Annotated[str | None, typer.Option(help="Only of this topic.")] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Copy the offsets of a group to another, which then continues from there."""
    run(_clone(namesrv_addresses(namesrv), source, target, topic, dry_run=dry_run, ask=not yes))


async def _clone(namesrv: str, source: str, target: str, topic: str | None, *, dry_run: bool, ask: bool) -> None:
    async with AdminClient(namesrv, credentials=environment_credentials()) as admin:
        chosen = await admin.groups.plan_clone(source, target, topic)
        if not dry_run:
            if ask:
                confirm(f"Replace the offsets of {target} by those of {source}?")
            chosen = await admin.groups.clone(source, target, topic)
    for broker, topics in chosen.items():
        print(f"{broker}: {', '.join(topics)}")


@app.command("set")
def set_group(
    group: Group,
    changes: Annotated[
        list[str],
        typer.Argument(metavar="NAME=VALUE", help="Settings such as consume_enable=false or retry_max_times=5."),
    ],
    namesrv: Namesrv = None,
    broker: Annotated[str | None, typer.Option(help="Only at this broker.", show_default="all")] = None,
    dry_run: DryRun = False,
) -> None:
    """Change a group's settings; create it if it does not exist.

    `describe --json` shows all settings.
    """
    wanted = dict(_setting(text) for text in changes)
    for name, fields in run(_set(namesrv_addresses(namesrv), group, wanted, broker, dry_run)).items():
        print(json_line({"broker_name": name, **fields}))


def _setting(text: str) -> tuple[str, bool | int]:
    name, value = split_assignment(text, "a setting")
    if value in ("true", "false"):
        return name, value == "true"
    try:
        return name, integer(-1, 2**31 - 1)(value)
    except ValueError:
        raise typer.BadParameter(f"{name} must be true, false or a number, not {value!r}") from None


async def _set(
    namesrv: str, group: str, changes: Mapping[str, bool | int], broker: str | None, dry_run: bool
) -> dict[str, dict[str, object]]:
    async with AdminClient(namesrv, credentials=environment_credentials()) as admin:
        change = admin.groups.plan_set if dry_run else admin.groups.set
        changed = await change(group, changes, broker=broker)
        return {name: group_settings_fields(settings) for name, settings in changed.items()}


@app.command()
def delete(group: Group, namesrv: Namesrv = None, dry_run: DryRun = False, yes: Yes = False) -> None:
    """Delete a group and its offsets from all brokers.

    It must not be online. Its dead letters stay.
    """
    brokers = run(_delete(namesrv_addresses(namesrv), group, dry_run=dry_run, ask=not yes))
    print(f"{group} {'would be deleted' if dry_run else 'deleted'} on {', '.join(brokers)}")


async def _delete(namesrv: str, group: str, *, dry_run: bool, ask: bool) -> list[str]:
    async with AdminClient(namesrv, credentials=environment_credentials()) as admin:
        brokers = await admin.groups.plan_delete(group)
        if dry_run:
            return brokers
        if ask:
            question = f"Delete {group} and all its offsets on {', '.join(brokers)}?"
            confirm(question)
        return await admin.groups.delete(group)
