"""`pyromq message`: trace a message; list or cancel delayed messages."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from pyromq.admin import AdminClient, MessageTrace, TimedMessage
from pyromq.admin.views.iso_times import iso_time
from pyromq.admin.views.pending_view import timed_message_fields
from pyromq.admin.views.trace_view import trace_event_fields
from pyromq.cli.arguments import AsJson, Namesrv, namesrv_addresses
from pyromq.cli.family import Family
from pyromq.cli.show.console import output
from pyromq.cli.show.lines import json_line, message_line
from pyromq.cli.show.trace_table import trace_as_table
from pyromq.client.environment import environment_credentials
from pyromq.errors import ClientError, NoRoute, TopicNotFound
from pyromq.protocol.names import TRACE_TOPIC
from pyromq.remoting.loop import run

app = Family(help="Trace a message; list or cancel delayed messages.")


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
) -> None:
    """Cancel a delayed message that is not due yet.

    It is an error if the message no longer waits.
    """
    brokers = run(_cancel(namesrv_addresses(namesrv), message_id, topic))
    if not brokers:
        raise ClientError(f"no message with the id {message_id} waits: it was delivered, cancelled, or never sent")
    print(f"cancelled {message_id} on {', '.join(brokers)}")


async def _cancel(namesrv: str, message_id: str, topic: str) -> list[str]:
    async with AdminClient(namesrv, credentials=environment_credentials()) as admin:
        return await admin.timed_messages.cancel(message_id, topic)


def _as_line(message: TimedMessage) -> str:
    stored = message.stored
    return f"{iso_time(message.due_ms)} {message.topic} {stored.message_id} {message_line(stored)}"
