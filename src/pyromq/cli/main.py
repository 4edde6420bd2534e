"""The `pyromq` command: one entry point, every family of verbs in a module of its own."""

from __future__ import annotations

import errno
import os
import sys
from importlib.metadata import version as installed_version
from typing import Annotated

import typer

from pyromq.cli.commands import bench, messages, servers
from pyromq.errors import PyroMQError

app = typer.Typer(
    name="pyromq",
    help="Apache RocketMQ 4.9 for Python teams, with Spark inside.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("up")(servers.up)
app.command("namesrv")(servers.namesrv)
app.command("broker")(servers.broker)
app.command("send")(messages.send)
app.command("tail")(messages.tail)
app.add_typer(bench.app, name="bench")


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"pyromq {installed_version('pyromq')}")
        raise typer.Exit


@app.callback()
def _options(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[bool, typer.Option("--version", callback=_show_version, is_eager=True)] = False,
) -> None:
    """Hold the options that stand before every verb; `main` looks at --debug."""


def main() -> None:
    """Run the command line; a failure is one line on stderr and exit code 1."""
    try:
        app()
    except BrokenPipeError:
        # Whoever read our output has seen enough (`pyromq tail ... | head`): no error, and no second one at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (PyroMQError, OSError) as error:
        if "--debug" in sys.argv:
            raise
        typer.echo(f"pyromq: {describe(error)}", err=True)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)


def describe(error: BaseException) -> str:
    """Return one line that tells a person what is wrong."""
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        return f"{error.strerror or error}; choose another port or stop the server that has it"
    text = " ".join(str(error).split())
    return text or type(error).__name__


if __name__ == "__main__":
    main()
