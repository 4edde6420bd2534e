"""`pyromq acl`: accounts of a cluster with access control, and their rights."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from pyromq.admin import AdminClient
from pyromq.admin.maintenance.accounts import AccountRights
from pyromq.admin.views.account_view import account_fields
from pyromq.cli.arguments import AsJson, DryRun, Namesrv, Yes, confirm, namesrv_addresses, split_assignment
from pyromq.cli.family import Family
from pyromq.cli.show.console import output
from pyromq.cli.show.lines import json_line
from pyromq.client.environment import environment_credentials
from pyromq.errors import ClientError
from pyromq.remoting.loop import run

app = Family(help="Accounts of a cluster with access control, and their rights.")

Key = Annotated[str, typer.Argument(metavar="ACCESS_KEY", help="The account's name.")]
Admin = Annotated[bool | None, typer.Option("--admin/--no-admin", help="Whether it may do everything.")]
Topics = Annotated[
    list[str] | None,
    typer.Option("--topic", metavar="NAME=PERM", help="DENY, PUB, SUB or PUB|SUB; NAME* is a prefix. May be repeated."),
]
Groups = Annotated[
    list[str] | None, typer.Option("--group", metavar="NAME=PERM", help="DENY or SUB; NAME* is a prefix.")
]
DefaultTopic = Annotated[str | None, typer.Option(help="For topics without an entry.", show_default="DENY")]
DefaultGroup = Annotated[str | None, typer.Option(help="For groups without an entry.", show_default="DENY")]
SecretStdin = Annotated[bool, typer.Option("--secret-stdin", help="Read the secret key from the first line of stdin.")]


@app.command("list")
def list_accounts(namesrv: Namesrv = None, as_json: AsJson = False) -> None:
    """List accounts and their rights; secrets are never shown."""
    _print(run(_listed(namesrv_addresses(namesrv), None)), as_json)


@app.command()
def show(access_key: Key, namesrv: Namesrv = None, as_json: AsJson = False) -> None:
    """Show one account."""
    _print(run(_listed(namesrv_addresses(namesrv), access_key)), as_json)


@app.command()
def add(
    access_key: Key,
    namesrv: Namesrv = None,
    admin: Annotated[bool, typer.Option("--admin", help="It may do everything.")] = False,
    topics: Topics = None,
    groups: Groups = None,
    default_topic: DefaultTopic = None,
    default_group: DefaultGroup = None,
    secret_stdin: SecretStdin = False,
    dry_run: DryRun = False,
) -> None:
    """Add an account to all brokers, with a random secret key.

    The secret key is printed once, unless it comes from stdin. Requests are not encrypted: it can be read on the way.
    """
    if dry_run:
        taken = [one for one in run(_listed(namesrv_addresses(namesrv), None)) if one.access_key == access_key]
        if taken:
            raise ClientError(f"there is an account {access_key!r} already, on {', '.join(taken[0].brokers)}")
        typer.echo(f"would add account {access_key}")
        return
    secret = _secret(secret_stdin)

    async def work() -> str:
        async with AdminClient(namesrv_addresses(namesrv), credentials=environment_credentials()) as admins:
            return await admins.accounts.add(
                access_key,
                secret,
                admin=admin,
                default_topic=default_topic or "DENY",
                default_group=default_group or "DENY",
                topics=_rights(topics),
                groups=_rights(groups),
            )

    made = run(work())
    typer.echo(f"added account {access_key}" if secret else f"added account {access_key} with secret key {made}")


@app.command("set")
def set_account(
    access_key: Key,
    namesrv: Namesrv = None,
    admin: Admin = None,
    topics: Topics = None,
    groups: Groups = None,
    default_topic: DefaultTopic = None,
    default_group: DefaultGroup = None,
    secret_stdin: SecretStdin = False,
    dry_run: DryRun = False,
) -> None:
    """Change an account on all brokers; what is not given stays.

    Entries of topics and groups are added to those that it has. `--topic NAME=` removes one.
    """
    if dry_run:
        _would("change", access_key, namesrv)
        return
    secret = _secret(secret_stdin)

    async def work() -> None:
        async with AdminClient(namesrv_addresses(namesrv), credentials=environment_credentials()) as admins:
            await admins.accounts.set(
                access_key,
                secret_key=secret,
                admin=admin,
                default_topic=default_topic,
                default_group=default_group,
                topics=_rights(topics),
                groups=_rights(groups),
            )

    run(work())
    typer.echo(f"changed account {access_key}")


@app.command()
def remove(access_key: Key, namesrv: Namesrv = None, dry_run: DryRun = False, yes: Yes = False) -> None:
    """Remove an account from all brokers; its connections are closed."""
    if dry_run:
        _would("remove", access_key, namesrv)
        return
    run(_listed(namesrv_addresses(namesrv), access_key))  # it is an error if there is none
    if not yes:
        confirm(f"Remove the account {access_key}? Its clients are refused at once.")

    async def work() -> None:
        async with AdminClient(namesrv_addresses(namesrv), credentials=environment_credentials()) as admins:
            await admins.accounts.remove(access_key)

    run(work())
    typer.echo(f"removed account {access_key}")


def _would(change: str, access_key: str, namesrv: str | None) -> None:
    """Say what would be done to an account; raise ClientError if there is none."""
    for account in run(_listed(namesrv_addresses(namesrv), access_key)):
        typer.echo(f"would {change} account {access_key} on {', '.join(account.brokers)}")


async def _listed(namesrv: str, access_key: str | None) -> Sequence[AccountRights]:
    async with AdminClient(namesrv, credentials=environment_credentials()) as admin:
        return await (admin.accounts.list() if access_key is None else admin.accounts.get(access_key))


def _rights(entries: list[str] | None) -> dict[str, str] | None:
    return None if entries is None else dict(split_assignment(entry) for entry in entries)


def _secret(from_stdin: bool) -> str | None:
    if not from_stdin:
        return None
    secret = sys.stdin.readline().rstrip("\n")
    if not secret:
        raise typer.BadParameter("stdin has no secret key", param_hint="--secret-stdin")
    return secret


def _print(accounts: Iterable[AccountRights], as_json: bool) -> None:
    if as_json:
        for account in accounts:
            print(json_line(account_fields(account)))
        return
    accounts = list(accounts)
    if not accounts:
        print("there are no accounts")
        return
    table = Table("access key", "admin", "topics", "groups", "other topics", "other groups", "brokers")
    for account in accounts:
        cells = (
            account.access_key,
            "yes" if account.admin else "no",
            "\n".join(f"{name}={permission}" for name, permission in account.topics.items()),
            "\n".join(f"{name}={permission}" for name, permission in account.groups.items()),
            account.default_topic,
            account.default_group,
            "\n".join(account.brokers),
        )
        table.add_row(*map(escape, cells))
    output().print(table)
