"""A decoded body as a tree of rows that a template can fold: bounded in depth, width and length."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from msgspec import Struct

from pyromq.console.bodies.masking import Masked
from pyromq.console.bodies.visible_text import visible

MOST_NODES: Final = 2000
MOST_DEPTH: Final = 40
LONGEST_TEXT: Final = 4000


class TreeNode(Struct, frozen=True, kw_only=True):
    """A value in a decoded body."""

    name: str | None = None
    """Its field; None in a list and at the root."""
    kind: str
    """object, list, string, number, boolean, null, bytes, masked or other."""
    text: str = ""
    """A single value; of an object or a list how many things it has."""
    children: tuple[TreeNode, ...] = ()
    left_out: int = 0
    """Children that are not shown."""


def tree_of(value: Any) -> TreeNode:
    """Return a value as a tree."""
    return _Planter().plant(None, value, 0)


class _Planter:
    def __init__(self) -> None:
        self._left = MOST_NODES

    def plant(self, name: str | None, value: Any, depth: int) -> TreeNode:
        self._left -= 1
        if isinstance(value, Mapping):
            return self._branch(name, "object", ((_field(key), each) for key, each in value.items()), len(value), depth)
        if isinstance(value, (list, tuple)):
            return self._branch(name, "list", ((None, each) for each in value), len(value), depth)
        kind, text = scalar(value)
        return TreeNode(name=name, kind=kind, text=text)

    def _branch(
        self, name: str | None, kind: str, pairs: Iterable[tuple[str | None, Any]], count: int, depth: int
    ) -> TreeNode:
        children = tuple(self._some(pairs, depth)) if depth < MOST_DEPTH else ()
        return TreeNode(name=name, kind=kind, text=str(count), children=children, left_out=count - len(children))

    def _some(self, pairs: Iterable[tuple[str | None, Any]], depth: int) -> Iterator[TreeNode]:
        for name, value in pairs:
            if self._left <= 0:
                return
            yield self.plant(name, value, depth + 1)


def scalar(value: Any) -> tuple[str, str]:
    """Return the kind and the text of a single value."""
    match value:
        case Masked():
            return "masked", value.TEXT
        case None:
            return "null", "null"
        case bool():
            return "boolean", "true" if value else "false"
        case int() | float():
            return "number", _short(_number(value))
        case str():
            return "string", _short(visible(value))
        case bytes():
            return "bytes", _short(base64.b64encode(value[:LONGEST_TEXT]).decode())
    return "other", _short(visible(str(value)))


def _number(value: int | float) -> str:
    if isinstance(value, int) and value.bit_length() > 4096:
        return f"({value.bit_length():,} bits)"  # Python refuses to print it
    return str(value)


def _field(key: object) -> str:
    return visible(key if isinstance(key, str) else str(key))[:LONGEST_TEXT]


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}…"
