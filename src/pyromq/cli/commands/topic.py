"""`pyromq topic`: list and describe topics."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape

from pyromq.admin import AdminClient, TopicDescription, TopicListing
from pyromq.admin.views.topic_view import topic_fields, topic_summary_fields
from pyromq.cli.arguments import AsJson, Namesrv, namesrv_addresses
from pyromq.cli.family import Family
from pyromq.cli.show.console import output, remarks
from pyromq.cli.show.lines import json_line
from pyromq.cli.show.topic_tables import topic_groups_table, topic_queues_table, topics_as_table
from pyromq.client.environment import environment_credentials
from pyromq.remoting.loop import run

app = Family(help="Topics: what their queues hold, and who consumes them.")


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
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="The topic.")],
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
    console.print(f"[bold]{escape(topic)}[/]{kind}: {found.messages:,} messages in {len(found.queues)} queues")
    console.print(topic_queues_table(found))
    console.print(topic_groups_table(found) if found.groups else "no group consumes it")
    for finding in found.findings:
        console.print(f"[yellow]! {escape(finding)}[/]", soft_wrap=True)


async def _describe(namesrv: str, topic: str) -> TopicDescription:
    async with AdminClient(namesrv, credentials=environment_credentials()) as admin:
        return await admin.topics.describe(topic)
