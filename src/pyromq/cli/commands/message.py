"""`pyromq message`: find and show messages, trace one, have one handled; list or cancel delayed messages."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Annotated

import typer

from pyromq.admin import (
    AdminClient,
    DirectPlan,
    DirectResult,
    GroupConsumption,
    MessageSearch,
    MessageTrace,
    SearchBudget,
    TimedMessage,
)
from pyromq.admin.messages.search import LONGEST_SEARCH, MOST_LOOKED_AT
from pyromq.admin.views.consumption_view import consumption_fields, direct_plan_fields, direct_result_fields
from pyromq.admin.views.iso_times import iso_time
from pyromq.admin.views.message_view import message_details, message_fields
from pyromq.admin.views.pending_view import timed_message_fields
from pyromq.admin.views.trace_view import trace_event_fields
from pyromq.cli.arguments import (
    AsJson,
    DryRun,
    Namesrv,
    Yes,
    confirm,
    namesrv_addresses,
    parse_duration,
    parse_time_range,
)
from pyromq.cli.family import Family
from pyromq.cli.show.console import output
from pyromq.cli.show.lines import counted, json_line, message_line
from pyromq.cli.show.message_output import (
    BodyForm,
    consumption_as_table,
    message_as_lines,
    range_as_text,
    search_progress,
    stop_as_text,
)
from pyromq.cli.show.trace_table import trace_as_table
from pyromq.client.environment import environment_credentials
from pyromq.errors import ClientError, NoRoute, TopicNotFound
from pyromq.protocol.messages.message import MessageExt
from pyromq.protocol.names import TRACE_TOPIC
from pyromq.remoting.loop import run

Id = Annotated[
    str,
    typer.Argument(
        metavar="ID",
        help="The id that `send` returned, here or in Java, or of its place; or broker-a:1:42, in a given topic.",
    ),
]
Topic = Annotated[str | None, typer.Option(help="Its topic.", show_default="look in all")]

app = Family(help="Messages: find, show and trace them; delayed ones: list and cancel them.")


# --- find


@app.command()
def find(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic to search.")],
    namesrv: Namesrv = None,
    ids: Annotated[
        list[str] | None, typer.Option("--id", metavar="ID", help="The message with this id; may be repeated.")
    ] = None,
    key: Annotated[str | None, typer.Option(help="Messages with this key, through the brokers' index.")] = None,
    time: Annotated[
        str | None,
        typer.Option(
            metavar="FROM[..TO]",
            help="Stored then, both included: 2026-01-31T12:00..2026-01-31T13:00, or 10m for the last ten minutes.",
        ),
    ] = None,
    tag: Annotated[str | None, typer.Option(help="With one of these tags: 'a || b'.")] = None,
    body: Annotated[
        str | None,
        typer.Option(
            metavar="EXPR",
            help="Matching ones, in SQL92 over properties and fields of JSON bodies: \"body.amount > 9 AND a = 'x'\".",
        ),
    ] = None,
    contains: Annotated[str | None, typer.Option(metavar="TEXT", help="With this text in the body.")] = None,
    oldest_first: Annotated[
        bool, typer.Option("--oldest-first", help="Begin with the oldest message.", show_default="the newest")
    ] = False,
    count: Annotated[int, typer.Option(min=0, help="Stop after this many were found (0: never).")] = 0,
    budget: Annotated[
        int, typer.Option(min=0, help="Look at about this many messages at most (0: any number).")
    ] = MOST_LOOKED_AT,
    timeout: Annotated[str, typer.Option(help="Search for at most this long (0s: any time).")] = f"{LONGEST_SEARCH:g}s",
    as_json: AsJson = False,
) -> None:
    """Find messages of a topic by id, key, time, tag or body.

    Options can be combined; all must hold. The newest come first. If the search stops before its end, the exit code is
    1, and the last line says where it stopped and how to go on.
    """
    conditions = (key, time, tag, body, contains)
    if ids:
        if any(one is not None for one in conditions):
            raise typer.BadParameter("--id names messages: it needs no other condition")
        run(_find_ids(namesrv_addresses(namesrv), topic, ids, as_json))
        return
    if all(one is None for one in conditions):
        raise typer.BadParameter("say what to find: --id, --key, --time, --tag, --body or --contains")
    if key is not None and oldest_first:
        raise typer.BadParameter("--key finds the newest first")
    since, until = (None, None) if time is None else parse_time_range(time, "--time", datetime.now().astimezone())
    limits = SearchBudget(
        messages=budget or None,
        seconds=parse_duration(timeout, "--timeout").total_seconds() or None,
        found=count or None,
    )
    run(
        _find(
            namesrv_addresses(namesrv),
            lambda admin: admin.messages.find(
                topic,
                key=key,
                tags=tag,
                where=body,
                contains=None if contains is None else contains.encode(),
                since=since,
                until=until,
                oldest_first=oldest_first,
                budget=limits,
            ),
            oldest_first,
            as_json,
        )
    )


async def _find_ids(namesrv: str, topic: str, ids: Sequence[str], as_json: bool) -> None:
    async with AdminClient(namesrv, credentials=environment_credentials()) as admin:
        for message_id in ids:
            _print(await admin.messages.get(message_id, topic), as_json)


async def _find(namesrv: str, begin: Callable[[AdminClient], MessageSearch], oldest_first: bool, as_json: bool) -> None:
    async with AdminClient(namesrv, credentials=environment_credentials()) as admin:
        search = begin(admin)
        try:
            with search_progress(search):
                async for message in search:
                    _print(message, as_json)
        except asyncio.CancelledError:
            if search.rest is not None:
                print(f"stopped: go on with --time {range_as_text(search.rest)}", file=sys.stderr)
            raise
    stopped = None if search.stopped is None else stop_as_text(search.stopped, oldest_first=oldest_first)
    if search.silent_brokers:
        silent = ", ".join(f"{broker}: {reason}" for broker, reason in search.silent_brokers.items())
        raise ClientError(f"not all brokers could be searched, {silent}" + (f"; {stopped}" if stopped else ""))
    if search.stopped is not None and search.stopped.limit != "found":
        raise ClientError(str(stopped))
    looked_at = counted(search.looked_at, "message")
    print(stopped or f"{search.found:,} found among {looked_at} looked at", file=sys.stderr)


def _print(message: MessageExt, as_json: bool) -> None:
    print(
        json_line(message_fields(message)) if as_json else f"{message.message_id} {message_line(message)}", flush=True
    )


# --- show


@app.command()
def show(
    message_id: Id,
    namesrv: Namesrv = None,
    topic: Topic = None,
    form: Annotated[
        BodyForm, typer.Option("--as", help="How to show the body.", show_default="what it looks like")
    ] = BodyForm.AUTO,
    as_json: AsJson = False,
) -> None:
    """Show a message: all its fields, its body, and which groups have consumed it.

    A compressed body is decompressed.
    """
    message, groups = run(_show(namesrv_addresses(namesrv), message_id, topic))
    if as_json:
        consumed = [consumption_fields(group) for group in groups]
        print(json_line(message_details(message) | {"consumed_by": consumed}))
        return
    print(*list(message_as_lines(message, form)), sep="\n")
    print()
    output().print(consumption_as_table(groups) if groups else "no group consumes its topic")


async def _show(namesrv: str, message_id: str, topic: str | None) -> tuple[MessageExt, list[GroupConsumption]]:
    async with AdminClient(namesrv, credentials=environment_credentials()) as admin:
        message = await admin.messages.get(message_id, topic)
        return message, await admin.messages.consumed_by(message)


# --- consume


@app.command()
def consume(
    message_id: Id,
    group: Annotated[str, typer.Option(help="The consumer group.")],
    client: Annotated[str, typer.Option(metavar="CLIENT_ID", help="The member that shall handle it.")],
    namesrv: Namesrv = None,
    topic: Topic = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Have one consumer handle a message now.

    Its listener is called in addition to all that it consumes anyway, and the group's offsets do not change. The exit
    code is 1 unless the listener accepts the message.
    """
    found = run(_consume(namesrv_addresses(namesrv), message_id, topic, group, client, dry_run=dry_run, ask=not yes))
    if isinstance(found, DirectPlan):
        line = f"client {found.client_id} ({found.language}) of {found.group} would handle message {message_id}"
        print(json_line(direct_plan_fields(found)) if as_json else line)
        return
    if as_json:
        print(json_line(direct_result_fields(found)))
    if not found.succeeded:
        why = f": {found.remark}" if found.remark else ""
        raise ClientError(
            f"client {client} did not accept message {message_id}, {found.result} after {found.seconds:.3f} s{why}"
        )
    if not as_json:
        print(f"client {client} handled message {message_id} within {found.seconds:.3f} s: {found.result}")


async def _consume(
    namesrv: str, message_id: str, topic: str | None, group: str, client: str, *, dry_run: bool, ask: bool
) -> DirectPlan | DirectResult:
    async with AdminClient(namesrv, credentials=environment_credentials()) as admin:
        if dry_run or ask:
            plan = await admin.messages.plan_consume(message_id, topic=topic, group=group, client_id=client)
            if dry_run:
                return plan
            confirm(f"Have client {client} ({plan.language}) of {group} handle message {message_id} now?")
        return await admin.messages.consume(message_id, topic=topic, group=group, client_id=client)


# --- trace


@app.command()
def trace(
    message_id: Annotated[
        str | None, typer.Argument(metavar="ID", help="The id that `send` returned, here or in Java.")
    ] = None,
    namesrv: Namesrv = None,
    key: Annotated[str | None, typer.Option(help="Instead of an id: all messages with this key.")] = None,
    trace_topic: Annotated[str, typer.Option(help="The topic that clients write traces to.")] = TRACE_TOPIC,
    as_json: AsJson = False,
) -> None:
    """Show what happened to a message: its sends, deliveries and transaction.

    Clients write traces only if they are enabled: `trace=True` here, `enableMsgTrace` in Java.
    """
    if (message_id is None) == (key is None):
        raise typer.BadParameter("give either the ID of a message or --key")
    found = run(_trace(namesrv_addresses(namesrv), message_id, key, trace_topic))
    if not found:
        what = f"message {message_id}" if message_id else f"messages with the key {key}"
        text = f"no traces of {what} in {trace_topic}: its clients do not write traces, or use another topic"
        raise ClientError(text)
    console = output()
    for one in found:
        if as_json:
            for event in one.events:
                print(json_line(trace_event_fields(event)))
        else:
            console.print(trace_as_table(one))


async def _trace(namesrv: str, message_id: str | None, key: str | None, topic: str) -> list[MessageTrace]:
    async with AdminClient(namesrv, credentials=environment_credentials()) as admin:
        try:
            if message_id is None:
                return await admin.traces.by_key(key or "", topic=topic)
            found = await admin.traces.of(message_id, topic=topic)
        except (NoRoute, TopicNotFound):  # nobody has written a trace yet
            return []
        return [found] if found.events else []


# --- delayed messages


@app.command()
def pending(
    namesrv: Namesrv = None,
    topic: Annotated[str | None, typer.Option(help="Only messages for this topic.")] = None,
    count: Annotated[int, typer.Option(min=0, help="Stop after this many (0: never).")] = 0,
    as_json: AsJson = False,
) -> None:
    """List delayed messages that are not due yet, by broker and time."""
    shown = run(_pending(namesrv_addresses(namesrv), topic, count, as_json))
    if not shown and not as_json:
        print("no message waits for its delivery time", file=sys.stderr)


async def _pending(namesrv: str, topic: str | None, count: int, as_json: bool) -> int:
    shown = 0
    async with AdminClient(namesrv, credentials=environment_credentials()) as admin:
        async for message in admin.timed_messages.pending(topic):
            print(json_line(timed_message_fields(message)) if as_json else _as_line(message))
            shown += 1
            if shown == count:
                break
    return shown


@app.command()
def cancel(
    message_id: Annotated[str, typer.Argument(metavar="ID", help="The id that `send` printed or `pending` shows.")],
    namesrv: Namesrv = None,
    topic: Annotated[str, typer.Option(help="Only if it is for this topic.")] = "",
    dry_run: DryRun = False,
) -> None:
    """Cancel a delayed message that is not due yet.

    It is an error if the message no longer waits.
    """
    brokers = run(_cancel(namesrv_addresses(namesrv), message_id, topic, dry_run))
    if not brokers:
        raise ClientError(f"no message with the id {message_id} waits: it was delivered, cancelled, or never sent")
    print(f"{'would cancel' if dry_run else 'cancelled'} {message_id} on {', '.join(brokers)}")


async def _cancel(namesrv: str, message_id: str, topic: str, dry_run: bool) -> list[str]:
    async with AdminClient(namesrv, credentials=environment_credentials()) as admin:
        cancel = admin.timed_messages.plan_cancel if dry_run else admin.timed_messages.cancel
        return await cancel(message_id, topic)


def _as_line(message: TimedMessage) -> str:
    stored = message.stored
    return f"{iso_time(message.due_ms)} {message.topic} {stored.message_id} {message_line(stored)}"
