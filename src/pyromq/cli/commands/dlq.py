"""`pyromq dlq`: list, show, export and resend dead letters."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from pyromq.admin import AdminClient, DeadLetterTopic, Wanted
from pyromq.admin.views.dead_letter_view import dead_letter_fields, dead_letter_topic_fields
from pyromq.cli.arguments import AsJson, Namesrv, Yes, confirm, namesrv_addresses
from pyromq.cli.cluster_choice import is_protected
from pyromq.cli.family import Family
from pyromq.cli.show.console import output, remarks
from pyromq.cli.show.dead_letter_output import (
    dead_letter_file,
    dead_letter_line,
    dead_letter_table,
    expiry_warning,
)
from pyromq.cli.show.lines import counted, json_line, report_line
from pyromq.cli.show.progress import progress
from pyromq.client.environment import environment_credentials
from pyromq.errors import ClientError
from pyromq.remoting.loop import run

Group = Annotated[str, typer.Argument(metavar="GROUP", help="The consumer group.")]
Where = Annotated[
    str | None,
    typer.Option(metavar="EXPR", help="Only matching ones, in SQL92: \"TAGS = 'paid' AND body.amount > 9\"."),
]
Cause = Annotated[str | None, typer.Option(help="Only those whose cause contains this text.")]
Ids = Annotated[list[str] | None, typer.Option("--id", metavar="ID", help="Only this message; may be repeated.")]

app = Family(help="Dead letters: messages that consumer groups gave up.")


@app.command("list")
def list_groups(namesrv: Namesrv = None, as_json: AsJson = False) -> None:
    """List groups that have dead letters, how many, and how long they are kept."""
    topics = run(_groups(namesrv_addresses(namesrv)))
    if as_json:
        for topic in topics:
            print(json_line(dead_letter_topic_fields(topic)))
    else:
        output().print(dead_letter_table(topics, datetime.now(UTC)) if topics else "no group has dead letters")
    if text := expiry_warning(topics):
        remarks().print(f"[yellow]{text}[/]")


async def _groups(namesrv: str) -> list[DeadLetterTopic]:
    async with AdminClient(namesrv, credentials=environment_credentials()) as admin:
        return await admin.dead_letters.groups()


@app.command()
def show(
    group: Group,
    namesrv: Namesrv = None,
    where: Where = None,
    cause: Cause = None,
    ids: Ids = None,
    count: Annotated[int, typer.Option(min=0, help="Stop after this many (0: never).")] = 0,
    as_json: AsJson = False,
) -> None:
    """Show a group's dead letters, oldest first, with the causes of their failures."""
    wanted = Wanted(where=where, cause=cause, ids=ids)
    shown = run(_show(namesrv_addresses(namesrv), group, wanted, count, as_json))
    if ids and not shown:
        raise ClientError(f"the group {group!r} has no dead letter with the id {', '.join(ids)}")


async def _show(namesrv: str, group: str, wanted: Wanted, count: int, as_json: bool) -> int:
    shown = 0
    async with AdminClient(namesrv, credentials=environment_credentials()) as admin:
        async for letter in admin.dead_letters.read(group, wanted):
            print(json_line(dead_letter_fields(letter)) if as_json else dead_letter_line(letter))
            shown += 1
            if shown == count:
                break
    return shown


@app.command()
def export(
    group: Group,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="NAME.parquet, any other name for JSON lines, or - for stdout.")
    ],
    namesrv: Namesrv = None,
    where: Where = None,
    cause: Cause = None,
) -> None:
    """Write a group's dead letters to a file, as JSON lines or as Parquet."""
    wanted = Wanted(where=where, cause=cause)
    count = run(_export(namesrv_addresses(namesrv), group, wanted, None if str(file) == "-" else file))
    print(f"{counted(count, 'dead letter')} of {group} exported", file=sys.stderr)


async def _export(namesrv: str, group: str, wanted: Wanted, file: Path | None) -> int:
    count = 0
    async with AdminClient(namesrv, credentials=environment_credentials()) as admin:
        with dead_letter_file(file) as write:
            async for letter in admin.dead_letters.read(group, wanted):
                write(letter)
                count += 1
    return count


@app.command()
def resend(
    group: Group,
    namesrv: Namesrv = None,
    where: Where = None,
    cause: Cause = None,
    ids: Ids = None,
    everything: Annotated[bool, typer.Option("--all", help="All dead letters.")] = False,
    to: Annotated[str | None, typer.Option(help="Send to this topic.", show_default="the original topic")] = None,
    rate: Annotated[float | None, typer.Option(min=0.001, help="At most this many a second.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be sent, and send nothing.")] = False,
    yes: Yes = False,
) -> None:
    """Send dead letters again, as new messages.

    Properties that begin with PYROMQ_ hold their history. The dead letters stay where they are: sending twice makes two
    messages.
    """
    chosen = Wanted(where=where, cause=cause, ids=ids)
    if everything == (chosen != Wanted()):
        raise typer.BadParameter("select dead letters by --id, --where or --cause, or give --all")
    ask = not yes and (not ids or is_protected())
    run(_resend(namesrv_addresses(namesrv), group, chosen, to, rate, dry_run=dry_run, ask=ask))


async def _resend(
    namesrv: str, group: str, wanted: Wanted, to: str | None, rate: float | None, *, dry_run: bool, ask: bool
) -> None:
    async with AdminClient(namesrv, credentials=environment_credentials()) as admin:
        if dry_run:
            async for letter in admin.dead_letters.read(group, wanted):
                print(f"{letter.message.message_id} -> {letter.resent(to).topic}")
            return
        if ask:
            count = len([None async for _ in admin.dead_letters.read(group, wanted)])
            where = to or "their original topics"
            if count:
                confirm(f"Send {counted(count, 'dead letter')} of {group} to {where}?")
        sent = await _send(admin, group, wanted, to, rate)
    if not sent:
        raise ClientError(f"the group {group!r} has no such dead letters")
    print(f"{counted(sent, 'dead letter')} of {group} sent again", file=sys.stderr)


async def _send(admin: AdminClient, group: str, wanted: Wanted, to: str | None, rate: float | None) -> int:
    sent = 0
    with progress() as bar:
        task = bar.add_task("sending", total=None)
        async for letter, result in admin.dead_letters.resend_all(group, wanted, to=to, rate=rate):
            sent += 1
            bar.update(task, completed=sent)
            report_line(f"{result.status} {letter.message.message_id} -> {result.queue.topic} {result.message_id}")
    return sent
