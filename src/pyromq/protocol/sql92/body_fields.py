"""The values that `body.field` has in an expression: those of the message's body, if it is JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, Final

import msgspec

from pyromq.errors import MalformedHeader
from pyromq.protocol.messages.message import MessageExt
from pyromq.protocol.sql92.tree import Number, NumberKind
from pyromq.protocol.sql92.values import Value
from pyromq.protocol.unreadable import UNREADABLE

_MOST: Final = 1 << 63  # of a whole number; larger ones are compared as doubles


class MessageFields(Mapping[str, str]):
    """The properties of a message, and the fields of its body."""

    def __init__(self, message: MessageExt) -> None:
        self._message = message
        self._properties = message.properties

    def __getitem__(self, name: str) -> str:
        return self._properties[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._properties)

    def __len__(self) -> int:
        return len(self._properties)

    @cached_property
    def document(self) -> Any:
        """The body as Python values, None if it is not JSON."""
        try:
            return msgspec.json.decode(self._message.body)
        except (*UNREADABLE, MalformedHeader):
            return None


def body_value(properties: Mapping[str, str], path: tuple[str, ...]) -> Value | None:
    """Return the value at a path of the body; None if there is none, or null. Objects and lists are JSON texts."""
    if not isinstance(properties, MessageFields):
        raise TypeError("only whole messages have a body")
    value = properties.document
    for step in path:
        value = _step_into(value, step)
    return _as_value(value)


def _step_into(value: Any, step: str) -> Any:
    if isinstance(value, dict):
        return value.get(step)
    if isinstance(value, list) and step.isdecimal() and int(step) < len(value):
        return value[int(step)]
    return None


def _as_value(value: Any) -> Value | None:
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int) and -_MOST <= value < _MOST:
        return Number(value, NumberKind.INT64)
    if isinstance(value, int | float):
        return Number(float(value), NumberKind.DOUBLE)
    return msgspec.json.encode(value).decode()


def as_text(value: Value) -> str:
    """Return a value as JSON writes it, a text without quotes."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value.value) if isinstance(value, Number) else value
