"""Which cluster a command works with: the options --context and --yes, and the environment that follows from them.

    -n ADDR              this cluster, with the account of the environment; no context is looked at
    --context NAME       the context of this name, then the one of PYROMQ_CONTEXT, then the chosen one
    NAMESRV_ADDR         where there is none; and 127.0.0.1:9876 where that is not set either

A context becomes environment variables of this process while the command runs: all that takes its cluster from there,
Spark's workers too, needs to know nothing of contexts.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Annotated, Any, Final

import typer

from pyromq.admin.contexts import ClusterContext, chosen_context
from pyromq.cli.arguments import confirm, question_label
from pyromq.client.environment import ACCESS_KEY_VARIABLE, SECRET_KEY_VARIABLE
from pyromq.remoting.tls.client_tls import tls_variables

_CONTEXT: Final = "pyromq.context"
_YES: Final = "pyromq.yes"
_protected: ContextVar[bool] = ContextVar("protected", default=False)


def _note_context(ctx: typer.Context, value: str | None) -> str | None:
    if value is not None:
        ctx.meta[_CONTEXT] = value
    return value


def _note_yes(ctx: typer.Context, value: bool) -> bool:
    ctx.meta[_YES] = value
    return value


ContextOption = Annotated[
    str | None,
    typer.Option(
        "--context",
        metavar="NAME",
        help="Use this context; see `pyromq context`.",
        show_default="the chosen one",
        callback=_note_context,
        expose_value=False,
    ),
]


def _shared(
    context: ContextOption = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do not ask for confirmation.", callback=_note_yes, expose_value=False)
    ] = False,
) -> None:
    """Define the options that commands get without naming them."""


def add_shared_options(parameters: list[Any], *, writes: bool) -> None:
    """Add --context behind --namesrv, and --yes to a command that writes and has none."""
    names = [parameter.name for parameter in parameters]
    if "namesrv" not in names:
        return
    app = typer.Typer(add_completion=False)
    app.command()(_shared)
    context, yes = typer.main.get_command(app).params
    parameters.insert(names.index("namesrv") + 1, context)
    if writes and "yes" not in names:
        parameters.append(yes)


@contextmanager
def cluster_choice(ctx: Any, *, writes: bool, asks_itself: bool, name: str) -> Iterator[None]:
    """Have a command run with its context; raise ClientError if that wants to be asked and the answer is no."""
    found = _chosen(ctx)
    if found is None:
        yield
        return
    title, context = found
    label = question_label.set(typer.style(f"[{title}] ", fg=context.colour or None, bold=True))
    protected = _protected.set(context.confirm)
    try:
        with _environment(_variables(context)):
            if context.confirm and writes and not asks_itself and not _is_harmless(ctx):
                confirm(f"`{name}` changes the cluster at {context.namesrv}. Go on?")
            yield
    finally:
        _protected.reset(protected)
        question_label.reset(label)


def is_protected() -> bool:
    """Return True if the context wants to be asked before every change."""
    return _protected.get()


def _chosen(ctx: Any) -> tuple[str, ClusterContext] | None:
    if "namesrv" not in ctx.params:
        return None
    named = ctx.meta.get(_CONTEXT)
    if ctx.params["namesrv"] is not None:
        if named is not None:
            raise typer.BadParameter("-n and --context both name the cluster: use one of them")
        return None
    return chosen_context(named)


def _is_harmless(ctx: Any) -> bool:
    return bool(ctx.params.get("dry_run") or ctx.params.get("yes") or ctx.meta.get(_YES))


def _variables(context: ClusterContext) -> dict[str, str]:
    account = {ACCESS_KEY_VARIABLE: context.access_key, SECRET_KEY_VARIABLE: context.secret_key}
    tls = {} if context.tls is None else tls_variables(context.tls)
    return {"NAMESRV_ADDR": context.namesrv, **(account if context.access_key else {}), **tls}


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    before = {key: os.environ.get(key) for key in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                os.environ.pop(key, None)
            else:
                os.environ[key] = value
