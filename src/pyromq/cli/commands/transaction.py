"""`pyromq transaction`: transactions whose end no broker knows, listed and resumed."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from pyromq.admin import AdminClient, HalfMessage
from pyromq.admin.views.message_view import iso_time, message_fields
from pyromq.cli.server_settings import namesrv_addresses
from pyromq.client.environment import environment_credentials
from pyromq.errors import BrokerError, ClientError
from pyromq.remoting.loop import run

Namesrv = Annotated[str | None, typer.Option("-n", "--namesrv", help="Name servers, host:port;host:port.")]
Group = Annotated[str | None, typer.Option(help="Only those of this producer group.")]
Ids = Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="Message ids, as `list` shows them.")]
AsJson = Annotated[bool, typer.Option("--json", help="JSON lines.")]

app = typer.Typer(help="Transactions: messages whose local transaction has not ended.", no_args_is_help=True)


@app.command("list")
def list_transactions(
    namesrv: Namesrv = None,
    group: Group = None,
    given_up: Annotated[bool, typer.Option("--given-up", help="Only those that were given up.")] = False,
    pending: Annotated[bool, typer.Option("--pending", help="Only those that are still asked about.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show half messages that wait for their end, and those whose producers did not know it when they were asked."""
    kinds = (not given_up or pending, not pending or given_up)
    found = run(_listed(namesrv_addresses(namesrv), group, *kinds))
    if as_json:
        for half in found:
            print(json.dumps(_fields(half), ensure_ascii=False))
    else:
        Console().print(_table(found) if found else "every transaction has ended")


@app.command()
def resume(
    ids: Ids = None,
    namesrv: Namesrv = None,
    group: Group = None,
    everything: Annotated[bool, typer.Option("--all", help="All that were given up.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show which would be resumed, and do nothing.")] = False,
) -> None:
    """Have producers asked again about transactions that were given up."""
    if everything == bool(ids):
        raise typer.BadParameter("say which: message ids, or --all")
    wanted = None if everything else set(ids or ())
    missing = run(_resume(namesrv_addresses(namesrv), wanted, group, dry_run=dry_run))
    if missing:
        raise ClientError(f"no transaction that was given up has the id {', '.join(sorted(missing))}")


async def _listed(namesrv: str, group: str | None, pending: bool, given_up: bool) -> list[HalfMessage]:
    async with AdminClient(namesrv, credentials=environment_credentials()) as admin:
        waiting = await _of(group, admin.transactions.pending()) if pending else []
        return waiting + (await _of(group, admin.transactions.given_up()) if given_up else [])


async def _of(group: str | None, halves: AsyncIterator[HalfMessage]) -> list[HalfMessage]:
    return [half async for half in halves if group is None or half.group == group]


async def _resume(namesrv: str, wanted: set[str] | None, group: str | None, *, dry_run: bool) -> set[str]:
    """Resume the wanted ones, all if that is None; return the ids that were not found."""
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
        print(f"would resume {name}")
        return
    try:
        await admin.transactions.resume(half)
    except BrokerError as error:
        print(f"not resumed {name}: {error.remark}")
    else:
        print(f"resumed {name}")


def _fields(half: HalfMessage) -> dict[str, object]:
    return message_fields(half.message) | {
        "topic": half.topic,
        "state": _state(half),
        "producer_group": half.group,
        "checks": half.checks,
    }


def _table(halves: list[HalfMessage]) -> Table:
    table = Table("state", "message id", "topic", "keys", "producer group", "born", "checks", "broker")
    for half in halves:
        message = half.message
        cells = (
            _state(half),
            message.message_id,
            half.topic,
            ",".join(message.keys),
            half.group,
            iso_time(message.born_timestamp_ms),
            str(half.checks),
            message.broker_name or "",
        )
        table.add_row(*map(escape, cells))
    return table


def _state(half: HalfMessage) -> str:
    return "given up" if half.given_up else "pending"
