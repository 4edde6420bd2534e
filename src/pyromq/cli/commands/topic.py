"""`pyromq topic`: topics, what their queues hold, and who consumes them."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from pyromq.admin import AdminClient, TopicDescription, TopicListing, TopicSummary
from pyromq.admin.views.message_view import iso_moment
from pyromq.cli.server_settings import namesrv_addresses
from pyromq.client.environment import environment_credentials
from pyromq.remoting.loop import run

Namesrv = Annotated[str | None, typer.Option("-n", "--namesrv", help="Name servers, host:port;host:port.")]
AsJson = Annotated[bool, typer.Option("--json", help="JSON lines.")]

app = typer.Typer(help="Topics: what their queues hold, and who consumes them.", no_args_is_help=True)


@app.command("list")
def list_topics(
    namesrv: Namesrv = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Retries, dead letters and RocketMQ's own topics too.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show all topics: their brokers, queues and rights."""
    listing = run(_list(namesrv_addresses(namesrv)))
    topics = [topic for topic in listing.topics if everything or topic.kind == "topic"]
    if as_json:
        for topic in topics:
            print(json.dumps(_summary_fields(topic), ensure_ascii=False))
    else:
        Console().print(_summaries(topics) if topics else "there are no topics")
    for broker, reason in listing.silent_brokers.items():
        Console(stderr=True).print(f"[yellow]{broker} does not answer: {escape(reason)}[/]", soft_wrap=True)


async def _list(namesrv: str) -> TopicListing:
    async with AdminClient(namesrv, credentials=environment_credentials()) as admin:
        return await admin.topics.list()


@app.command()
def describe(
    topic: Annotated[str, typer.Argument(help="The topic.")], namesrv: Namesrv = None, as_json: AsJson = False
) -> None:
    """Show what the queues of a topic hold, and how far the groups are that consume it."""
    found = run(_describe(namesrv_addresses(namesrv), topic))
    if as_json:
        print(json.dumps(_fields(found), ensure_ascii=False))
        return
    console = Console()
    kind = "" if found.kind == "topic" else f" ({found.kind})"
    console.print(f"[bold]{escape(topic)}[/]{kind}: {found.messages:,} messages in {len(found.queues)} queues")
    console.print(_queues(found))
    console.print(_groups(found) if found.groups else "no group consumes it")
    for finding in found.findings:
        console.print(f"[yellow]! {escape(finding)}[/]", soft_wrap=True)


async def _describe(namesrv: str, topic: str) -> TopicDescription:
    async with AdminClient(namesrv, credentials=environment_credentials()) as admin:
        return await admin.topics.describe(topic)


def _summary_fields(topic: TopicSummary) -> dict[str, Any]:
    fields = {name: getattr(topic, name) for name in topic.__struct_fields__}
    return fields | {"brokers": list(topic.brokers)}


def _fields(found: TopicDescription) -> dict[str, Any]:
    rights = ("read_queue_nums", "write_queue_nums", "perm")
    return {
        "topic": found.topic,
        "kind": found.kind,
        "messages": found.messages,
        "order": found.order,
        "settings": {at: {name: getattr(data, name) for name in rights} for at, data in found.settings.items()},
        "queues": [
            {
                **contents.queue._asdict(),
                "min_offset": contents.min_offset,
                "max_offset": contents.max_offset,
                "messages": contents.messages,
                "last_store_timestamp": iso_moment(contents.last_stored),
            }
            for contents in found.queues
        ],
        "groups": [{"group": it.group, "members": it.members, "lag": it.lag} for it in found.groups],
        "findings": list(found.findings),
        "silent_brokers": dict(found.silent_brokers),
    }


def _summaries(topics: list[TopicSummary]) -> Table:
    table = Table("topic", "kind", "brokers", "read queues", "write queues", "rights")
    for topic in topics:
        counts = str(topic.read_queues), str(topic.write_queues)
        table.add_row(escape(topic.topic), topic.kind, escape(", ".join(topic.brokers)), *counts, topic.perm)
    return table


def _queues(found: TopicDescription) -> Table:
    table = Table("broker", "queue", "first", "end", "messages", "last stored")
    for contents in found.queues:
        table.add_row(
            escape(contents.queue.broker_name),
            str(contents.queue.queue_id),
            f"{contents.min_offset:,}",
            f"{contents.max_offset:,}",
            f"{contents.messages:,}",
            iso_moment(contents.last_stored) or "",
        )
    return table


def _groups(found: TopicDescription) -> Table:
    table = Table("group", "members", "lag")
    for consumer in found.groups:
        table.add_row(escape(consumer.group), str(consumer.members), f"{consumer.lag:,}")
    return table
