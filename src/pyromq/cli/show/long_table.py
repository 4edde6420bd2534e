"""Tables of thousands of rows: as Rich draws them, but ten times as fast, because their cells have no styles.

`topic list` of 10,000 topics took five seconds, nearly all of it for cells that are plain text in one line.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.markup import render
from rich.table import Table
from rich.text import Text

LONG: Final = 300
"""Rows from which a table is long: the others keep Rich's way, with all it can do."""


def is_long_and_plain(table: Table) -> bool:
    """Return True if a table can be drawn by `lines_of`."""
    return (
        table.row_count >= LONG
        and table.box is not None
        and not any(row.style or row.end_section for row in table.rows)
        and all(isinstance(cell, str) and "[/" not in cell for column in table.columns for cell in column.cells)
    )


def lines_of(table: Table, console: Console) -> Iterator[str]:
    """Yield the lines of a table that is long and plain, no wider than the console."""
    assert table.box is not None
    box = table.box.substitute(console.options, safe=console.safe_box)
    columns = [[_plain(cell) for cell in (column.header, *column.cells)] for column in table.columns]
    widths = [max(map(_width, cells)) for cells in columns]
    _shrink(widths, console.width - 3 * len(widths) - 1)
    right = [column.justify == "right" for column in table.columns]
    yield box.get_top([width + 2 for width in widths])
    rows = zip(*columns, strict=True)
    yield from _row(next(rows), widths, right, (box.head_left, box.head_vertical, box.head_right), console)
    yield box.get_row([width + 2 for width in widths], "head")
    for row in rows:
        yield from _row(row, widths, right, (box.mid_left, box.mid_vertical, box.mid_right), console)
    yield box.get_bottom([width + 2 for width in widths])


def _plain(cell: object) -> str:
    """Return a cell without its markup: what `escape` has put there for names with brackets."""
    text = str(cell)
    return render(text, emoji=False).plain if "[" in text or "\\" in text else text


def _width(text: str) -> int:
    return len(text) if text.isascii() and "\n" not in text else max(map(cell_len, text.split("\n")))


def _shrink(widths: list[int], most: int) -> None:
    """Make the widest columns narrower until all fit, or have one cell each."""
    while sum(widths) > most and max(widths) > 1:
        widest = max(widths)
        others = max((width for width in widths if width < widest), default=1)
        count = widths.count(widest)
        less = max(min(widest - others, -(-(sum(widths) - most) // count)), 1)
        widths[:] = [width - less if width == widest else width for width in widths]


def _row(
    cells: Sequence[str], widths: Sequence[int], right: Sequence[bool], edges: tuple[str, str, str], console: Console
) -> Iterator[str]:
    """Yield the line of a row, or its lines if a cell is too wide for its column."""
    parts = [_folded(cell, width, console) for cell, width in zip(cells, widths, strict=True)]
    left, middle, end = edges
    for number in range(max(map(len, parts))):
        line = (part[number] if number < len(part) else "" for part in parts)
        yield left + middle.join(map(_padded, line, widths, right)) + end


def _folded(cell: str, width: int, console: Console) -> list[str]:
    if "\n" not in cell and _width(cell) <= width:
        return [cell]
    return [line.plain for line in Text(cell).wrap(console, width, overflow="fold")]


def _padded(text: str, width: int, is_right: bool) -> str:
    if text.isascii():
        return f" {text.rjust(width) if is_right else text.ljust(width)} "
    return f" {' ' * (width - cell_len(text)) + text if is_right else set_cell_size(text, width)} "
