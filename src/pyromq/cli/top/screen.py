"""Screen: what the user of `pyromq top` has chosen, what a key changes, and the table that results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from pyromq.admin import Overview
from pyromq.admin.views.iso_times import iso_time
from pyromq.cli.show.group_tables import age
from pyromq.cli.show.lines import printable

AROUND: Final = 6
"""Lines of a screen that are no rows: title, header, frame and help."""


class TopColumn(NamedTuple):
    """A column: its name, the value to sort by, and how it is shown."""

    name: str
    value: Callable[[Any], Any]
    show: Callable[[Any], str]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:,.1f}"


def _size(value: float | None) -> str:
    if value is None:
        return "-"
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:,.0f} {unit}" if unit == "B" else f"{value:,.1f} {unit}"
        value /= 1024
    return f"{value:,.1f} TiB"


def _text(name: str, attribute: str) -> TopColumn:
    return TopColumn(name, lambda row: getattr(row, attribute), str)


def _count(name: str, attribute: str) -> TopColumn:
    return TopColumn(name, lambda row: getattr(row, attribute), _number)


VIEWS: Final[dict[str, tuple[TopColumn, ...]]] = {
    "groups": (
        _text("group", "group"),
        _count("members", "members"),
        _count("lag", "lag"),
        TopColumn("behind", lambda row: row.behind, lambda value: age(value) if value != 0 else "-"),
        _count("out/s", "rate"),
        _count("dead letters", "dead_letters"),
    ),
    "topics": (
        _text("topic", "topic"),
        _count("in/s", "rate"),
        TopColumn("bytes/s", lambda row: row.byte_rate, _size),
        _count("in since start", "puts"),
    ),
    "brokers": (
        _text("broker", "name"),
        _text("address", "address"),
        _count("in/s", "put_rate"),
        _count("out/s", "get_rate"),
        TopColumn("disk", lambda row: row.disk_percent, lambda value: "-" if value is None else f"{value:g}%"),
        TopColumn("log", lambda row: row.log_bytes, _size),
    ),
}
_FIRST_ORDER: Final = {"groups": "lag", "topics": "in/s", "brokers": "in/s"}
_EMPTY: Final = {
    "groups": "there are no groups",
    "topics": "there are no topics",
    "brokers": "no name server knows a broker",
}
HELP: Final = "1 groups  2 topics  3 brokers  s sort  r reverse  / filter  space pause  j k scroll  a all  q quit"


class Screen:
    """The choices of a user."""

    def __init__(self, view: str = "groups", sort: str | None = None, filter_text: str = "", everything: bool = False):
        self.view = view
        self.sort = sort or _FIRST_ORDER[view]
        self.backwards = False
        self.filter = filter_text
        self.everything = everything
        """Whether RocketMQ's own groups and topics are shown."""
        self.is_typing = False
        """Whether keys go into the filter."""
        self.is_paused = False
        self.is_over = False
        self.problem = ""
        """Why the overview is not newer; empty if it is."""
        self.first = 0
        """The first row that is shown."""

    # --- keys

    def press(self, key: str) -> None:
        """Do what a key means."""
        if self.is_typing:
            self._type(key)
        elif key in ("1", "2", "3"):
            self.show(list(VIEWS)[int(key) - 1])
        elif key == "\t":
            names = list(VIEWS)
            self.show(names[(names.index(self.view) + 1) % len(names)])
        elif key in _ACTIONS:
            _ACTIONS[key](self)

    def show(self, view: str) -> None:
        """Show another view, in its own order."""
        self.view, self.sort, self.backwards, self.first = view, _FIRST_ORDER[view], False, 0

    def _type(self, key: str) -> None:
        if key in ("\r", "\n"):
            self.is_typing = False
        elif key == "\x1b":
            self.is_typing, self.filter = False, ""
        elif key in ("\x7f", "\b"):
            self.filter = self.filter[:-1]
        elif key.isprintable():
            self.filter += key
        self.first = 0

    def next_order(self) -> None:
        """Sort by the next column."""
        names = [column.name for column in VIEWS[self.view]]
        self.sort, self.backwards = names[(names.index(self.sort) + 1) % len(names)], False

    def reverse(self) -> None:
        """Sort the other way."""
        self.backwards = not self.backwards

    def start_typing(self) -> None:
        """Let the next keys go into the filter."""
        self.is_typing, self.filter = True, ""

    def pause(self) -> None:
        """Stop, or go on."""
        self.is_paused = not self.is_paused

    def scroll(self, rows: int) -> None:
        """Move the rows."""
        self.first = max(self.first + rows, 0)

    def toggle_everything(self) -> None:
        """Show or hide RocketMQ's own groups and topics."""
        self.everything = not self.everything

    def quit(self) -> None:
        """End."""
        self.is_over = True

    # --- rows

    def rows(self, overview: Overview) -> list[Any]:
        """Return the rows of the view that match, in order: the highest first, names from a to z."""
        found: Sequence[Any] = getattr(overview, self.view)
        column = next(column for column in VIEWS[self.view] if column.name == self.sort)
        chosen = [row for row in found if self._matches(row)]
        is_name = column.show is str
        chosen.sort(key=lambda row: VIEWS[self.view][0].value(row))
        return sorted(
            chosen,
            key=lambda row: _order(column.value(row)),
            reverse=self.backwards if is_name else not self.backwards,
        )

    def _matches(self, row: Any) -> bool:
        if not self.everything and getattr(row, "is_built_in", False):
            return False
        return self.filter.lower() in VIEWS[self.view][0].value(row).lower()

    def draw(self, overview: Overview, height: int | None = None) -> RenderableType:
        """Return the screen; with a height only the rows that fit."""
        rows, notes = self.rows(overview), [*self._notes(overview)]
        room = len(rows) if height is None else max(height - AROUND - len(notes), 1)
        self.first = min(self.first, max(len(rows) - room, 0))
        shown = rows[self.first : self.first + room]
        parts: list[RenderableType] = [self._title(overview, len(rows), len(shown), is_live=height is not None)]
        parts += [Text(printable(f"! {self.problem}"), style="red", overflow="ellipsis")] if self.problem else []
        parts += [Text(printable(f"! {note}"), style="yellow", overflow="ellipsis") for note in notes]
        parts.append(self._table(shown) if rows else self._nothing(overview))
        if height is not None:
            parts.append(Text(f"filter: {self.filter}_" if self.is_typing else HELP, style="dim"))
        return Group(*parts)

    def _notes(self, overview: Overview) -> Iterator[str]:
        for name, reason in overview.silent_brokers.items():
            yield f"{name} does not answer: {reason}"
        if self.view == "topics" and overview.brokers_without_topics:
            names = ", ".join(overview.brokers_without_topics)
            yield f"{names}: Apache's brokers do not say how busy a topic is; see `pyromq topic list`"

    def _nothing(self, overview: Overview) -> str:
        if self.filter and getattr(overview, self.view):
            return f"no {self.view[:-1]} contains {escape(repr(self.filter))}"
        is_unknown = self.view == "topics" and overview.brokers_without_topics
        return "nothing is known of topics" if is_unknown else _EMPTY[self.view]

    def _title(self, overview: Overview, count: int, shown: int, *, is_live: bool) -> Text:
        ins, outs = (sum(getattr(one, name) for one in overview.brokers) for name in ("put_rate", "get_rate"))
        place = "" if shown == count else f" {self.first + 1} to {self.first + shown} of"
        parts = [
            iso_time(int(overview.at * 1000)),
            f"in {_number(ins)}/s, out {_number(outs)}/s",
            f"{self.view}:{place} {count:,}, by {self.sort}",
        ]
        parts += [f"filter {self.filter}"] if self.filter and not self.is_typing else []
        parts += ["paused"] if self.is_paused and is_live else []
        return Text(printable("  ".join(parts)), style="bold")

    def _table(self, rows: Sequence[Any]) -> Table:
        table = Table()
        columns = VIEWS[self.view]
        for column in columns:
            table.add_column(column.name, justify="left" if column.show is str else "right", overflow="fold")
        for row in rows:
            table.add_row(*(escape(printable(column.show(column.value(row)))) for column in columns))
        return table


def _order(value: Any) -> Any:
    return -1.0 if value is None else value


_ACTIONS: Final[dict[str, Callable[[Screen], None]]] = {
    "s": Screen.next_order,
    "r": Screen.reverse,
    "/": Screen.start_typing,
    " ": Screen.pause,
    "p": Screen.pause,
    "a": Screen.toggle_everything,
    "j": lambda screen: screen.scroll(1),
    "k": lambda screen: screen.scroll(-1),
    "d": lambda screen: screen.scroll(20),
    "u": lambda screen: screen.scroll(-20),
    "q": Screen.quit,
    "\x03": Screen.quit,
}
