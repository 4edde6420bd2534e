"""`pyromq run`: an App as a service."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from pyromq.app.running.changes import SourceChanges
from pyromq.app.running.loading import load_app
from pyromq.app.running.serving import serve
from pyromq.app.running.supervisor import CANNOT_START, WORKER_VARIABLE, Supervisor
from pyromq.cli.commands.programs.target import Target
from pyromq.cli.family import Family
from pyromq.cli.server_logs import server_command
from pyromq.client.environment import environment_credentials
from pyromq.errors import PyroMQError
from pyromq.remoting.loop import run as run_loop

app = Family()


@app.command()
@server_command
def run(
    target: Target,
    namesrv: Annotated[
        str | None,
        typer.Option("-n", "--namesrv", metavar="ADDR[;ADDR...]", help="Name servers, instead of those of the App."),
    ] = None,
    workers: Annotated[int, typer.Option(min=1, max=1000, help="Number of processes; each joins the groups.")] = 1,
    reload: Annotated[bool, typer.Option(help="Start again when a Python file below this directory changes.")] = False,
) -> None:
    """Run the consumers of an App.

    SIGTERM and Ctrl-C finish the messages in hand, commit, leave the groups and exit with 0. A worker that dies is
    replaced, and its messages are redelivered.
    """
    worker = os.environ.get(WORKER_VARIABLE)
    if worker is None and (workers > 1 or reload):
        changes = SourceChanges(Path.cwd()) if reload else None
        command = [sys.executable, "-m", "pyromq.cli.main", *sys.argv[1:]]
        raise typer.Exit(Supervisor(command, workers, changes).run())
    try:
        loaded = load_app(target)
        loaded.use_cluster(namesrv, environment_credentials())
        run_loop(serve(loaded, typer.echo, supervised=worker is not None))
    except PyroMQError as error:
        if worker is None:
            raise
        typer.echo(f"pyromq: worker {worker}: {error}", err=True)
        raise typer.Exit(CANNOT_START) from None
