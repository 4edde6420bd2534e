"""Parses an expression to its tree, with RocketMQ's grammar and checks; bounded in length and depth.

    or          and (OR and)*
    and         equality (AND equality)*
    equality    comparison (= comparison | <> comparison | IS [NOT] NULL)*
    comparison  unary (< unary | <= unary | > unary | >= unary | [NOT] BETWEEN unary AND unary | [NOT] IN ('…', …))*
    unary       (+ | - | NOT)* primary
    primary     literal | name | ( or )

Everything is left-associative. `NOT a = 5` means `(NOT a) = 5`. What follows the first whole expression is not read.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from pyromq.errors import LocalProtocolError
from pyromq.protocol.sql92.lexer import END, FLOAT, INTEGER, NAME, PATH, TEXT, Lexer, Token, show, steps_of
from pyromq.protocol.sql92.tree import (
    CONDITIONS,
    LITERALS,
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
    measure,
    write,
)
from pyromq.protocol.sql92.values import order_numbers

MAX_LENGTH: Final = 8_192
"""The most characters of an expression."""
MAX_DEPTH: Final = 64
"""The most levels of an expression; recursion over a tree of this depth is safe."""

_CONSTANTS: Final[dict[str, bool | None]] = {"TRUE": True, "FALSE": False, "NULL": None}
_RELATIONS: Final = frozenset({"<", "<=", ">", ">="})
_PREFIXES: Final = frozenset({"+", "-", "NOT"})


class Parsed(NamedTuple):
    """An expression's tree, the number of its nodes, and the text that was not read."""

    tree: Node
    size: int
    rest: str


def parse(expression: str, *, paths: bool = False) -> Parsed:
    """Read an expression; raise LocalProtocolError, with one line, for what RocketMQ's parser refuses.

    With `paths`, fields of a JSON body are values too: `body.amount`.
    """
    if len(expression) > MAX_LENGTH:
        raise _refused(f"the expression has {len(expression)} characters, at most {MAX_LENGTH} are allowed")
    parser = _Parser(expression, paths=paths)
    tree = _condition(parser.expression())
    depth, size = measure(tree)
    if depth > MAX_DEPTH:
        raise _too_deep()
    return Parsed(tree, size, expression[parser.token.position :])


class _Parser:
    """One method for each level of the grammar; `token` is the next token."""

    def __init__(self, text: str, *, paths: bool) -> None:
        self._lexer = Lexer(text, paths=paths)
        self._open = 0
        self.token = self._lexer.next()

    def expression(self) -> Node:
        operands = [self._conjunction()]
        while self._accept("OR"):
            operands.append(self._conjunction())
        return _chain(Or, operands)

    def _conjunction(self) -> Node:
        operands = [self._equality()]
        while self._accept("AND"):
            operands.append(self._equality())
        return _chain(And, operands)

    def _equality(self) -> Node:
        left = self._comparison()
        while True:
            if self.token.kind in ("=", "<>"):
                operator = self._take().kind
                left = _equality(operator, left, self._comparison())
            elif self._accept("IS"):
                negated = self._accept("NOT")
                self._expect("NULL")
                left = IsNull(left, negated)
            else:
                return left

    def _comparison(self) -> Node:
        left = self._unary()
        while True:
            if self.token.kind in _RELATIONS:
                operator = self._take().kind
                left = _relation(operator, left, self._unary())
            elif self.token.kind in ("NOT", "BETWEEN", "IN"):
                left = self._range_or_list(left)
            else:
                return left

    def _range_or_list(self, left: Node) -> Node:
        negated = self._accept("NOT")
        if self._accept("BETWEEN"):
            low = self._unary()
            self._expect("AND")
            return _between(left, low, self._unary(), negated)
        self._expect("IN")
        return _in(left, self._texts(), negated)

    def _texts(self) -> tuple[str, ...]:
        self._expect("(")
        values = [_unquoted(self._expect(TEXT))]
        while self._accept(","):
            values.append(_unquoted(self._expect(TEXT)))
        self._expect(")")
        return tuple(values)

    def _unary(self) -> Node:
        prefixes = []
        while self.token.kind in _PREFIXES:
            prefixes.append(self._take().kind)
            if len(prefixes) > MAX_DEPTH:
                raise _too_deep()
        node = self._primary()
        for prefix in reversed(prefixes):
            if prefix == "NOT":
                node = Not(_condition(node))
            elif prefix == "-":
                node = Negative(node)
        return node

    def _primary(self) -> Node:
        token = self._take()
        if token.kind == "(":
            return self._in_parentheses()
        if token.kind == NAME:
            return Property(token.text)
        if token.kind == PATH:
            return BodyField(steps_of(token.text))
        if token.kind == TEXT:
            return Text(_unquoted(token))
        if token.kind == INTEGER:
            return _integer(token.text)
        if token.kind == FLOAT:
            return _float(token.text)
        if token.kind in _CONSTANTS:
            return Constant(_CONSTANTS[token.kind])
        raise _unexpected(token, "a property, a literal or `(`")

    def _in_parentheses(self) -> Node:
        self._open += 1
        if self._open >= MAX_DEPTH:  # this parser's calls nest as the parentheses do
            raise _too_deep()
        node = self.expression()
        self._expect(")")
        self._open -= 1
        return node

    def _take(self) -> Token:
        token, self.token = self.token, self._lexer.next()
        return token

    def _accept(self, kind: str) -> bool:
        found = self.token.kind == kind
        if found:
            self._take()
        return found

    def _expect(self, kind: str) -> Token:
        if self.token.kind != kind:
            raise _unexpected(self.token, "a text in quotes" if kind == TEXT else f"`{kind}`")
        return self._take()


# --- which operands are legal ----------------------------------------------------------------------------------------


def _condition(node: Node) -> Node:
    if isinstance(node, CONDITIONS):
        return node
    if isinstance(node, Property):
        return Flag(node.name)
    if isinstance(node, BodyField):
        return Comparison("=", node, Constant(True))
    raise _refused(f"{_show(node)} is not a condition: it is neither true nor false")


def _chain(kind: type[And] | type[Or], operands: list[Node]) -> Node:
    """Join any number of conditions in one node: a chain may be long, but it is not deep."""
    first, *others = operands
    if not others:
        return first
    before = first.operands if isinstance(first, kind) else (_condition(first),)
    return kind((*before, *map(_condition, others)))


def _equality(operator: str, left: Node, right: Node) -> Node:
    for operand in (left, right):
        if operand == Constant(None):
            raise _refused(f"NULL cannot be compared with {operator}; use IS NULL")
    if isinstance(left, Constant) and isinstance(right, Text | Number):
        raise _refused(f"{_show(left)} cannot be compared with {_show(right)}")
    return Comparison(operator, left, right)


def _relation(operator: str, left: Node, right: Node) -> Node:
    _check_ordered(left)
    _check_ordered(right)
    return Comparison(operator, left, right)


def _between(value: Node, low: Node, high: Node, negated: bool) -> Node:
    for operand in (value, low, high):
        _check_ordered(operand)
    if not negated and isinstance(low, Number) and isinstance(high, Number) and order_numbers(high, low) < 0:
        raise _refused(f"no value lies between {_show(low)} and {_show(high)}: the lower bound comes first")
    return Between(value, low, high, negated)


def _check_ordered(node: Node) -> None:
    if not isinstance(node, Number) and isinstance(node, (*LITERALS, *CONDITIONS)):
        raise _refused(f"{_show(node)} cannot be ordered: only numbers and properties can")


def _in(left: Node, values: tuple[str, ...], negated: bool) -> Node:
    if isinstance(left, BodyField):
        return InBody(left, values, negated)
    if not isinstance(left, Property):
        raise _refused(f"IN needs a property on its left, not {_show(left)}")
    return In(left.name, values, negated)


# --- literals --------------------------------------------------------------------------------------------------------


def _integer(text: str) -> Number:
    digits = text.rstrip("lL")
    value = int(digits) if len(digits) <= 19 else 1 << 63
    if value >= 1 << 63:
        raise _refused(f"{show(text)} does not fit 64 bits")
    return Number(value, NumberKind.INT32 if value < 1 << 31 else NumberKind.INT64)


def _float(text: str) -> Number:
    value = float(text)
    if value in (0.0, float("inf")):  # RocketMQ uses the smallest positive double as lower bound
        raise _refused(f"{show(text)} is {'zero' if value == 0 else 'infinite'} as a double, which is not allowed")
    return Number(value, NumberKind.DOUBLE)


def _unquoted(token: Token) -> str:
    return token.text[1:-1].replace("''", "'")


# --- errors ----------------------------------------------------------------------------------------------------------


def _refused(reason: str) -> LocalProtocolError:
    return LocalProtocolError(f"SQL92: {reason}")


def _too_deep() -> LocalProtocolError:
    return _refused(f"the expression is nested deeper than {MAX_DEPTH} levels")


def _unexpected(token: Token, wanted: str) -> LocalProtocolError:
    found = "the end" if token.kind == END else show(token.text)
    return _refused(f"expected {wanted} at character {token.position + 1}, found {found}")


def _show(node: Node) -> str:
    """Return a short text of an operand, or its type if it is too deep to be written."""
    return show(write(node)) if measure(node)[0] <= MAX_DEPTH else f"this {type(node).__name__}"
