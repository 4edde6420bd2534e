"""Elements of a self-contained HTML page: headlines, tiles, tables and cards for charts; light, dark and for print.

Parameters named html take markup made by these functions or by `charts`; every other text is escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Literal, NamedTuple

from pyromq.pipelines.pages import charts
from pyromq.pipelines.pages.charts import Bar
from pyromq.pipelines.pages.page_style import STYLE

Tone = Literal["good", "note", "warn"]


class Headline(NamedTuple):
    """One sentence about what stands out."""

    tone: Tone
    text: str


class Tile(NamedTuple):
    """A key figure at the top of a page."""

    label: str
    figure: str
    note: str = ""


class Cell(NamedTuple):
    """A table cell with markup."""

    html: str


def document(title: str, subtitle: str, parts: Iterable[str], foot: str) -> str:
    """Return the whole page."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body><main>"
        f"<header><h1>{escape(title)}</h1><p>{escape(subtitle)}</p></header>"
        f"{''.join(parts)}<footer>{escape(foot)}</footer></main></body></html>\n"
    )


def tiles(data: Sequence[Tile]) -> str:
    """Return figures side by side."""
    items = [
        f"<div><span>{escape(tile.label)}</span><b>{escape(tile.figure)}</b><small>{escape(tile.note)}</small></div>"
        for tile in data
    ]
    return f'<div class="tiles">{"".join(items)}</div>'


def headlines(title: str, data: Sequence[Headline]) -> str:
    """Return sentences as a list, in the given order."""
    items = [f'<li class="{tone}">{escape(text)}</li>' for tone, text in data]
    return f'<section class="headlines"><h2>{escape(title)}</h2><ul>{"".join(items)}</ul></section>'


def section(title: str, parts: Iterable[str], note: str = "") -> str:
    """Return a section with a heading."""
    return f"<section><h2>{escape(title)}</h2>{paragraph(note)}{''.join(parts)}</section>"


def grid(cards: Iterable[str]) -> str:
    """Return cards side by side if there is room."""
    return f'<div class="grid">{"".join(cards)}</div>'


def card(title: str, html: str, note: str = "", *, wide: bool = False) -> str:
    """Return a chart or table with a heading and a note on how to read it."""
    return f'<figure class="{"wide" if wide else ""}"><h3>{escape(title)}</h3>{paragraph(note)}{html}</figure>'


def bar_rows(bars: Sequence[Bar]) -> str:
    """Return bars with labels and figures, for a card beside another one."""
    return charts.fitting(lambda width: charts.rows(bars, width=width), charts.HALF)


def paragraph(text: str) -> str:
    """Return a paragraph, or nothing if the text is empty."""
    return f"<p>{escape(text)}</p>" if text else ""


def table(head: Sequence[str], body: Iterable[Sequence[str | Cell]], *, numbers: Sequence[int] = ()) -> str:
    """Return a table; the columns in `numbers` are aligned right."""
    rows = [[_cell(cell, index in numbers, "td") for index, cell in enumerate(row)] for row in body]
    top = [_cell(cell, index in numbers, "th") for index, cell in enumerate(head)]
    lines = "".join(f"<tr>{''.join(row)}</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{"".join(top)}</tr></thead><tbody>{lines}</tbody></table></div>'


def _cell(cell: str | Cell, is_number: bool, tag: str) -> str:
    html = cell.html if isinstance(cell, Cell) else escape(cell)
    return f"<{tag}{' class=number' if is_number else ''}>{html}</{tag}>"


def checked(claim: str, is_true: bool) -> Cell:
    """Return a table cell with a claim after a check mark, or after a cross if it is false."""
    mark = '<b class="good">✓</b>' if is_true else '<b class="warn">✗ differs:</b>'
    return Cell(f"{mark} {escape(claim)}")
