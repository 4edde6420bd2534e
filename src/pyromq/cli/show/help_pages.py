"""Help pages on which no name of an option is cut.

Typer's tables shorten what does not fit into 80 columns, such as `--fail-on-data-…`. Here the names stay whole, and the
explanations beside them wrap.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.columns import Columns
from rich.console import Console, ConsoleOptions
from rich.table import Table
from rich.text import Text


class HelpTable(Table):
    """A table whose last column gives way to the others."""

    def add_row(self, *cells: Any, **settings: Any) -> None:
        super().add_row(*map(_in_one_piece, cells), **settings)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Any]:
        for column in self.columns:
            column.overflow = "fold"
        for column in self.columns[:-1]:
            column.no_wrap = True
        yield from super().__rich_console__(console, options)


def _in_one_piece(cell: Any) -> Any:
    """Return an explanation and its default as one text: beside each other they would be cut."""
    if isinstance(cell, Columns) and all(isinstance(part, Text) for part in cell.renderables):
        return Text(" ").join(part for part in cell.renderables if isinstance(part, Text))
    return cell


def keep_names_whole() -> None:
    """Have Typer use this table from now on; it offers no other way to choose one."""
    from typer import rich_utils  # loaded for help and errors only

    rich_utils.Table = HelpTable  # type: ignore[attr-defined]
