"""`pyromq send`: send a message, a file, or each line of stdin."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from pyromq.cli.arguments import AsJson, Namesrv, namesrv_addresses, parse_duration, parse_time, split_assignment
from pyromq.cli.family import Family
from pyromq.cli.send.send_window import Numbered, SendOne, SendWindow
from pyromq.cli.send.stdin_lines import stdin_lines
from pyromq.client.environment import environment_credentials
from pyromq.client.net.publish_info import Select
from pyromq.client.send.producer import Producer
from pyromq.errors import ClientError
from pyromq.protocol.messages.message import Message, MessageQueue
from pyromq.remoting.loop import run

IN_FLIGHT = 256

app = Family()


def given_bytes(text: str) -> bytes:
    """Return the bytes that a user typed, even if they are not UTF-8."""
    return text.encode(errors="surrogateescape")


@app.command(writes=True)
def send(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Topic to send to.")],
    body: Annotated[
        bytes | None,
        typer.Argument(metavar="BODY", parser=given_bytes, help="The body; - sends each line of stdin that has text."),
    ] = None,
    namesrv: Namesrv = None,
    tag: Annotated[str | None, typer.Option(help="Tag of the message.")] = None,
    key: Annotated[list[str] | None, typer.Option(help="A key to find it by; may be repeated.")] = None,
    properties: Annotated[
        list[str] | None, typer.Option("--property", metavar="NAME=VALUE", help="A property; may be repeated.")
    ] = None,
    delay: Annotated[str | None, typer.Option(help="Deliver after this delay: 10s, 30m, 2h, 1d12h.")] = None,
    at: Annotated[str | None, typer.Option(help="Deliver at this time (ISO 8601).")] = None,
    level: Annotated[
        int | None, typer.Option(min=1, help="Deliver after the delay of this level of the broker, as Apache's have.")
    ] = None,
    order_key: Annotated[str | None, typer.Option(help="Messages with the same key go to the same queue.")] = None,
    queue: Annotated[int | None, typer.Option(min=0, help="Send to this queue.")] = None,
    file: Annotated[Path | None, typer.Option(help="Read the body from a file.")] = None,
    count: Annotated[int, typer.Option(min=1, help="Send it this many times.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Send a message, a file, or each line of stdin.

    One result is printed for each message, in order. After a failure nothing more is sent, and the exit code is 1.
    """
    if (delay is not None) + (at is not None) + (level is not None) > 1:
        raise typer.BadParameter("give only one of --delay, --at and --level")
    if (body is None) == (file is None):
        raise typer.BadParameter("give either a BODY or --file")
    send_one = partial(
        Producer.send,
        order_key=order_key,
        select=_choose_queue(queue) if queue is not None else None,
        delay=parse_duration(delay, "--delay") if delay is not None else None,
        at=parse_time(at, "--at") if at is not None else None,
        level=level,
    )
    extra = dict(split_assignment(text, "--property") for text in properties or ())
    message = partial(Message, topic, tags=tag, keys=key or [], properties=extra)
    if body == b"-":
        messages = _messages_of_lines(message, count)
    else:
        content = file.read_bytes() if file is not None else body or b""
        messages = _copies(message, content, count)
    in_order = order_key is not None or queue is not None
    run(_send_all(namesrv_addresses(namesrv), messages, send_one, 1 if in_order else IN_FLIGHT, as_json))


async def _copies(message: partial[Message], body: bytes, count: int) -> AsyncIterator[Numbered]:
    for _ in range(count):
        yield Numbered(None, message(body=body))


async def _messages_of_lines(message: partial[Message], count: int) -> AsyncIterator[Numbered]:
    empty = number = 0
    async for line in stdin_lines():
        number += 1
        empty += not line
        for _ in range(count if line else 0):
            yield Numbered(number, message(body=line))
    if empty:
        print(f"skipped {empty} empty line{'s' if empty > 1 else ''}: a message has a body", file=sys.stderr)


async def _send_all(
    namesrv: str, messages: AsyncIterator[Numbered], send_one: SendOne, window: int, as_json: bool
) -> None:
    async with Producer(group="pyromq-cli", namesrv=namesrv, credentials=environment_credentials()) as producer:
        await SendWindow(partial(send_one, producer), window, as_json).run(messages)


def _choose_queue(queue_id: int) -> Select:
    def select(queues: Sequence[MessageQueue], message: Message) -> MessageQueue:
        for queue in queues:
            if queue.queue_id == queue_id:
                return queue
        raise ClientError(f"topic {message.topic} has no writable queue {queue_id}")

    return select
