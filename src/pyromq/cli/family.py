"""The base of all families of verbs: what each command checks before it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from difflib import get_close_matches
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from pyromq.cli.cluster_choice import add_shared_options, cluster_choice
from pyromq.cli.show.help_pages import keep_names_whole
from pyromq.errors import BrokerError, ClientError, GroupNotFound, NoRoute, PyroMQError, TopicNotFound

_SIMILAR = 0.75
"""How alike two names are of which one is a typing error, from 0 to 1."""


_NotThere = (NoRoute, TopicNotFound, GroupNotFound)
_MISSPELT = {"topic": "topic", "group": "group", "source": "group"}
"""Parameters whose values may be misspelt, and what they name."""


class Family(typer.Typer):
    """A family of verbs. Without a verb it shows its help."""

    def __init__(self, **settings: Any) -> None:
        settings.setdefault("cls", FamilyGroup)
        super().__init__(no_args_is_help=True, add_completion=False, **settings)

    def command(self, name: str | None = None, *, writes: bool = False, **settings: Any) -> Callable[[Any], Any]:
        """Add a verb, as `typer.Typer.command` does; with `writes` if it changes a cluster and has no --dry-run."""
        return super().command(name, cls=WritingCommand if writes else CheckedCommand, **settings)


class FamilyGroup(TyperGroup):
    """A group of verbs, with names that are whole on its help page."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        keep_names_whole()
        super().format_help(ctx, formatter)


class CheckedCommand(TyperCommand):
    """A command that refuses arguments that are no text: names and filters go to servers as UTF-8. Paths may be any.

    One that asks a cluster has --context, and one that changes it --yes.
    """

    writes = False

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        names = {parameter.name for parameter in self.params}
        self._writes = self.writes or "dry_run" in names
        self._asks_itself = "yes" in names
        add_shared_options(self.params, writes=self._writes)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        keep_names_whole()
        super().format_help(ctx, formatter)

    def invoke(self, ctx: Any) -> Any:
        parameters: list[Any] = list(self.params)
        for parameter in parameters:
            for text in _texts(ctx.params.get(parameter.name)):
                if not _is_utf8(text):
                    raise typer.BadParameter(f"{text.encode(errors='surrogateescape')!r} is not UTF-8", ctx, parameter)
        with cluster_choice(ctx, writes=self._writes, asks_itself=self._asks_itself, name=ctx.command_path):
            try:
                return super().invoke(ctx)
            except _NotThere as error:
                raise _with_suggestion(ctx, error) from error


class WritingCommand(CheckedCommand):
    """A command that changes a cluster without a --dry-run."""

    writes = True


def _with_suggestion(ctx: Any, error: PyroMQError) -> PyroMQError:
    """Return the error with the topic or group that may have been meant, if the given one is not there."""
    text = error.remark if isinstance(error, BrokerError) else str(error)
    if "namesrv" not in ctx.params or "did you mean" in text:
        return error
    from pyromq.cli.completion import known_names  # only now: it loads the operator's client

    for name, kind in _MISSPELT.items():
        given = ctx.params.get(name)
        known = known_names(ctx, kind) if isinstance(given, str) else []
        near = get_close_matches(given or "", known, n=1, cutoff=_SIMILAR)
        if given not in known and near:
            return ClientError(f"{text}; did you mean {near[0]}?")
    return error


def _texts(value: object) -> Iterator[str]:
    for item in value if isinstance(value, list | tuple) else (value,):
        if isinstance(item, str):
            yield item


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
