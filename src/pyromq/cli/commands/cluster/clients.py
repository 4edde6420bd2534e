"""`pyromq cluster clients`: who is connected."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from pyromq.admin import AdminClient, ClientListing
from pyromq.admin.views.cluster_view import client_fields
from pyromq.cli.arguments import AsJson, Namesrv, namesrv_addresses
from pyromq.cli.show.console import output, remarks
from pyromq.cli.show.lines import json_line, printable
from pyromq.client.environment import environment_credentials
from pyromq.remoting.loop import run


def clients(
    namesrv: Namesrv = None,
    group: Annotated[
        str | None, typer.Option(help="Only those of this group, of producers or consumers.", show_default="all")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the clients that are connected: producers, consumers, and their brokers.

    `group describe` shows more of the consumers of a group. Apache's brokers name producers from 4.9.4 on.
    """
    found = run(_list(namesrv_addresses(namesrv)))
    chosen = [one for one in found.clients if group is None or group in (*one.producer_groups, *one.consumer_groups)]
    if as_json:
        for one in chosen:
            print(json_line(client_fields(one)))
    elif not chosen:
        print("no client is connected" + ("" if group is None else f" as {printable(group)}"))
    else:
        table = Table("client", "address", "language", "version", "produces as", "consumes as", "brokers")
        for one in chosen:
            groups = (", ".join(names) for names in (one.producer_groups, one.consumer_groups, one.brokers))
            cells = (one.client_id, one.address, one.language, one.version, *groups)
            table.add_row(*(escape(printable(cell)) for cell in cells))
        output().print(table)
    for broker in found.without_producers:
        remarks().print(f"[yellow]{escape(broker)} cannot list producers: RocketMQ can from 4.9.4 on[/]")
    for broker, reason in found.silent_brokers.items():
        remarks().print(f"[yellow]{escape(broker)} does not answer: {escape(reason)}[/]", soft_wrap=True)


async def _list(namesrv: str) -> ClientListing:
    async with AdminClient(namesrv, credentials=environment_credentials()) as admin:
        return await admin.clients.list()
