"""`pyromq cluster kv`: the KV settings of the name servers."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Column, Table

from pyromq.admin import AdminClient, KvListing, KvSetting
from pyromq.admin.views.maintenance_view import key_value_fields
from pyromq.cli.arguments import AsJson, DryRun, Namesrv, Yes, confirm, namesrv_addresses
from pyromq.cli.cluster_choice import is_protected
from pyromq.cli.family import Family
from pyromq.cli.show.console import output, remarks
from pyromq.cli.show.lines import json_line, printable
from pyromq.client.environment import environment_credentials
from pyromq.protocol.names import ORDER_CONFIG_NAMESPACE
from pyromq.remoting.loop import run

Namespace = Annotated[str, typer.Argument(metavar="NAMESPACE", help="The namespace.")]
Key = Annotated[str, typer.Argument(metavar="KEY", help="The key.")]

app = Family(help="KV settings: values that name servers keep by namespace and key.")


@app.command("list")
def list_values(
    namespace: Annotated[
        str, typer.Argument(metavar="NAMESPACE", help="The namespace; by default that of order settings.")
    ] = ORDER_CONFIG_NAMESPACE,
    namesrv: Namesrv = None,
    as_json: AsJson = False,
) -> None:
    """List all values of a namespace, and name servers that have others."""
    listing = run(_list(namesrv_addresses(namesrv), namespace))
    if as_json:
        for value in listing.values:
            print(json_line(key_value_fields(value)))
    elif not listing.values:
        print(f"the namespace {printable(namespace)} has no values")
    else:
        table = Table(Column("key", overflow="fold"), Column("value", overflow="fold"))
        for value in listing.values:
            table.add_row(escape(printable(value.key)), escape(printable(value.value)))
        output().print(table)
    for value in listing.values:
        _show_others(value)
    for address, reason in listing.silent.items():
        remarks().print(f"[yellow]name server {address} does not answer: {escape(reason)}[/]", soft_wrap=True)


async def _list(namesrv: str, namespace: str) -> KvListing:
    async with AdminClient(namesrv, credentials=environment_credentials()) as admin:
        return await admin.kv.list(namespace)


def _show_others(value: KvSetting) -> None:
    for address, other in value.others.items():
        has = "has no value" if other is None else f"has {printable(other)!r}"
        text = f"{printable(value.key)}: name server {address} {has}; `cluster kv set` makes them equal"
        remarks().print(f"[yellow]! {escape(text)}[/]", soft_wrap=True)


@app.command()
def get(namespace: Namespace, key: Key, namesrv: Namesrv = None, as_json: AsJson = False) -> None:
    """Show a value."""
    value = run(_get(namesrv_addresses(namesrv), namespace, key))
    print(json_line(key_value_fields(value)) if as_json else printable(value.value))
    _show_others(value)


async def _get(namesrv: str, namespace: str, key: str) -> KvSetting:
    async with AdminClient(namesrv, credentials=environment_credentials()) as admin:
        return await admin.kv.get(namespace, key)


@app.command("set")
def set_value(
    namespace: Namespace,
    key: Key,
    value: Annotated[str, typer.Argument(metavar="VALUE", help="The value.")],
    namesrv: Namesrv = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Set a value at all name servers."""
    run(_set(namesrv_addresses(namesrv), namespace, key, value, dry_run=dry_run, ask=not yes))


async def _set(namesrv: str, namespace: str, key: str, value: str, *, dry_run: bool, ask: bool) -> None:
    async with AdminClient(namesrv, credentials=environment_credentials()) as admin:
        before = next((one.value for one in (await admin.kv.list(namespace)).values if one.key == key), None)
        line = f"{namespace} {key}: {'no value' if before is None else repr(before)} -> {value!r}"
        if not dry_run:
            if ask and (is_protected() or before not in (None, value)):
                confirm(f"{line}. Change that?")
            await admin.kv.set(namespace, key, value)
    print(printable(line))


@app.command()
def delete(namespace: Namespace, key: Key, namesrv: Namesrv = None, dry_run: DryRun = False, yes: Yes = False) -> None:
    """Delete a value at all name servers."""
    run(_delete(namesrv_addresses(namesrv), namespace, key, dry_run=dry_run, ask=not yes))


async def _delete(namesrv: str, namespace: str, key: str, *, dry_run: bool, ask: bool) -> None:
    async with AdminClient(namesrv, credentials=environment_credentials()) as admin:
        value = await admin.kv.get(namespace, key)
        if not dry_run:
            if ask:
                confirm(f"Delete {namespace} {key}, which is {value.value!r}?")
            await admin.kv.delete(namespace, key)
    print(printable(f"{namespace} {key} {'would be deleted' if dry_run else 'deleted'}: {value.value!r}"))
