"""Compiles a tree to a function of a message's properties, with SQL's three values: True, False, None for unknown.

Operands are evaluated from left to right and no further than RocketMQ does: an incomparable one ends the evaluation.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from pyromq.protocol.sql92.body_fields import as_text, body_value
from pyromq.protocol.sql92.tree import (
    And,
    Between,
    BodyField,
    Comparison,
    Constant,
    Flag,
    In,
    InBody,
    IsNull,
    Negative,
    Node,
    Not,
    Number,
    NumberKind,
    Or,
    Property,
    Text,
)
from pyromq.protocol.sql92.values import READERS, Value, order, order_doubles, read_double

Properties: TypeAlias = Mapping[str, str]
Condition: TypeAlias = Callable[[Properties], bool | None]
Operand: TypeAlias = Callable[[Properties], Value | None]
Test: TypeAlias = Callable[[Any, Any], bool]

_TESTS: Final[dict[str, Test]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def condition(node: Node) -> Condition:
    """Return the function that evaluates a condition; it raises Incomparable where RocketMQ's evaluation fails."""
    match node:
        case And(operands):
            return _all(tuple(map(condition, operands)))
        case Or(operands):
            return _any(tuple(map(condition, operands)))
        case Not(operand):
            return _not(condition(operand))
        case Comparison(sign, left, right):
            return _comparison(sign, _folded(left), _folded(right))
        case Between(value, low, high, negated):
            return condition(_as_comparisons(value, low, high, negated))
        case In(name, values, negated):
            return _in(name, frozenset(values), negated)
        case InBody(field, values, negated):
            return _in_body(_operand(field), frozenset(values), negated)
        case IsNull(operand, negated):
            return _is_null(_operand(operand), negated)
        case Flag(name):
            return lambda properties: None if properties.get(name) is None else False
        case Constant(value):
            return lambda properties: value
        case _:
            raise TypeError(f"{type(node).__name__} is not a condition")


# --- logic -----------------------------------------------------------------------------------------------------------


def _all(conditions: tuple[Condition, ...]) -> Condition:
    def evaluate(properties: Properties) -> bool | None:
        result: bool | None = True
        for each in conditions:
            truth = each(properties)
            if truth is False:
                return False
            if truth is None:
                result = None
        return result

    return evaluate


def _any(conditions: tuple[Condition, ...]) -> Condition:
    def evaluate(properties: Properties) -> bool | None:
        result: bool | None = False
        for each in conditions:
            truth = each(properties)
            if truth:
                return True
            if truth is None:
                result = None
        return result

    return evaluate


def _not(operand: Condition) -> Condition:
    def evaluate(properties: Properties) -> bool | None:
        truth = operand(properties)
        return None if truth is None else not truth

    return evaluate


def _as_comparisons(value: Node, low: Node, high: Node, negated: bool) -> Node:
    if negated:
        return Or((Comparison("<", value, low), Comparison(">", value, high)))
    return And((Comparison(">=", value, low), Comparison("<=", value, high)))


# --- values ----------------------------------------------------------------------------------------------------------


def _folded(node: Node) -> Node:
    """Return a number with minus signs before it as one literal."""
    if isinstance(node, Negative):
        inner = _folded(node.operand)
        if isinstance(inner, Number):
            return Number(-inner.value, inner.kind)
    return node


def _operand(node: Node) -> Operand:
    node = _folded(node)
    match node:
        case Property(name):
            return lambda properties: properties.get(name)
        case BodyField(path):
            return lambda properties: body_value(properties, path)
        case Text(value):
            return lambda properties: value
        case Number():
            return lambda properties: node
        case Negative(operand):
            return _nothing(_operand(operand))
        case _:
            return condition(node)


def _nothing(operand: Operand) -> Operand:
    """Return NULL, the negative of anything but a number; the operand is still evaluated, and may fail."""

    def evaluate(properties: Properties) -> None:
        operand(properties)

    return evaluate


def _in(name: str, values: frozenset[str], negated: bool) -> Condition:
    def evaluate(properties: Properties) -> bool | None:
        text = properties.get(name)
        return None if text is None else (text in values) is not negated

    return evaluate


def _in_body(operand: Operand, values: frozenset[str], negated: bool) -> Condition:
    def evaluate(properties: Properties) -> bool | None:
        value = operand(properties)
        return None if value is None else (as_text(value) in values) is not negated

    return evaluate


def _is_null(operand: Operand, negated: bool) -> Condition:
    return lambda properties: (operand(properties) is None) is not negated


# --- comparisons -----------------------------------------------------------------------------------------------------


def _comparison(sign: str, left: Node, right: Node) -> Condition:
    match left, right:
        case Property(name), Number(value, kind):
            return _property_and_number(name, sign, value, kind)
        case Property(name), Text(value):
            return _property_and_text(name, value, sign == "=")
    if sign == "=":
        return _equal(_operand(left), _operand(right))
    if sign == "<>":
        return _not(_equal(_operand(left), _operand(right)))
    return _ordered(_TESTS[sign], _operand(left), _operand(right))


# Fast paths for the two forms that make up nearly every filter.


def _property_and_number(name: str, sign: str, number: float, kind: NumberKind) -> Condition:
    read, test = READERS[kind], _TESTS[sign]
    if kind is NumberKind.DOUBLE:
        test = _test_doubles(test)

    def evaluate(properties: Properties) -> bool | None:
        text = properties.get(name)
        return None if text is None else test(read(text), number)

    return evaluate


def _test_doubles(test: Test) -> Test:
    return lambda left, right: test(order_doubles(left, right), 0)


def _property_and_text(name: str, wanted: str, equal: bool) -> Condition:
    def evaluate(properties: Properties) -> bool | None:
        text = properties.get(name)
        return None if text is None else (text == wanted) is equal

    return evaluate


def _equal(left: Operand, right: Operand) -> Condition:
    """Compare any two values; if only the right one is missing, RocketMQ returns FALSE rather than unknown."""

    def evaluate(properties: Properties) -> bool | None:
        one, other = left(properties), right(properties)
        if one is None:
            return True if other is None else None
        return other is not None and order(one, other) == 0

    return evaluate


def _ordered(test: Test, left: Operand, right: Operand) -> Condition:
    """Order any two values; two texts are read as doubles."""

    def evaluate(properties: Properties) -> bool | None:
        one = left(properties)
        if one is None:
            return None
        other = right(properties)
        if other is None:
            return None
        if isinstance(one, str) and isinstance(other, str):
            return test(order_doubles(read_double(one), read_double(other)), 0)
        return test(order(one, other), 0)

    return evaluate
