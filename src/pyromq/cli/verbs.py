"""The verbs of `pyromq`: which there are, and in which module each is."""

from __future__ import annotations

import importlib
from difflib import get_close_matches
from typing import Annotated, Any

import typer
from typer._completion_classes import completion_init as completion_init
from typer.core import CompletionItem  # type: ignore[attr-defined]

import pyromq
from pyromq.cli.cluster_choice import ContextOption
from pyromq.cli.examples import add_examples, examples_text
from pyromq.cli.family import FamilyGroup
from pyromq.lane import lane_text

# Verb -> module in `commands`, loaded when the verb is used: `send` needs no broker and no web server.
VERBS = {
    "up": "servers",
    "namesrv": "servers",
    "broker": "servers",
    "console": "console",
    "send": "send",
    "tail": "tail",
    "message": "message",
    "bench": "bench",
    "store": "store",
    "config": "local.config",
    "topic": "topic",
    "group": "group",
    "cluster": "cluster",
    "acl": "acl",
    "dlq": "dlq",
    "transaction": "transaction",
    "pipeline": "programs.pipeline",
    "run": "programs.run",
    "docs": "programs.docs",
    "doctor": "health.doctor",
    "debug": "health.debug",
    "top": "health.top",
    "check": "health.check",
    "context": "local.context",
    "completion": "local.completion",
}


class OutputClosed(Exception):
    """The reader of our output has gone, as in `pyromq tail orders | head`."""


class LazyVerbs(FamilyGroup):
    """Finds a verb in its module on first use."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in VERBS:
            if ctx.resilient_parsing:
                return None  # a shell asks for completions
            near = get_close_matches(cmd_name, VERBS, n=1)
            return ctx.fail(f"there is no verb {cmd_name!r}" + (f"; did you mean {near[0]}?" if near else ""))
        module = importlib.import_module(f"pyromq.cli.commands.{VERBS[cmd_name]}")
        family = typer.main.get_group(module.app)
        command = family.commands.get(cmd_name, family)
        command.name = cmd_name  # the list of verbs shows it
        add_examples(command, cmd_name)
        if ctx.resilient_parsing:
            _add_completion(command, cmd_name)
        return command

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """Complete a verb without loading all of them for a line of help."""
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        return [CompletionItem(name) for name in VERBS if name.startswith(incomplete)]

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise OutputClosed from error  # Typer would exit with 1


def _add_completion(command: Any, words: str) -> None:
    from pyromq.cli.completion import add_completion

    add_completion(command, words)


app = typer.Typer(
    cls=LazyVerbs,
    name="pyromq",
    help="Apache RocketMQ 4.9 for Python teams, with Spark inside.",
    epilog=examples_text(""),
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"pyromq {pyromq.__version__}, {lane_text()} lane")
        raise typer.Exit


@app.callback()
def _options(
    context: ContextOption = None,
    debug: Annotated[bool, typer.Option("--debug", help="Log everything, and show the traceback of an error.")] = False,
    version: Annotated[
        bool, typer.Option("-V", "--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Define the options before the verb; `main` handles --debug."""
