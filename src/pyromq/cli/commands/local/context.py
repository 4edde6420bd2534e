"""`pyromq context`: named clusters, for the commands to come or for one of them."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Column, Table

from pyromq.admin.contexts import COLOURS, CONTEXT_VARIABLE, ClusterContext, Contexts, chosen_context
from pyromq.admin.views.context_view import context_fields
from pyromq.cli.arguments import AsJson, DryRun, Yes, confirm
from pyromq.cli.family import Family
from pyromq.cli.show.console import output
from pyromq.cli.show.lines import json_line
from pyromq.errors import ClientError, PyroMQError
from pyromq.remoting.tls.client_tls import Tls

Name = Annotated[str, typer.Argument(metavar="NAME", help="The context.")]

app = Family(help="Named clusters: address, account, colour, confirm before writes.")


@app.command()
def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What to call it.")],
    address: Annotated[str, typer.Option("-n", "--namesrv", help="Its name servers, host:port;host:port.")],
    access_key: Annotated[
        str, typer.Option(help="The account; its secret key is asked for.", show_default="none")
    ] = "",
    secret_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Read the secret key from this file; - is standard input.")
    ] = None,
    secret_env: Annotated[
        str | None, typer.Option(metavar="VARIABLE", help="Take the secret key from this environment variable.")
    ] = None,
    tls: Annotated[bool, typer.Option("--tls", help="Speak TLS; the options below imply it.")] = False,
    tls_ca: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Who may sign its certificates, PEM.", show_default="the system")
    ] = None,
    tls_cert: Annotated[Path | None, typer.Option(metavar="FILE", help="The certificate to show, PEM.")] = None,
    tls_key: Annotated[Path | None, typer.Option(metavar="FILE", help="Its key, PEM.")] = None,
    colour: Annotated[
        str, typer.Option(help=f"Colour of its name in questions: {', '.join(COLOURS)}.", show_default="none")
    ] = "",
    ask: Annotated[bool, typer.Option("--confirm", help="Ask before every command that changes something.")] = False,
    use: Annotated[bool, typer.Option("--use", help="Choose it for the commands to come.")] = False,
    replace: Annotated[bool, typer.Option("--replace", help="Replace the context that has this name.")] = False,
) -> None:
    """Add a context.

    The file is `$XDG_CONFIG_HOME/pyromq/contexts.json`, and only you can read it.
    """
    contexts = Contexts()
    secret = _secret(access_key, secret_file, secret_env)
    encrypted = _tls(tls_ca, tls_cert, tls_key) if tls or tls_ca or tls_cert else None
    made = ClusterContext(
        namesrv=address, access_key=access_key, secret_key=secret, tls=encrypted, colour=colour, confirm=ask
    )
    contexts.add(name, made, replace=replace)
    if use:
        contexts.use(name)
    print(f"context {name} added" + (", and chosen" if use else f"; `pyromq context use {name}` chooses it"))


def _tls(*files: Path | None) -> Tls:
    """Return how to speak TLS; paths are kept as absolute ones, because a context is used in any directory."""
    ca_file, cert_file, key_file = ("" if file is None else str(file.absolute()) for file in files)
    made = Tls(ca_file=ca_file, cert_file=cert_file, key_file=key_file)
    made.context()
    return made


def _secret(access_key: str, file: Path | None, variable: str | None) -> str:
    """Return the secret key of an account: it is never an option, which every user of the machine could read."""
    if not access_key:
        if file is not None or variable is not None:
            raise typer.BadParameter("--secret-file and --secret-env belong to --access-key")
        return ""
    if file is not None and variable is not None:
        raise typer.BadParameter("either --secret-file or --secret-env, not both")
    if variable is not None:
        secret = os.environ.get(variable, "")
        origin = f"the environment variable {variable}"
    elif file is not None:
        secret = sys.stdin.readline() if str(file) == "-" else file.read_text()
        origin = "standard input" if str(file) == "-" else str(file)
    elif sys.stdin.isatty():
        secret = typer.prompt(f"Secret key of {access_key}", hide_input=True, err=True)
        origin = "the answer"
    else:
        raise typer.BadParameter("there is no terminal to ask for the secret key: use --secret-file or --secret-env")
    if not secret.strip():
        raise ClientError(f"{origin} has no secret key")
    return secret.strip()


@app.command()
def use(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="The context.", show_default=False)] = None,
    none: Annotated[bool, typer.Option("--none", help="Choose no context.")] = False,
) -> None:
    """Choose the context for the commands to come."""
    if none == (name is not None):
        raise typer.BadParameter("give the name of a context, or --none")
    contexts = Contexts()
    contexts.use(name)
    print("no context is chosen" if name is None else f"context {name} is chosen: {contexts.get(name).namesrv}")
    if os.environ.get(CONTEXT_VARIABLE):
        print(f"! {CONTEXT_VARIABLE} is set, and wins", file=sys.stderr)


@app.command("list")
def list_contexts(as_json: AsJson = False) -> None:
    """List all contexts."""
    contexts, current = Contexts(), _current()
    if as_json:
        for name, context in contexts.all.items():
            print(json_line(context_fields(name, context, is_current=name == current)))
        return
    if not contexts.all:
        print("there are no contexts; `pyromq context add NAME -n HOST:PORT` adds one")
        return
    table = Table("", "context", Column("name servers", overflow="fold"), "account", "before writes")
    for name, context in contexts.all.items():
        shown = f"[{context.colour}]{escape(name)}[/]" if context.colour else escape(name)
        cells = escape(context.namesrv), escape(context.access_key or "-"), "asks" if context.confirm else "-"
        table.add_row("*" if name == current else "", shown, *cells)
    output().print(table)


def _current() -> str | None:
    """Return the name of the context that a command would use now; one that does not exist is none."""
    try:
        found = chosen_context()
    except PyroMQError:
        return None
    return None if found is None else found[0]


@app.command()
def show(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="The context.", show_default="the chosen one")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show a context; never its secret key."""
    found = chosen_context(name)
    if found is None:
        raise ClientError("no context is chosen; `pyromq context use NAME` chooses one")
    fields = context_fields(*found, is_current=found[0] == _current())
    if as_json:
        print(json_line(fields))
        return
    for key, value in fields.items():
        print(f"{key.replace('_', ' ')}: {_text(value)}")


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "-" if value is None else str(value)


@app.command()
def remove(name: Name, dry_run: DryRun = False, yes: Yes = False) -> None:
    """Remove a context, with its secret key."""
    contexts = Contexts()
    context = contexts.get(name)
    if dry_run:
        print(f"context {name} would be removed: {context.namesrv}")
        return
    if not yes:
        confirm(f"Remove the context {name} ({context.namesrv})?")
    contexts.remove(name)
    print(f"context {name} removed")
