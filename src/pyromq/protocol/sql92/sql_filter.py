"""SqlFilter: a compiled SQL92 expression that selects messages by their properties."""

from __future__ import annotations

from collections.abc import Mapping

from pyromq.protocol.sql92.evaluation import condition
from pyromq.protocol.sql92.parser import parse
from pyromq.protocol.sql92.tree import write
from pyromq.protocol.sql92.values import Incomparable


class SqlFilter:
    """Selects messages by an expression; `str` writes the expression with every parenthesis it needs."""

    __slots__ = ("_condition", "_tree", "expression", "size", "unread")

    def __init__(self, expression: str) -> None:
        self._tree, size, unread = parse(expression)
        self._condition = condition(self._tree)
        self.expression = expression
        self.size = size
        """The number of its parts: a measure of the cost per message."""
        self.unread = unread
        """The text after the first whole expression, which RocketMQ never reads."""

    def evaluate(self, properties: Mapping[str, str]) -> bool | None:
        """Return the result for a message, None for unknown; raise Incomparable if there is none."""
        return self._condition(properties)

    def matches(self, properties: Mapping[str, str]) -> bool:
        """Return True if the expression is true for these properties, False also for unknown and incomparable."""
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
    """Compile an expression; raise LocalProtocolError, with one line, if RocketMQ would refuse it."""
    return SqlFilter(expression)
