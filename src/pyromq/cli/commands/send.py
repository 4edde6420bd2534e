"""`pyromq send` and `pyromq tail`: one message in, a topic followed."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from pyromq.admin.views.message_view import message_as_json, message_as_line
from pyromq.cli.arguments import parse_duration, parse_time
from pyromq.cli.server_settings import namesrv_addresses, split_assignment
from pyromq.client.consume.start_from import StartFrom
from pyromq.client.consume.subscriptions import Expression, Sql
from pyromq.client.environment import environment_credentials
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.client.net.publish_info import Select
from pyromq.client.poll.lite_pull_consumer import LitePullConsumer
from pyromq.client.send.producer import Producer
from pyromq.client.send_result import SendResult
from pyromq.errors import ClientError, NoRoute, TopicNotFound
from pyromq.protocol.messages.message import Message, MessageExt, MessageQueue
from pyromq.protocol.names import TOOLS_CONSUMER_GROUP
from pyromq.protocol.tag_filter import EVERYTHING
from pyromq.remoting.loop import run

Namesrv = Annotated[str | None, typer.Option("-n", "--namesrv", help="Name servers, host:port;host:port.")]
AsJson = Annotated[bool, typer.Option("--json", help="JSON lines.")]

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
    delay: Annotated[str | None, typer.Option(help="Deliver after this time: 10s, 30m, 2h, 1d12h.")] = None,
    at: Annotated[str | None, typer.Option(help="Deliver at this time (ISO 8601).")] = None,
    order_key: Annotated[str | None, typer.Option(help="Messages with the same key go to the same queue.")] = None,
    queue: Annotated[int | None, typer.Option(min=0, help="Send to this queue.")] = None,
    file: Annotated[Path | None, typer.Option(help="Take the body from a file.")] = None,
    count: Annotated[int, typer.Option(min=1, help="Send it so many times.")] = 1,
    as_json: AsJson = False,
) -> None:
    """Send a message, a file, or each line of stdin."""
    if delay is not None and at is not None:
        raise typer.BadParameter("give --delay or --at, one of them")
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
        raise typer.BadParameter("give a BODY or --file, one of them")
    if file is not None:
        yield file.read_bytes()
    elif body == "-":
        yield from (line.rstrip(b"\r\n") for line in sys.stdin.buffer)
    elif body is not None:
        yield body.encode()


async def _send_all(namesrv: str, messages: Iterator[Message], send_one: SendOne, window: int, as_json: bool) -> None:
    sent = 0
    async with Producer(group="pyromq-cli", namesrv=namesrv, credentials=environment_credentials()) as producer:
        with _progress() as progress:
            task = progress.add_task("sending", total=None)
            while group := list(islice(messages, window)):
                results = await asyncio.gather(*[send_one(producer, message) for message in group])
                for result in results:
                    print(_result_as_json(result) if as_json else _result_as_line(result), flush=sent == 0)
                sent += len(group)
                progress.update(task, completed=sent)


def _progress() -> Progress:
    """Return a bar on stderr, where people look and programs do not."""
    console = Console(stderr=True)
    return Progress(console=console, transient=True, disable=not (console.is_terminal and sys.stdout.isatty() is False))


def _choose_queue(queue_id: int) -> Select:
    def select(queues: Sequence[MessageQueue], message: Message) -> MessageQueue:
        for queue in queues:
            if queue.queue_id == queue_id:
                return queue
        raise ClientError(f"topic {message.topic} has no queue {queue_id} that can be written")

    return select


def _result_as_json(result: SendResult) -> str:
    return json.dumps(
        {
            "status": result.status,
            "message_id": result.message_id,
            "offset_message_id": result.offset_message_id,
            "topic": result.queue.topic,
            "broker_name": result.queue.broker_name,
            "queue_id": result.queue.queue_id,
            "queue_offset": result.queue_offset,
        }
    )


def _result_as_line(result: SendResult) -> str:
    queue = result.queue
    return f"{result.status} {result.message_id} {queue.broker_name}:{queue.queue_id}:{result.queue_offset}"


@app.command()
def tail(
    topic: Annotated[str, typer.Argument(help="Topic to follow.")],
    namesrv: Namesrv = None,
    tag: Annotated[str | None, typer.Option(help="Tags to keep: 'a || b'.", show_default="*")] = None,
    sql: Annotated[str | None, typer.Option(help='Properties to keep, in SQL92: "amount > 10".')] = None,
    start: Annotated[str, typer.Option("--from", help="earliest, latest, or a time (ISO 8601).")] = "latest",
    group: Annotated[str | None, typer.Option(help="Continue, and keep, this group's offsets.")] = None,
    count: Annotated[int, typer.Option(min=0, help="Stop after so many messages (0: never).")] = 0,
    as_json: AsJson = False,
) -> None:
    """Follow a topic, by default without any group's offsets."""
    if tag is not None and sql is not None:
        raise typer.BadParameter("give --tag or --sql, one of them")
    wanted = Sql(sql) if sql is not None else tag or EVERYTHING
    show = message_as_json if as_json else message_as_line
    with suppress(KeyboardInterrupt):
        run(_tail(namesrv_addresses(namesrv), topic, wanted, parse_start(start), group, count, show))


def parse_start(text: str) -> StartFrom:
    """Return where to start: a word, or a time; a time without a zone is local."""
    match text:
        case "earliest" | "latest" | "first" | "last":
            return text
    return parse_time(text, "--from", "earliest, latest or ")


async def _tail(
    namesrv: str,
    topic: str,
    wanted: Expression,
    start: StartFrom,
    group: str | None,
    count: int,
    show: Callable[[MessageExt], str],
) -> None:
    async with await BrokerApi.connect(namesrv, credentials=environment_credentials()) as api:
        try:
            await api.route(topic)  # a consumer would wait for a topic that does not exist; here it is a mistake
        except NoRoute:
            raise TopicNotFound(f"no broker has the topic {topic!r}") from None
    consumer = _member(namesrv, topic, wanted, start, group) if group else _onlooker(namesrv, start)
    async with consumer:
        if group is None:
            await consumer.assign(await consumer.queues(topic), wanted)
        seen = 0
        async for message in consumer:
            print(show(message), flush=True)
            seen += 1
            if seen == count:
                return


def _member(namesrv: str, topic: str, wanted: Expression, start: StartFrom, group: str) -> LitePullConsumer:
    return LitePullConsumer(
        group=group,
        namesrv=namesrv,
        subscriptions={topic: wanted},
        start_from=start,
        credentials=environment_credentials(),
    )


def _onlooker(namesrv: str, start: StartFrom) -> LitePullConsumer:
    return LitePullConsumer(
        group=TOOLS_CONSUMER_GROUP,
        namesrv=namesrv,
        start_from=start,
        auto_commit=False,
        offset_store=_NoOffsets(),
        credentials=environment_credentials(),
    )


class _NoOffsets:
    """Offsets that nobody keeps: every look begins where the caller says."""

    async def load(self, queue: MessageQueue) -> int | None:
        return None

    async def commit(self, queue: MessageQueue, offset: int) -> None:
        pass
