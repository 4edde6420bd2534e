"""Long tables look as Rich draws them, and are drawn without it."""

from __future__ import annotations

import io
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from pyromq.cli.show.console import OutputConsole
from pyromq.cli.show.long_table import LONG, is_long_and_plain, lines_of

NAMES = st.text("ab[]/ %-_12é名🚀", max_size=12).map(str.strip)
ROWS = st.lists(st.tuples(NAMES, NAMES, st.integers(0, 10**9).map(str)), min_size=1, max_size=5)


def table_of(rows: Sequence[tuple[str, str, str]]) -> Table:
    table = Table()
    for name, justify in (("topic", "left"), ("write queues", "left"), ("lag", "right")):
        table.add_column(name, justify=justify, overflow="fold")  # type: ignore[arg-type]
    for row in rows:
        table.add_row(*map(escape, row))
    return table


def drawn_by_rich(table: Table, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    console.print(table)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


@settings(max_examples=50)
@given(ROWS)
def test_a_table_looks_as_rich_draws_it(rows: Sequence[tuple[str, str, str]]) -> None:
    table = table_of(rows)
    assert list(lines_of(table, Console(file=io.StringIO(), width=200))) == drawn_by_rich(table, 200)


@settings(max_examples=50)
@given(ROWS, st.integers(20, 40))
def test_a_narrow_table_folds_its_cells_and_loses_nothing(rows: Sequence[tuple[str, str, str]], width: int) -> None:
    lines = list(lines_of(table_of(rows), Console(file=io.StringIO(), width=width)))
    assert all(cell_len(line) <= width for line in lines)
    shown = "".join(line for line in lines if line.startswith("│")).replace("│", "").replace(" ", "")
    assert sorted(shown) == sorted("".join("".join(row) for row in rows).replace(" ", ""))


def test_only_long_tables_without_styles_are_drawn_without_rich() -> None:
    rows = [("a[b]", "c", str(number)) for number in range(LONG)]
    assert is_long_and_plain(table_of(rows))
    assert not is_long_and_plain(table_of(rows[1:]))
    styled, marked = table_of(rows), table_of(rows)
    styled.add_row("x", "y", "z", style="bold red")
    marked.add_row("[red]x[/]", "y", "z")
    assert not is_long_and_plain(styled)
    assert not is_long_and_plain(marked)


def test_the_console_prints_a_long_table_line_by_line() -> None:
    table = table_of([(f"topic-{number}", "名前", str(number)) for number in range(LONG)])
    console = OutputConsole(file=io.StringIO(), width=60)
    console.print(table)
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue().splitlines() == drawn_by_rich(table, 60)


def test_text_between_colons_stays_as_it_is() -> None:
    for count in (1, LONG):
        console = OutputConsole(file=io.StringIO(), width=60)
        console.print(table_of([(":bug: [x]", ":bug:", str(number)) for number in range(count)]))
        assert isinstance(console.file, io.StringIO)
        assert console.file.getvalue().count(":bug:") == 2 * count
