"""A second, plain evaluator, and random expressions of which it knows the meaning without a parser.

An expression is a tuple (form, operand …) with its text; the text is put together with and without parentheses where
the grammar leaves the choice.
"""

from __future__ import annotations

import re
from typing import Any

from hypothesis import strategies as st

NAMES = ["a", "b", "c", "$d_1"]
TEXTS = ["x", "it's", "5", "true", "", "Ü"]
NUMBERS: dict[str, tuple[int | float, int | str]] = {
    "0": (0, 32), "5": (5, 32), "7L": (7, 32), "2147483647": (2**31 - 1, 32),
    "2147483648": (2**31, 64), "9223372036854775807": (2**63 - 1, 64),
    "2.5": (2.5, "double"), ".5": (0.5, "double"), "5.": (5.0, "double"), "1e3": (1000.0, "double"),
}  # fmt: skip
VALUES = [
    "5", "-5", "+7", "0", "-0.0", "2.5", " 2.5 ", "1e3", "3000000000", "2147483648", "-2147483649",
    "9223372036854775808", "NaN", "Infinity", "-Infinity", "1.5d", "x", "it's", "true", "TRUE", "false", "Ü", "5x",
]  # fmt: skip


class Failure(Exception):
    """The expression has no value for these properties."""


# --- meaning ---------------------------------------------------------------------------------------------------------


def evaluate(node: Any, properties: dict[str, str]) -> Any:
    """Return True, False or None; of an operand, a text or a number as (value, kind)."""
    form, *parts = node
    if form == "literal":
        return parts[0]
    if form == "property":
        return properties.get(parts[0])
    if form == "flag":
        return None if parts[0] not in properties else False
    if form == "-":
        value = evaluate(parts[0], properties)
        return (-value[0], value[1]) if isinstance(value, tuple) else None
    if form == "NOT":
        return negated(evaluate(parts[0], properties))
    if form == "AND":
        return both(evaluate(parts[0], properties), lambda: evaluate(parts[1], properties))
    if form == "OR":
        first = negated(evaluate(parts[0], properties))
        return negated(both(first, lambda: negated(evaluate(parts[1], properties))))
    if form == "IS NULL":
        return evaluate(parts[0], properties) is None
    if form == "IN":
        value = properties.get(parts[0])
        return None if value is None else value in parts[1]
    return compare(form, parts[0], parts[1], properties)


def negated(truth: bool | None) -> bool | None:
    return None if truth is None else not truth


def both(first: bool | None, second: Any) -> bool | None:
    if first is False:
        return False
    truth: bool | None = second()
    if truth is False:
        return False
    return None if first is None or truth is None else True


def compare(sign: str, left: Any, right: Any, properties: dict[str, str]) -> bool | None:
    if sign == "<>":
        return negated(compare("=", left, right, properties))
    one = evaluate(left, properties)
    if one is None and sign != "=":
        return None
    other = evaluate(right, properties)
    if sign == "=":
        if one is None:
            return True if other is None else None
        return other is not None and place(one, other) == 0
    if other is None:
        return None
    if isinstance(one, str) and isinstance(other, str):
        one, other = (number(one, "double"), "double"), (number(other, "double"), "double")
    found = place(one, other)
    return {"<": found < 0, "<=": found <= 0, ">": found > 0, ">=": found >= 0}[sign]


def place(one: Any, other: Any) -> int:
    """Return -1, 0 or 1 as the first of two values comes before, with or behind the second."""
    if isinstance(one, str) and isinstance(other, str):
        return 0 if one == other else -1
    if isinstance(one, str):
        one = one.lower() == "true" if isinstance(other, bool) else (number(one, other[1]), other[1])
    elif isinstance(other, str):
        if isinstance(one, bool):
            raise Failure
        other = (number(other, one[1]), one[1])
    if isinstance(one, bool) != isinstance(other, bool):
        return -1
    if isinstance(one, bool):
        return int(one) - int(other)
    keys = [one[0], other[0]]
    if "double" in (one[1], other[1]):
        keys = [sorting_key(float(key)) for key in keys]
    return int(keys[0] > keys[1]) - int(keys[0] < keys[1])


def sorting_key(value: float) -> tuple[bool, float, bool]:
    """Return what sorts doubles as Java does: -0.0 before 0.0, NaN last."""
    if value != value:
        return True, 0.0, False
    return False, value, not str(value).startswith("-")


def number(text: str, kind: int | str) -> int | float:
    if kind == "double":
        plain = re.fullmatch(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)[fFdD]?", text.strip(" "), re.ASCII)
        if plain:
            return float(plain[1])
        if text.strip(" ") in ("NaN", "Infinity", "-Infinity"):
            return float(text)
        raise Failure
    assert isinstance(kind, int)
    if not re.fullmatch(r"[+-]?\d+", text, re.ASCII) or not -(2 ** (kind - 1)) <= int(text) < 2 ** (kind - 1):
        raise Failure
    return int(text)


# --- random expressions ----------------------------------------------------------------------------------------------

Written = tuple[str, Any]
"""A text and what it means."""

properties = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(VALUES))
_names = st.sampled_from(NAMES)
_property = _names.map(lambda name: (name, ("property", name)))
_number = st.sampled_from(list(NUMBERS)).map(lambda text: (text, ("literal", NUMBERS[text])))
_text = st.sampled_from(TEXTS).map(lambda text: ("'" + text.replace("'", "''") + "'", ("literal", text)))
_truth = st.sampled_from([("TRUE", True), ("false", False)]).map(lambda pair: (pair[0], ("literal", pair[1])))
_null = st.just(("NULL", ("literal", None)))
_flag = _names.map(lambda name: (name, ("flag", name)))


def _in_parentheses(written: Written) -> Written:
    return f"({written[0]})", written[1]


def _negative(written: Written) -> Written:
    return f"- {written[0]}", ("-", written[1])


_ordered = st.one_of(
    _property, _number, _number.map(_negative), _property.map(_negative), _property.map(_in_parentheses)
)


@st.composite
def _orders(draw: st.DrawFn) -> Written:
    sign = draw(st.sampled_from(["<", "<=", ">", ">="]))
    (left, one), (right, other) = draw(_ordered), draw(_ordered)
    return f"{left}{draw(_blank)}{sign} {right}", (sign, one, other)


@st.composite
def _ranges(draw: st.DrawFn) -> Written:
    value, low, high = draw(_ordered), draw(_ordered), draw(_ordered)
    # A literal bound above the other is refused; a sign before it hides that.
    if low[1][0] == high[1][0] == "literal" and place(low[1][1], high[1][1]) > 0:
        low, high = high, low
    if draw(st.booleans()):
        return f"{value[0]} NOT BETWEEN {low[0]} AND {high[0]}", (
            "OR",
            ("<", value[1], low[1]),
            (">", value[1], high[1]),
        )
    return f"{value[0]} between {low[0]} and {high[0]}", ("AND", (">=", value[1], low[1]), ("<=", value[1], high[1]))


@st.composite
def _lists(draw: st.DrawFn) -> Written:
    name, values = draw(_names), draw(st.lists(_text, min_size=1, max_size=6))
    form = ("IN", name, [meaning[1] for _, meaning in values])
    texts = ", ".join(text for text, _ in values)
    if draw(st.booleans()):
        return f"{name} NOT IN ({texts})", ("NOT", form)
    return f"{name} in ({texts})", form


def _is_not_null(written: Written) -> bool:
    return bool(written[1] != ("literal", None))  # `= NULL` is refused


def _as_operand(written: Written) -> Written:
    """Put a condition where a value is wanted: a property alone is no condition there."""
    text, meaning = written
    return f"({text})", ("property", meaning[1]) if meaning[0] == "flag" else meaning


def _equalities(conditions: st.SearchStrategy[Written]) -> st.SearchStrategy[Written]:
    operands = st.one_of(_ordered, _text, _truth, conditions.filter(_is_not_null).map(_as_operand))

    @st.composite
    def build(draw: st.DrawFn) -> Written:
        sign = draw(st.sampled_from(["=", "<>", " = ", " <> "]))
        (left, one), (right, other) = draw(operands), draw(operands)
        if (
            one[0] == "literal"
            and isinstance(one[1], bool)
            and other[0] == "literal"
            and not isinstance(other[1], bool)
        ):
            (left, one), (right, other) = (right, other), (left, one)  # that order is refused
        return left + sign + right, (sign.strip(), one, other)

    return build()


@st.composite
def _null_tests(draw: st.DrawFn, operands: st.SearchStrategy[Written]) -> Written:
    text, meaning = draw(operands)
    if draw(st.booleans()):
        return f"{text} IS NOT NULL", ("NOT", ("IS NULL", meaning))
    return f"{text} is null", ("IS NULL", meaning)


@st.composite
def _logic(draw: st.DrawFn, conditions: st.SearchStrategy[Written]) -> Written:
    form = draw(st.sampled_from(["AND", "OR"]))
    parts = draw(st.lists(conditions, min_size=2, max_size=4))
    meaning = parts[0][1]
    for _, other in parts[1:]:
        meaning = (form, meaning, other)
    return f" {form} ".join(f"({text})" for text, _ in parts), meaning


def _not(written: Written) -> Written:
    return f"NOT ({written[0]})", ("NOT", written[1])


_blank = st.sampled_from([" ", "\n", " /* why */ ", " -- why\n", "\t"])
_simple = st.one_of(_orders(), _ranges(), _lists(), _truth, _null, _flag, _equalities(_flag), _null_tests(_ordered))
expressions = st.recursive(
    _simple,
    lambda inner: st.one_of(
        _logic(inner),
        inner.map(_not),
        _equalities(inner),
        _null_tests(inner.map(_in_parentheses)),
        inner.map(_in_parentheses),
    ),
    max_leaves=12,
)
