"""`pyromq transaction`: list and resume transactions without a known end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated

import typer

from pyromq.admin import AdminClient, HalfMessage
from pyromq.admin.views.pending_view import half_message_fields
from pyromq.cli.arguments import AsJson, DryRun, Namesrv, namesrv_addresses
from pyromq.cli.family import Family
from pyromq.cli.show.console import output
from pyromq.cli.show.lines import json_line, report_line
from pyromq.cli.show.transaction_table import half_messages_table
from pyromq.client.environment import environment_credentials
from pyromq.errors import BrokerError, ClientError
from pyromq.remoting.loop import run

Group = Annotated[str | None, typer.Option(help="Only those of this producer group.")]
Ids = Annotated[list[str] | None, typer.Argument(metavar="ID", help="Message ids, as `list` shows them.")]

app = Family(help="Transactions: messages whose local transaction has not ended.")


@app.command("list")
def list_transactions(
    namesrv: Namesrv = None,
    group: Group = None,
    given_up: Annotated[bool, typer.Option("--given-up", help="Only those that brokers gave up.")] = False,
    pending: Annotated[bool, typer.Option("--pending", help="Only those that brokers still ask about.")] = False,
    as_json: AsJson = False,
) -> None:
    """List half messages of transactions that are pending or were given up."""
    kinds = (not given_up or pending, not pending or given_up)
    found = run(_listed(namesrv_addresses(namesrv), group, *kinds))
    if as_json:
        for half in found:
            print(json_line(half_message_fields(half)))
    else:
        output().print(half_messages_table(found) if found else "every transaction has ended")


@app.command()
def resume(
    ids: Ids = None,
    namesrv: Namesrv = None,
    group: Group = None,
    everything: Annotated[bool, typer.Option("--all", help="All that were given up.")] = False,
    dry_run: DryRun = False,
) -> None:
    """Let brokers ask producers again about transactions that were given up."""
    if everything == bool(ids):
        raise typer.BadParameter("give message ids or --all")
    wanted = None if everything else set(ids or ())
    missing = run(_resume(namesrv_addresses(namesrv), wanted, group, dry_run=dry_run))
    if missing:
        raise ClientError(f"no given-up transaction has the id {', '.join(sorted(missing))}")


async def _listed(namesrv: str, group: str | None, pending: bool, given_up: bool) -> list[HalfMessage]:
    async with AdminClient(namesrv, credentials=environment_credentials()) as admin:
        waiting = await _of(group, admin.transactions.pending()) if pending else []
        return waiting + (await _of(group, admin.transactions.given_up()) if given_up else [])


async def _of(group: str | None, halves: AsyncIterator[HalfMessage]) -> list[HalfMessage]:
    return [half async for half in halves if group is None or half.group == group]


async def _resume(namesrv: str, wanted: set[str] | None, group: str | None, *, dry_run: bool) -> set[str]:
    """Resume the wanted ones, or all if that is None; return the ids that were not found."""
    missing = set(wanted or ())
    async with AdminClient(namesrv, credentials=environment_credentials()) as admin:
        for half in await _of(group, admin.transactions.given_up()):
            ids = {half.message.message_id, half.message.offset_message_id}
            if wanted is not None and not ids & wanted:
                continue
            missing -= ids
            await _resume_one(admin, half, dry_run)
    return missing


async def _resume_one(admin: AdminClient, half: HalfMessage, dry_run: bool) -> None:
    name = f"{half.message.message_id} for topic {half.topic}"
    if dry_run:
        report_line(f"would resume {name}")
        return
    try:
        await admin.transactions.resume(half)
    except BrokerError as error:
        report_line(f"not resumed {name}: {error.remark}")
    else:
        report_line(f"resumed {name}")
