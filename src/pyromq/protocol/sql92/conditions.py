"""MessageCondition: SQL92 over the properties of a message and the fields of its JSON body."""

from __future__ import annotations

from pyromq.errors import LocalProtocolError
from pyromq.protocol.messages.message import MessageExt
from pyromq.protocol.sql92.body_fields import MessageFields
from pyromq.protocol.sql92.evaluation import condition
from pyromq.protocol.sql92.parser import parse
from pyromq.protocol.sql92.tree import write
from pyromq.protocol.sql92.values import Incomparable


class MessageCondition:
    """Selects messages: the SQL92 of subscriptions, with `body.field.sub` for bodies that are JSON.

    >>> MessageCondition("TAGS = 'paid' AND body.amount > 100").matches(message)
    """

    def __init__(self, expression: str) -> None:
        tree, _, unread = parse(expression, paths=True)
        if unread:  # brokers use only the part before it, and say nothing
            place = len(expression) - len(unread) + 1
            raise LocalProtocolError(
                f"SQL92: {unread!r} at character {place} of {expression!r} would be ignored; is an AND missing?"
            )
        self.expression = expression
        self._tree = tree
        self._condition = condition(tree)

    def matches(self, message: MessageExt) -> bool:
        """Return True if the expression is true for this message, False also for unknown and incomparable."""
        try:
            return self._condition(MessageFields(message)) is True
        except Incomparable:
            return False

    def __str__(self) -> str:
        return write(self._tree)
