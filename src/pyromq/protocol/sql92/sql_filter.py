"""SqlFilter: a compiled SQL92 expression that picks messages by their properties."""

from __future__ import annotations

from collections.abc import Mapping

from pyromq.protocol.sql92.evaluation import condition
from pyromq.protocol.sql92.parser import parse
from pyromq.protocol.sql92.tree import write
from pyromq.protocol.sql92.values import Incomparable


class SqlFilter:
    """Tells which messages an expression wants; `str` writes it down again with every parenthesis it needs."""

    __slots__ = ("_condition", "_tree", "expression", "size", "unread")

    def __init__(self, expression: str) -> None:
        self._tree, size, unread = parse(expression)
        self._condition = condition(self._tree)
        self.expression = expression
        self.size = size
        """How many parts it has: a measure of what a message costs."""
        self.unread = unread
        """What follows the first whole expression: RocketMQ never reads it."""

    def evaluate(self, properties: Mapping[str, str]) -> bool | None:
        """Return the truth about a message, None if it is unknown; raises Incomparable where there is none."""
        return self._condition(properties)

    def matches(self, properties: Mapping[str, str]) -> bool:
        """Tell whether the expression is true for these properties; unknown is not, nor is what cannot be compared."""
        try:
            return self._condition(properties) is True
        except Incomparable:
            return False

    def __str__(self) -> str:
        return write(self._tree)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SqlFilter) and self._tree == other._tree

    def __hash__(self) -> int:
        return hash(self._tree)


def compile_sql(expression: str) -> SqlFilter:
    """Prepare an expression; raises LocalProtocolError, in one line, if it is not one of RocketMQ's."""
    return SqlFilter(expression)
