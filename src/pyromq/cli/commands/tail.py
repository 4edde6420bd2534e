"""`pyromq tail`: follow a topic."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Annotated

import typer

from pyromq.admin.views.message_view import message_fields
from pyromq.cli.arguments import AsJson, Namesrv, namesrv_addresses, parse_time
from pyromq.cli.family import Family
from pyromq.cli.show.lines import json_line, message_line
from pyromq.client.consume.start_from import StartFrom
from pyromq.client.consume.subscriptions import Expression, Sql
from pyromq.client.environment import environment_credentials
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.client.poll.lite_pull_consumer import LitePullConsumer
from pyromq.errors import NoRoute, TopicNotFound
from pyromq.protocol.messages.message import MessageExt, MessageQueue
from pyromq.protocol.names import TOOLS_CONSUMER_GROUP
from pyromq.protocol.tag_filter import EVERYTHING
from pyromq.remoting.loop import run

app = Family()


@app.command()
def tail(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Topic to follow.")],
    namesrv: Namesrv = None,
    tag: Annotated[str | None, typer.Option(help="Only these tags: 'a || b'.", show_default="*")] = None,
    sql: Annotated[str | None, typer.Option(help='Only matching properties, in SQL92: "amount > 10".')] = None,
    start: Annotated[
        str, typer.Option("--from", help="Where to start: earliest, latest, or a time (ISO 8601).")
    ] = "latest",
    group: Annotated[str | None, typer.Option(help="Continue from this group's offsets, and commit them.")] = None,
    count: Annotated[int, typer.Option(min=0, help="Stop after this many messages (0: never).")] = 0,
    as_json: AsJson = False,
) -> None:
    """Follow a topic, without a group unless you name one."""
    if tag is not None and sql is not None:
        raise typer.BadParameter("give --tag or --sql, not both")
    wanted = Sql(sql) if sql is not None else tag or EVERYTHING
    show = _message_json if as_json else message_line
    with suppress(KeyboardInterrupt):
        run(_tail(namesrv_addresses(namesrv), topic, wanted, parse_start(start), group, count, show))


def _message_json(message: MessageExt) -> str:
    return json_line(message_fields(message))


def parse_start(text: str) -> StartFrom:
    """Return where to start: a word or a time; a time without a zone is local."""
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
            await api.route(topic)  # a consumer would wait for the topic; here a missing topic is a mistake
        except NoRoute:
            raise TopicNotFound(f"no broker has the topic {topic!r}") from None
    consumer = _member(namesrv, topic, wanted, start, group) if group else _reader(namesrv, start)
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


def _reader(namesrv: str, start: StartFrom) -> LitePullConsumer:
    return LitePullConsumer(
        group=TOOLS_CONSUMER_GROUP,
        namesrv=namesrv,
        start_from=start,
        auto_commit=False,
        offset_store=_NoOffsets(),
        credentials=environment_credentials(),
    )


class _NoOffsets:
    """Keeps no offsets: every run begins where the caller says."""

    async def load(self, queue: MessageQueue) -> int | None:
        return None

    async def commit(self, queue: MessageQueue, offset: int) -> None:
        pass
