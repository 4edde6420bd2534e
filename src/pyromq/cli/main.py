"""The `pyromq` command: the entry point, which finds the module of a verb."""

from __future__ import annotations

import errno
import importlib
import logging
import os
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import pyromq
from pyromq.cli.server_settings import start_logging
from pyromq.errors import PyroMQError

# Verb -> module in `commands`, loaded when the verb is used: `send` needs no broker and no web server.
VERBS = {
    "up": "servers",
    "namesrv": "servers",
    "broker": "servers",
    "send": "send",
    "tail": "tail",
    "message": "message",
    "bench": "bench",
    "store": "store",
    "topic": "topic",
    "group": "group",
    "dlq": "dlq",
    "transaction": "transaction",
    "pipeline": "pipeline",
}


class LazyVerbs(TyperGroup):
    """Finds a verb in its module on first use."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in VERBS:
            return None
        module = importlib.import_module(f"pyromq.cli.commands.{VERBS[cmd_name]}")
        family = typer.main.get_group(module.app)
        command = family.commands.get(cmd_name, family)
        command.name = cmd_name  # the list of verbs shows it
        return command


app = typer.Typer(
    cls=LazyVerbs,
    name="pyromq",
    help="Apache RocketMQ 4.9 for Python teams, with Spark inside.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"pyromq {pyromq.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[bool, typer.Option("--version", callback=_show_version, is_eager=True)] = False,
) -> None:
    """Define the options before the verb; `main` handles --debug."""


def main() -> None:
    """Run the command line; a failure is one line on stderr and exit code 1."""
    debug = "--debug" in sys.argv
    if debug:
        start_logging(debug)
    logging.getLogger("pyromq").addHandler(logging.NullHandler())  # only servers log; see start_logging
    try:
        app()
    except BrokenPipeError:
        # The reader of our output has closed the pipe (`pyromq tail ... | head`): no error, here or at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (PyroMQError, OSError) as error:
        if debug:
            raise
        typer.echo(f"pyromq: {describe(error)}", err=True)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)


def describe(error: BaseException) -> str:
    """Return one line that says what is wrong."""
    if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
        return f"{error.strerror or error}; choose another port or stop the server that uses it"
    text = " ".join(str(error).split())
    return text or type(error).__name__


if __name__ == "__main__":
    main()
