"""`pyromq topic`: list, describe, create, change, resize and delete topics."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Annotated

import typer
from rich.markup import escape

from pyromq.admin import AdminClient, ResizeProgress, TopicDeletion, TopicDescription, TopicListing
from pyromq.admin.topics.changes import DEFAULT_QUEUES, parse_perm
from pyromq.admin.topics.description import perm_text
from pyromq.admin.topics.resize import SETTLE
from pyromq.admin.views.topic_view import (
    resize_fields,
    resize_plan_fields,
    topic_deletion_fields,
    topic_fields,
    topic_settings_fields,
    topic_summary_fields,
)
from pyromq.cli.arguments import AsJson, DryRun, Namesrv, Yes, confirm, namesrv_addresses, parse_duration
from pyromq.cli.cluster_choice import is_protected
from pyromq.cli.family import Family
from pyromq.cli.show.console import output, remarks
from pyromq.cli.show.lines import counted, json_line, report_line
from pyromq.cli.show.topic_tables import (
    deletion_as_lines,
    resize_as_line,
    resize_plan_as_lines,
    topic_groups_table,
    topic_queues_table,
    topics_as_table,
)
from pyromq.client.environment import environment_credentials
from pyromq.errors import ClientError
from pyromq.protocol.bodies import TopicConfig
from pyromq.protocol.names import MAX_QUEUES
from pyromq.remoting.loop import run

Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.")]
Perm = Annotated[str, typer.Option(help="What clients may do: rw, r or w; or 6, 4, 2.")]

app = Family(help="Topics: what their queues hold, who consumes them; create and change them.")


@app.command("list")
def list_topics(
    namesrv: Namesrv = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Include retries, dead letters and RocketMQ's own topics.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List all topics with their brokers, queues and permissions."""
    listing = run(_list(namesrv_addresses(namesrv)))
    topics = [topic for topic in listing.topics if everything or topic.kind == "topic"]
    if as_json:
        for topic in topics:
            print(json_line(topic_summary_fields(topic)))
    else:
        output().print(topics_as_table(topics) if topics else "there are no topics")
    for broker, reason in listing.silent_brokers.items():
        remarks().print(f"[yellow]{broker} does not answer: {escape(reason)}[/]", soft_wrap=True)


async def _list(namesrv: str) -> TopicListing:
    async with AdminClient(namesrv, credentials=environment_credentials()) as admin:
        return await admin.topics.list()


@app.command()
def describe(
    topic: Topic,
    namesrv: Namesrv = None,
    as_json: AsJson = False,
) -> None:
    """Show what the queues of a topic hold, and how far its groups are."""
    found = run(_describe(namesrv_addresses(namesrv), topic))
    if as_json:
        print(json_line(topic_fields(found)))
        return
    console = output()
    kind = "" if found.kind == "topic" else f" ({found.kind})"
    console.print(f"[bold]{escape(topic)}[/]{kind}: {_contents(found)}")
    console.print(topic_queues_table(found))
    console.print(topic_groups_table(found) if found.groups else "no group consumes it")
    for finding in found.findings:
        console.print(f"[yellow]! {escape(finding)}[/]", soft_wrap=True)


def _contents(found: TopicDescription) -> str:
    return f"{counted(found.messages, 'message')} in {counted(len(found.queues), 'queue')}"


async def _describe(namesrv: str, topic: str) -> TopicDescription:
    async with AdminClient(namesrv, credentials=environment_credentials()) as admin:
        return await admin.topics.describe(topic)


# --- create and set


@app.command()
def create(
    topic: Topic,
    namesrv: Namesrv = None,
    cluster: Annotated[
        str | None, typer.Option(help="On all brokers of this cluster.", show_default="the only one")
    ] = None,
    broker: Annotated[
        list[str] | None, typer.Option(help="Only on this broker; may be repeated.", show_default="all of the cluster")
    ] = None,
    queues: Annotated[
        int | None, typer.Option(min=1, max=MAX_QUEUES, help="Queues on each broker.", show_default=str(DEFAULT_QUEUES))
    ] = None,
    read: Annotated[
        int | None, typer.Option(min=1, max=MAX_QUEUES, help="Queues to read on each broker, instead of --queues.")
    ] = None,
    write: Annotated[
        int | None, typer.Option(min=1, max=MAX_QUEUES, help="Queues to write on each broker, instead of --queues.")
    ] = None,
    perm: Perm = "rw",
    order: Annotated[
        bool, typer.Option("--order", help="Ordered: sends fail rather than go to a queue of another broker.")
    ] = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Create a topic.

    An existing topic is not touched: `set` and `resize` change one.
    """
    if cluster is not None and broker:
        raise typer.BadParameter("either --cluster or --broker, not both")
    reads, writes = _queue_numbers(queues, read, write)
    numbers = run(
        _create(
            namesrv_addresses(namesrv), topic, cluster, broker or (), reads, writes, _perm(perm), order, dry_run=dry_run
        )
    )
    _show_settings(topic, numbers, "would be created" if dry_run else "created", as_json)


def _queue_numbers(queues: int | None, read: int | None, write: int | None) -> tuple[int, int]:
    if queues is not None and (read is not None or write is not None):
        raise typer.BadParameter("either --queues, or --read and --write")
    if (read is None) != (write is None):
        raise typer.BadParameter("--read and --write belong together")
    both = queues or DEFAULT_QUEUES
    return read or both, write or both


def _perm(text: str) -> int:
    try:
        return parse_perm(text)
    except ClientError as error:
        raise typer.BadParameter(f"--perm: {error}") from None


async def _create(
    namesrv: str,
    topic: str,
    cluster: str | None,
    brokers: Sequence[str],
    read_queues: int,
    write_queues: int,
    perm: int,
    order: bool,
    *,
    dry_run: bool,
) -> dict[str, TopicConfig]:
    async with AdminClient(namesrv, credentials=environment_credentials()) as admin:
        return await (admin.topics.plan_create if dry_run else admin.topics.create)(
            topic,
            cluster=cluster,
            brokers=brokers,
            read_queues=read_queues,
            write_queues=write_queues,
            perm=perm,
            order=order,
        )


@app.command("set")
def set_topic(
    topic: Topic,
    namesrv: Namesrv = None,
    perm: Annotated[
        str | None, typer.Option(help="What clients may do: rw, r or w; or 6, 4, 2.", show_default="as it is")
    ] = None,
    order: Annotated[
        bool | None, typer.Option("--order/--no-order", help="Whether it is ordered.", show_default="as it is")
    ] = None,
    broker: Annotated[str | None, typer.Option(help="Only at this broker.", show_default="all that have it")] = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Change the permissions of a topic, or its order setting.

    `resize` changes the number of its queues.
    """
    if perm is None and order is None:
        raise typer.BadParameter("nothing to change: give --perm, --order or --no-order")
    wanted = None if perm is None else _perm(perm)
    changed = run(_set(namesrv_addresses(namesrv), topic, wanted, order, broker, dry_run=dry_run))
    _show_settings(topic, changed, "would be changed" if dry_run else "changed", as_json)


async def _set(
    namesrv: str, topic: str, perm: int | None, order: bool | None, broker: str | None, *, dry_run: bool
) -> dict[str, TopicConfig]:
    async with AdminClient(namesrv, credentials=environment_credentials()) as admin:
        change = admin.topics.plan_set if dry_run else admin.topics.set
        return await change(topic, perm=perm, order=order, broker=broker)


def _show_settings(topic: str, settings: Mapping[str, TopicConfig], what: str, as_json: bool) -> None:
    for broker, config in settings.items():
        if as_json:
            print(json_line(topic_settings_fields(topic, broker, config)))
        else:
            queues = f"{config.read_queue_nums} read and {config.write_queue_nums} write queues"
            ordered = ", ordered" if config.order else ""
            print(f"{topic} {what} on {broker}: {queues}, {perm_text(config.perm)}{ordered}")


# --- delete


@app.command()
def delete(
    topic: Topic, namesrv: Namesrv = None, dry_run: DryRun = False, yes: Yes = False, as_json: AsJson = False
) -> None:
    """Delete a topic from all brokers, their slaves and name servers.

    Its offsets and its order setting go too. Groups and their dead letters stay.
    """
    gone = run(_delete(namesrv_addresses(namesrv), topic, dry_run=dry_run, ask=not yes))
    if as_json:
        print(json_line(topic_deletion_fields(gone)))
    else:
        print(*deletion_as_lines(gone, "would be deleted" if dry_run else "deleted"), sep="\n")
    for slave, reason in gone.silent_slaves.items():
        remarks().print(f"[yellow]slave {slave} still has it: {escape(reason)}[/]", soft_wrap=True)


async def _delete(namesrv: str, topic: str, *, dry_run: bool, ask: bool) -> TopicDeletion:
    async with AdminClient(namesrv, credentials=environment_credentials()) as admin:
        if not dry_run and not ask:
            return await admin.topics.delete(topic)
        plan = await admin.topics.plan_delete(topic)
        if dry_run:
            return plan
        confirm(_deletion_question(plan))
        return await admin.topics.delete(topic)


def _deletion_question(plan: TopicDeletion) -> str:
    groups = ", ".join(f"{it.group} (lag {it.lag:,}, members {it.members})" for it in plan.groups)
    return (
        f"Delete {plan.topic} with {counted(plan.messages, 'message')}, which these groups consume: {groups or 'none'}?"
    )


# --- resize


@app.command()
def resize(
    topic: Topic,
    queues: Annotated[int, typer.Option(min=1, max=MAX_QUEUES, help="Queues on each broker.")],
    namesrv: Namesrv = None,
    ignore_group: Annotated[
        list[str] | None,
        typer.Option(metavar="GROUP", help="Do not wait for this group; may be repeated.", show_default="wait for all"),
    ] = None,
    settle: Annotated[
        str, typer.Option(help="How long no message must come to queues that go: producers may be 30 s late.")
    ] = f"{SETTLE:g}s",
    timeout: Annotated[
        str | None, typer.Option(help="Give up after this time; the same command goes on.", show_default="never")
    ] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Give a topic more or fewer queues.

    More are there at once. Fewer come in steps: producers leave the queues that go, groups consume what is left in
    them, then they go. Stop it at any time: the same command goes on.
    """
    seconds = parse_duration(settle, "--settle").total_seconds()
    limit = None if timeout is None else parse_duration(timeout, "--timeout").total_seconds()
    run(
        _resize(
            namesrv_addresses(namesrv), topic, queues, ignore_group or (), seconds, limit, as_json=as_json,
            dry_run=dry_run, ask=not yes,
        )
    )  # fmt: skip


async def _resize(
    namesrv: str,
    topic: str,
    queues: int,
    ignored: Sequence[str],
    settle: float,
    timeout: float | None,
    *,
    as_json: bool,
    dry_run: bool,
    ask: bool,
) -> None:
    async with AdminClient(namesrv, credentials=environment_credentials()) as admin:
        plan = await admin.topics.plan_resize(topic, queues, ignore_groups=ignored)
        if dry_run:
            print(json_line(resize_plan_fields(plan)) if as_json else "\n".join(resize_plan_as_lines(plan)))
            return
        if ask and (plan.leaving or is_protected()):
            confirm(f"{'. '.join(resize_plan_as_lines(plan))}. Go on?")
        try:
            await _show_resize(
                admin.topics.resize(topic, queues, ignore_groups=ignored, settle=settle, timeout=timeout),
                settle,
                as_json=as_json,
            )
        except asyncio.CancelledError:
            print(f"stopped: {topic} can be used as it is, and the same command goes on", file=sys.stderr)
            raise


async def _show_resize(steps: AsyncIterator[ResizeProgress], settle: float, *, as_json: bool) -> None:
    shown = ""
    async for progress in steps:
        if as_json:
            report_line(json_line(resize_fields(progress)), flush=True)
        elif (line := resize_as_line(progress, settle)) != shown:
            shown = line
            report_line(line, flush=True)
