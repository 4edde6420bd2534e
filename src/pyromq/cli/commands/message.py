"""`pyromq message`: messages one by one: what happened to one, and those that wait for their time."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer
from rich.console import Console

from pyromq.admin import AdminClient, MessageTrace, TimedMessage
from pyromq.admin.views.message_view import iso_time, message_as_line, message_fields
from pyromq.cli.server_settings import namesrv_addresses
from pyromq.cli.show.trace_table import event_as_json, trace_as_table
from pyromq.client.environment import environment_credentials
from pyromq.errors import ClientError
from pyromq.protocol.names import TRACE_TOPIC
from pyromq.remoting.loop import run

Namesrv = Annotated[str | None, typer.Option("-n", "--namesrv", help="Name servers, host:port;host:port.")]

app = typer.Typer(help="Messages one by one: trace; pending and cancel, for those that wait for their time.")


@app.command()
def trace(
    message_id: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="The id that `send` returned, here or in Java.")
    ] = None,
    namesrv: Namesrv = None,
    key: Annotated[str | None, typer.Option(help="Instead of an id: all messages with this key.")] = None,
    trace_topic: Annotated[str, typer.Option(help="Where the clients write their traces.")] = TRACE_TOPIC,
    as_json: Annotated[bool, typer.Option("--json", help="JSON lines.")] = False,
) -> None:
    """Show what happened to a message: its sends, every listener that had it, its transaction's end.

    Clients write that down if they are told to: `trace=True` here, `enableMsgTrace` in Java.
    """
    if (message_id is None) == (key is None):
        raise typer.BadParameter("give either the ID of a message or --key")
    found = run(_trace(namesrv_addresses(namesrv), message_id, key, trace_topic))
    if not found:
        what = f"message {message_id}" if message_id else f"messages with the key {key}"
        text = f"no traces of {what} in {trace_topic}: its clients were not told to write them, or did so elsewhere"
        raise ClientError(text)
    console = Console()
    for one in found:
        if as_json:
            for event in one.events:
                print(event_as_json(event))
        else:
            console.print(trace_as_table(one))


async def _trace(namesrv: str, message_id: str | None, key: str | None, topic: str) -> list[MessageTrace]:
    async with AdminClient(namesrv, credentials=environment_credentials()) as admin:
        if message_id is None:
            return await admin.traces.by_key(key or "", topic=topic)
        found = await admin.traces.of(message_id, topic=topic)
        return [found] if found.events else []


@app.command()
def pending(
    namesrv: Namesrv = None,
    topic: Annotated[str | None, typer.Option(help="Only those of this topic.")] = None,
    count: Annotated[int, typer.Option(min=0, help="Stop after so many (0: never).")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="JSON lines.")] = False,
) -> None:
    """List the messages that were sent with a delay or a time and are not due yet, broker by broker, by their time."""
    shown = run(_pending(namesrv_addresses(namesrv), topic, count, as_json))
    if not shown and not as_json:
        print("no message waits for its time", file=sys.stderr)


async def _pending(namesrv: str, topic: str | None, count: int, as_json: bool) -> int:
    shown = 0
    async with AdminClient(namesrv, credentials=environment_credentials()) as admin:
        async for message in admin.timed_messages.pending(topic):
            print(_as_json(message) if as_json else _as_line(message))
            shown += 1
            if shown == count:
                break
    return shown


@app.command()
def cancel(
    message_id: Annotated[
        str, typer.Argument(metavar="ID", help="The id that `send` printed, or that `pending` shows.")
    ],
    namesrv: Namesrv = None,
    topic: Annotated[str, typer.Option(help="Only if it waits for this topic.")] = "",
) -> None:
    """Cancel a message that waits for its time: nobody gets it. One that no longer waits is an error."""
    brokers = run(_cancel(namesrv_addresses(namesrv), message_id, topic))
    if not brokers:
        raise ClientError(f"no message with the id {message_id} waits: it was delivered, cancelled, or never sent")
    print(f"cancelled {message_id} on {', '.join(brokers)}")


async def _cancel(namesrv: str, message_id: str, topic: str) -> list[str]:
    async with AdminClient(namesrv, credentials=environment_credentials()) as admin:
        return await admin.timed_messages.cancel(message_id, topic)


def _as_json(message: TimedMessage) -> str:
    fields = message_fields(message.stored)
    fields |= {
        "topic": message.topic,
        "queue_id": message.queue_id,
        "offset_message_id": message.stored.offset_message_id,
        "deliver_timestamp": iso_time(message.due_ms),
    }
    del fields["queue_offset"]  # it gets one when it is delivered
    return json.dumps(fields, ensure_ascii=False)


def _as_line(message: TimedMessage) -> str:
    stored = message.stored
    return f"{iso_time(message.due_ms)} {message.topic} {stored.message_id} {message_as_line(stored)}"
