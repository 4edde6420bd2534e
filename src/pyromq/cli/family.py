"""The base of all families of verbs: what each command checks before it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import typer
from typer.core import TyperCommand


class Family(typer.Typer):
    """A family of verbs. Without a verb it shows its help."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(no_args_is_help=True, add_completion=False, **settings)

    def command(self, name: str | None = None, **settings: Any) -> Callable[[Any], Any]:
        """Add a verb, as `typer.Typer.command` does."""
        return super().command(name, cls=CheckedCommand, **settings)


class CheckedCommand(TyperCommand):
    """A command that refuses arguments that are no text: names and filters go to servers as UTF-8. Paths may be any."""

    def invoke(self, ctx: Any) -> Any:
        parameters: list[Any] = list(self.params)
        for parameter in parameters:
            for text in _texts(ctx.params.get(parameter.name)):
                if not _is_utf8(text):
                    raise typer.BadParameter(f"{text.encode(errors='surrogateescape')!r} is not UTF-8", ctx, parameter)
        return super().invoke(ctx)


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
