"""`pyromq cluster config`: the configuration of servers that run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Column, Table

from pyromq.admin import AdminClient, PlannedChange, ServerSettings, Setting
from pyromq.admin.views.maintenance_view import planned_change_fields, setting_fields
from pyromq.cli.arguments import AsJson, DryRun, Namesrv, Yes, confirm, namesrv_addresses, split_assignment
from pyromq.cli.show.console import output, remarks
from pyromq.cli.show.lines import json_line, printable
from pyromq.client.environment import environment_credentials
from pyromq.errors import ClientError
from pyromq.remoting.loop import run


def config(
    action: Annotated[
        str | None,
        typer.Argument(metavar="get|set", help="Show these keys, or change them.", show_default="show what differs"),
    ] = None,
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEY|KEY=VALUE", help="The keys, with their values for set.", show_default=False),
    ] = None,
    namesrv: Namesrv = None,
    broker: Annotated[str | None, typer.Option(help="Only the brokers of this name.", show_default="all")] = None,
    name_servers: Annotated[
        bool, typer.Option("--name-servers", help="The name servers instead of the brokers.")
    ] = False,
    everything: Annotated[bool, typer.Option("--all", help="Show settings that have their default too.")] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Show the settings of servers that run, or change them.

    Without get or set it shows what differs from the default. A change counts at once and after a restart, until the
    configuration file gets another value. Slaves are changed with their masters.

    `pyromq cluster config set fileReservedTime=48 --broker broker-a`
    """
    if name_servers and broker is not None:
        raise typer.BadParameter("either --broker or --name-servers, not both")
    if action not in (None, "get", "set"):
        raise typer.BadParameter(f"it is get or set, not {action!r}")
    if action is not None and not words:
        raise typer.BadParameter("set needs KEY=VALUE" if action == "set" else "get needs a KEY")
    where = namesrv_addresses(namesrv)
    if action == "set":
        values = dict(split_assignment(word, "a setting") for word in words or ())
        run(_set(where, values, broker, name_servers, dry_run=dry_run, ask=not yes, as_json=as_json))
        return
    servers = run(_read(where, broker, name_servers))
    _show(servers, words or (), everything=everything, as_json=as_json)


async def _read(namesrv: str, broker: str | None, name_servers: bool) -> list[ServerSettings]:
    async with AdminClient(namesrv, credentials=environment_credentials()) as admin:
        return await (admin.settings.of_name_servers() if name_servers else admin.settings.of_brokers(broker))


def _show(servers: Sequence[ServerSettings], keys: Sequence[str], *, everything: bool, as_json: bool) -> None:
    for server in servers:
        if server.silence:
            remarks().print(f"[yellow]{server.title} does not answer: {escape(server.silence)}[/]", soft_wrap=True)
    known = {key for server in servers for key in server.settings}
    for key in keys:
        if known and key not in known:
            nearest = get_close_matches(key, known, n=1)
            raise ClientError(f"there is no setting {key!r}" + (f"; did you mean {nearest[0]}?" if nearest else ""))
    shown = [
        (server, setting)
        for server in servers
        for setting in server.settings.values()
        if (setting.key in keys if keys else everything or setting.differs)
    ]
    if as_json:
        for server, setting in shown:
            print(json_line(setting_fields(server, setting)))
    elif shown:
        output().print(_table(shown))
    elif known:
        print("all settings have their default")
    if not known and servers:
        raise ClientError("no server answers")


def _table(shown: Sequence[tuple[ServerSettings, Setting]]) -> Table:
    table = Table("server", "key", Column("value", overflow="fold"), Column("default", overflow="fold"), "at run time")
    for server, setting in shown:
        change = {True: "can change", False: "", None: "?"}[setting.changeable]
        default = "?" if setting.default is None else setting.default
        cells = (server.title, setting.key, setting.value, default, change)
        table.add_row(*(escape(printable(cell)) for cell in cells))
    return table


async def _set(
    namesrv: str,
    values: Mapping[str, str],
    broker: str | None,
    name_servers: bool,
    *,
    dry_run: bool,
    ask: bool,
    as_json: bool,
) -> None:
    async with AdminClient(namesrv, credentials=environment_credentials()) as admin:
        plan = await admin.settings.plan_set(values, broker=broker, name_servers=name_servers)
        if not dry_run:
            if ask:
                confirm(f"{'; '.join(map(_line, plan.changes))}. Change that?")
            plan = await admin.settings.set(values, broker=broker, name_servers=name_servers)
    for change in plan.changes:
        print(json_line(planned_change_fields(change)) if as_json else _line(change))
    for slave, reason in plan.silent_slaves.items():
        remarks().print(f"[yellow]{slave} keeps its settings: {escape(reason)}[/]", soft_wrap=True)


def _line(change: PlannedChange) -> str:
    return printable(f"{change.server.title}: {change.key} {change.before or '(empty)'} -> {change.after or '(empty)'}")
