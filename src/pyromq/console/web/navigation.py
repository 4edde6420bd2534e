"""The menu of the console: which screens there are, in which order, and by which keys they are reached."""

from __future__ import annotations

from typing import Final, NamedTuple


class Entry(NamedTuple):
    """One line of the menu; it is shown if there is a route to it and the user may use it."""

    path: str
    label: str
    icon: str
    key: str
    """The key after `g` that goes there."""
    section: str = ""
    """The heading above it, if it is the first of a section."""


MENU: Final = (
    Entry("/", "Overview", "overview", "o"),
    Entry("/topics", "Topics", "topics", "t"),
    Entry("/groups", "Groups", "groups", "g"),
    Entry("/messages", "Messages", "messages", "m", "Messages"),
    Entry("/dead-letters", "Dead letters", "dead", "d"),
    Entry("/delays", "Delays", "delays", "y"),
    Entry("/transactions", "Transactions", "transactions", "x"),
    Entry("/clients", "Clients", "clients", "c", "Cluster"),
    Entry("/pipelines", "Pipelines", "pipelines", "p"),
    Entry("/configuration", "Configuration", "configuration", "f"),
    Entry("/access", "Access", "access", "a", "Security"),
    Entry("/audit", "Audit log", "audit", "l"),
)


def menu_texts() -> list[str]:
    """Return the texts of the menu, which templates translate by their variables."""
    return [text for entry in MENU for text in (entry.label, entry.section) if text]
