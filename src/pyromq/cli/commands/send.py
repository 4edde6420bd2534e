"""`pyromq send`: send a message, a file, or each line of stdin."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from pyromq.admin.views.message_view import send_result_fields
from pyromq.cli.arguments import AsJson, Namesrv, namesrv_addresses, parse_duration, parse_time, split_assignment
from pyromq.cli.show.lines import json_line
from pyromq.client.environment import environment_credentials
from pyromq.client.net.publish_info import Select
from pyromq.client.send.producer import Producer
from pyromq.client.send_result import SendResult
from pyromq.errors import ClientError
from pyromq.protocol.messages.message import Message, MessageQueue
from pyromq.remoting.loop import run

IN_FLIGHT = 256
SendOne = Callable[[Producer, Message], Awaitable[SendResult]]

app = typer.Typer()


@app.command()
def send(
    topic: Annotated[str, typer.Argument(help="Topic to send to.")],
    body: Annotated[str | None, typer.Argument(help="The body; `-` sends each line of stdin.")] = None,
    namesrv: Namesrv = None,
    tag: Annotated[str | None, typer.Option(help="Tag of the message.")] = None,
    key: Annotated[list[str] | None, typer.Option(help="A key to find it by; may be repeated.")] = None,
    properties: Annotated[list[str] | None, typer.Option("--property", metavar="NAME=VALUE")] = None,
    delay: Annotated[str | None, typer.Option(help="Deliver after this delay: 10s, 30m, 2h, 1d12h.")] = None,
    at: Annotated[str | None, typer.Option(help="Deliver at this time (ISO 8601).")] = None,
    order_key: Annotated[str | None, typer.Option(help="Messages with the same key go to the same queue.")] = None,
    queue: Annotated[int | None, typer.Option(min=0, help="Send to this queue.")] = None,
    file: Annotated[Path | None, typer.Option(help="Read the body from a file.")] = None,
    count: Annotated[int, typer.Option(min=1, help="Send it this many times.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Send a message, a file, or each line of stdin."""
    if delay is not None and at is not None:
        raise typer.BadParameter("give --delay or --at, not both")
    send_one = partial(
        Producer.send,
        order_key=order_key,
        select=_choose_queue(queue) if queue is not None else None,
        delay=parse_duration(delay, "--delay") if delay is not None else None,
        at=parse_time(at, "--at") if at is not None else None,
    )
    in_order = order_key is not None or queue is not None
    extra = dict(split_assignment(text, "--property") for text in properties or ())

    def messages() -> Iterator[Message]:
        for content in _bodies(body, file):
            for _ in range(count):
                yield Message(topic=topic, body=content, tags=tag, keys=key or [], properties=dict(extra))

    run(_send_all(namesrv_addresses(namesrv), messages(), send_one, 1 if in_order else IN_FLIGHT, as_json))


def _bodies(body: str | None, file: Path | None) -> Iterator[bytes]:
    if (body is None) == (file is None):
        raise typer.BadParameter("give either a BODY or --file")
    if file is not None:
        yield file.read_bytes()
    elif body == "-":
        yield from (line.rstrip(b"\r\n") for line in sys.stdin.buffer)
    elif body is not None:
        yield body.encode()


async def _send_all(namesrv: str, messages: Iterator[Message], send_one: SendOne, window: int, as_json: bool) -> None:
    sent, show = 0, _result_as_json if as_json else _result_as_line
    async with Producer(group="pyromq-cli", namesrv=namesrv, credentials=environment_credentials()) as producer:
        with _progress() as progress:
            task = progress.add_task("sending", total=None)
            while group := list(islice(messages, window)):
                results = await asyncio.gather(*[send_one(producer, message) for message in group])
                for result in results:
                    print(show(result), flush=sent == 0)
                sent += len(group)
                progress.update(task, completed=sent)


def _progress() -> Progress:
    """Return a progress bar on stderr; it is drawn only if a person looks at it and stdout goes elsewhere."""
    console = Console(stderr=True)
    return Progress(console=console, transient=True, disable=not (console.is_terminal and sys.stdout.isatty() is False))


def _choose_queue(queue_id: int) -> Select:
    def select(queues: Sequence[MessageQueue], message: Message) -> MessageQueue:
        for queue in queues:
            if queue.queue_id == queue_id:
                return queue
        raise ClientError(f"topic {message.topic} has no writable queue {queue_id}")

    return select


def _result_as_json(result: SendResult) -> str:
    return json_line(send_result_fields(result))


def _result_as_line(result: SendResult) -> str:
    queue = result.queue
    return f"{result.status} {result.message_id} {queue.broker_name}:{queue.queue_id}:{result.queue_offset}"
