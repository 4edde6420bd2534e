"""A filter expression as a tree; how large it is, and how it is written as text again."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import TypeAlias

from msgspec import Struct


class NumberKind(Enum):
    """How Java stores a number; a text compared with it is read as the same kind."""

    INT32 = "int32"
    INT64 = "int64"
    DOUBLE = "double"


class Property(Struct, frozen=True):
    """A property of the message, as a value: its text, or NULL."""

    name: str


class BodyField(Struct, frozen=True):
    """A field of the message's JSON body, as a value; NULL if the body has no such field."""

    path: tuple[str, ...]


class Text(Struct, frozen=True):
    """A literal in quotes."""

    value: str


class Number(Struct, frozen=True):
    """A literal number."""

    value: int | float
    kind: NumberKind


class Negative(Struct, frozen=True):
    """A value with a minus sign; NULL unless it is a number."""

    operand: Node


class Constant(Struct, frozen=True):
    """TRUE, FALSE or NULL (None)."""

    value: bool | None


class Flag(Struct, frozen=True):
    """A property used as a condition: unknown if it is missing, else FALSE, because it is a text."""

    name: str


class Not(Struct, frozen=True):
    """The opposite of a condition."""

    operand: Node


class And(Struct, frozen=True):
    """Conditions that must all hold."""

    operands: tuple[Node, ...]


class Or(Struct, frozen=True):
    """Conditions, at least one of which must hold."""

    operands: tuple[Node, ...]


class Comparison(Struct, frozen=True):
    """Two values and one of `=`, `<>`, `<`, `<=`, `>`, `>=`."""

    operator: str
    left: Node
    right: Node


class IsNull(Struct, frozen=True):
    """A value is missing, or is not."""

    operand: Node
    negated: bool = False


class Between(Struct, frozen=True):
    """A value lies between two others, both included, or does not."""

    value: Node
    low: Node
    high: Node
    negated: bool = False


class In(Struct, frozen=True):
    """A property is one of several texts, or is not."""

    name: str
    values: tuple[str, ...]
    negated: bool = False


class InBody(Struct, frozen=True):
    """A field of the body is, as a text, one of several texts, or is not."""

    field: BodyField
    values: tuple[str, ...]
    negated: bool = False


Node: TypeAlias = (
    Property
    | BodyField
    | Text
    | Number
    | Negative
    | Constant
    | Flag
    | Not
    | And
    | Or
    | Comparison
    | IsNull
    | Between
    | In
    | InBody
)
CONDITIONS = (Constant, Flag, Not, And, Or, Comparison, IsNull, Between, In, InBody)
LITERALS = (Text, Number, Constant)


def measure(root: Node) -> tuple[int, int]:
    """Return the depth of a tree and the number of its nodes, without recursion: it may be too deep for that."""
    deepest = size = 0
    waiting: list[tuple[Node, int]] = [(root, 1)]
    while waiting:
        node, depth = waiting.pop()
        size += 1
        deepest = max(deepest, depth)
        waiting += [(child, depth + 1) for child in _children(node)]
    return deepest, size


def _children(node: Node) -> Iterable[Node]:
    match node:
        case Negative(operand) | Not(operand) | IsNull(operand):
            return (operand,)
        case And(operands) | Or(operands):
            return operands
        case Comparison(_, left, right):
            return left, right
        case Between(value, low, high):
            return value, low, high
        case _:
            return ()


def write(node: Node) -> str:
    """Return an expression that parses to this tree."""
    match node:
        case Property(name) | Flag(name):
            return name
        case BodyField(path):
            return "body" + "".join(f".{_step(step)}" for step in path)
        case Text(value):
            return _quoted(value)
        case Number(value):
            return repr(value)
        case Constant(value):
            return "NULL" if value is None else str(value).upper()
        case Negative(operand):
            return "-" + (f"({write(operand)})" if isinstance(operand, Negative) else _operand(operand))
        case Not(operand):
            return f"NOT {_operand(operand)}"
        case And(operands):
            return " AND ".join(map(_operand, operands))
        case Or(operands):
            return " OR ".join(map(_operand, operands))
        case Comparison(operator, left, right):
            return f"{_operand(left)} {operator} {_operand(right)}"
        case IsNull(operand, negated):
            return f"{_operand(operand)} IS {'NOT ' * negated}NULL"
        case Between(value, low, high, negated):
            return f"{_operand(value)} {'NOT ' * negated}BETWEEN {_operand(low)} AND {_operand(high)}"
        case In(name, values, negated):
            return f"{name} {'NOT ' * negated}IN ({', '.join(map(_quoted, values))})"
        case InBody(field, values, negated):
            return f"{write(field)} {'NOT ' * negated}IN ({', '.join(map(_quoted, values))})"


_WRITTEN_BARE = (Property, BodyField, Text, Number, Constant, Flag, Negative)


def _operand(node: Node) -> str:
    return write(node) if isinstance(node, _WRITTEN_BARE) else f"({write(node)})"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _step(name: str) -> str:
    return name if name.replace("$", "_").isidentifier() or name.isdecimal() else f'"{name}"'
