"""The three truths: every rule of RocketMQ's evaluation, its surprises too."""

from __future__ import annotations

import pytest

from pyromq.protocol.sql92.sql_filter import compile_sql
from pyromq.protocol.sql92.values import Incomparable

FAILS = "fails"
"""The comparison cannot be made: the message does not match, whatever the rest of the expression says."""

Truth = bool | None | str


def truth(expression: str, properties: dict[str, str]) -> Truth:
    try:
        return compile_sql(expression).evaluate(properties)
    except Incomparable:
        return FAILS


def check(expression: str, properties: dict[str, str], expected: Truth) -> None:
    assert truth(expression, properties) == expected
    assert compile_sql(expression).matches(properties) is (expected is True)


# TRUE, FALSE and NULL are literals of the language, so the tables can be written down as they are.
AND = {
    ("TRUE", "TRUE"): True, ("TRUE", "FALSE"): False, ("TRUE", "NULL"): None,
    ("FALSE", "TRUE"): False, ("FALSE", "FALSE"): False, ("FALSE", "NULL"): False,
    ("NULL", "TRUE"): None, ("NULL", "FALSE"): False, ("NULL", "NULL"): None,
}  # fmt: skip
OR = {
    ("TRUE", "TRUE"): True, ("TRUE", "FALSE"): True, ("TRUE", "NULL"): True,
    ("FALSE", "TRUE"): True, ("FALSE", "FALSE"): False, ("FALSE", "NULL"): None,
    ("NULL", "TRUE"): True, ("NULL", "FALSE"): None, ("NULL", "NULL"): None,
}  # fmt: skip
NOT = {"TRUE": False, "FALSE": True, "NULL": None}


@pytest.mark.parametrize(("operands", "expected"), AND.items())
def test_and(operands: tuple[str, str], expected: bool | None) -> None:
    check(" AND ".join(operands), {}, expected)
    check(f"TRUE AND {operands[0]} AND {operands[1]}", {}, expected)
    check(f"{operands[0]} AND ({operands[1]} AND TRUE)", {}, expected)


@pytest.mark.parametrize(("operands", "expected"), OR.items())
def test_or(operands: tuple[str, str], expected: bool | None) -> None:
    check(" OR ".join(operands), {}, expected)
    check(f"FALSE OR {operands[0]} OR {operands[1]}", {}, expected)
    check(f"{operands[0]} OR ({operands[1]} OR FALSE)", {}, expected)


@pytest.mark.parametrize(("operand", "expected"), NOT.items())
def test_not(operand: str, expected: bool | None) -> None:
    check(f"NOT {operand}", {}, expected)
    check(f"NOT NOT NOT {operand}", {}, expected)


RULES: list[tuple[str, dict[str, str], Truth]] = [
    # IS NULL, never unknown
    ("a IS NULL", {}, True),
    ("a IS NULL", {"a": "x"}, False),
    ("a IS NOT NULL", {}, False),
    ("a IS NOT NULL", {"a": "x"}, True),
    ("(a > 1) IS NULL", {}, True),
    ("a > 1 IS NOT NULL", {"a": "0"}, True),
    # `=`: both missing, left missing, right missing
    ("a = b", {}, True),
    ("a = b", {"b": "x"}, None),
    ("a = b", {"a": "x"}, False),
    ("a = 'x'", {}, None),
    ("'x' = a", {}, False),
    ("5 = a", {}, False),
    ("a = b", {"a": "x", "b": "x"}, True),
    ("a = b", {"a": "1", "b": "1.0"}, False),
    ("a = 'x'", {"a": "x"}, True),
    ("a = 'x'", {"a": "X"}, False),
    ("a = 'it''s'", {"a": "it's"}, True),
    # `<>` is the opposite
    ("a <> 'v'", {}, None),
    ("'v' <> a", {}, True),
    ("a <> b", {}, False),
    ("a <> b", {"a": "x"}, True),
    ("a <> b", {"b": "x"}, None),
    ("a <> 5", {"a": "6"}, True),
    ("a <> 5", {}, None),
    ("a <> 5.5", {"a": "5.5"}, False),
    ("a <> 'x'", {"a": "x"}, False),
    # order: unknown where either is missing; two properties are doubles
    ("a > 5", {}, None),
    ("5 < a", {}, None),
    ("a > b", {"a": "1"}, None),
    ("a > b", {"a": "10", "b": "9"}, True),
    ("a > b", {"a": "1e3", "b": "999.5"}, True),
    ("a <= b", {"a": "x", "b": "1"}, FAILS),
    ("a > 5", {"a": "6"}, True),
    ("a > 5", {"a": "5"}, False),
    ("a >= 5", {"a": "5"}, True),
    ("a < 5", {"a": "-7"}, True),
    ("a <= 5", {"a": "+5"}, True),
    ("5 > a", {"a": "4"}, True),
    ("a > -5", {"a": "-4"}, True),
    ("3 < 5", {}, True),
    # BETWEEN and NOT BETWEEN
    ("a BETWEEN 2 AND 10", {"a": "2"}, True),
    ("a BETWEEN 2 AND 10", {"a": "10"}, True),
    ("a BETWEEN 2 AND 10", {"a": "11"}, False),
    ("a BETWEEN 2 AND 10", {}, None),
    ("a BETWEEN 2 AND b", {"a": "1"}, False),  # below the one is enough, whatever the other is
    ("a BETWEEN 2 AND b", {"a": "3"}, None),
    ("a NOT BETWEEN 2 AND 10", {"a": "1"}, True),
    ("a NOT BETWEEN 2 AND 10", {"a": "10"}, False),
    ("a NOT BETWEEN 2 AND 10", {}, None),
    ("a NOT BETWEEN 2 AND b", {"a": "1"}, True),
    ("a BETWEEN -5 AND -7", {"a": "-6"}, False),
    ("a BETWEEN 0 AND 100", {"a": "abc"}, FAILS),
    # IN: the exact text
    ("a IN ('x', 'y')", {}, None),
    ("a IN ('x', 'y')", {"a": "y"}, True),
    ("a IN ('x', 'y')", {"a": "Y"}, False),
    ("a IN ('5')", {"a": "5.0"}, False),
    ("a NOT IN ('x', 'y')", {}, None),
    ("a NOT IN ('x', 'y')", {"a": "y"}, False),
    ("a NOT IN ('x', 'y')", {"a": "z"}, True),
    # a minus sign before anything but a number gives NULL
    ("-a = 5", {"a": "-5"}, None),
    ("-a IS NULL", {"a": "5"}, True),
    ("-'x' IS NULL", {}, True),
    ("-TRUE IS NULL", {}, True),
    ("a > -b", {"a": "5", "b": "1"}, None),
    ("- -5 = a", {"a": "5"}, True),
    ("a = +5", {"a": "5"}, True),
    # a property alone is no condition that could hold
    ("a", {}, None),
    ("a", {"a": "true"}, False),
    ("NOT a", {"a": "true"}, True),
    ("NOT a = 5", {"a": "5"}, False),
    ("NOT a = 5", {}, None),
    ("NOT (a = 5)", {"a": "6"}, True),
    ("a = TRUE", {"a": "true"}, True),
]

COERCIONS: list[tuple[str, dict[str, str], Truth]] = [
    # a text on the left is read as what stands on the right
    ("a = 3", {"a": "3"}, True),
    ("a = 3", {"a": "003"}, True),
    ("a = 3", {"a": "3.5"}, FAILS),
    ("a > 3", {"a": "3.5"}, FAILS),
    ("a = 3", {"a": "3000000000"}, FAILS),
    ("a > 3", {"a": "3000000000"}, FAILS),
    ("a = 3", {"a": "abc"}, FAILS),
    ("a = 3", {"a": " 3"}, FAILS),
    ("a = 3", {"a": "3L"}, FAILS),
    ("a = 3", {"a": "1_0"}, FAILS),
    ("a = 3", {"a": "٣"}, True),  # Java knows the digits of all scripts in whole numbers
    ("a > 2147483648", {"a": "3000000000"}, True),
    ("a > -2147483648", {"a": "3000000000"}, True),  # 2147483648 is a 64-bit number before it is negated
    ("a > -2147483647", {"a": "3000000000"}, FAILS),
    ("a = 2147483648", {"a": "9223372036854775808"}, FAILS),
    ("a > 3.0", {"a": "3.5"}, True),
    ("a > 3.5", {"a": "4"}, True),
    ("a > 3.0", {"a": "3000000000"}, True),
    ("a > 3.0", {"a": " 3.5\t"}, True),
    ("a > 3.0", {"a": "3.5f"}, True),
    ("a = 3.5", {"a": "0x7p-1"}, True),
    ("a > 3.0", {"a": "٣.٥"}, FAILS),
    ("a > 3.0", {"a": "abc"}, FAILS),
    ("a > 3.0", {"a": "inf"}, FAILS),
    ("a > 3.0", {"a": "Infinity"}, True),
    ("a > 3.0", {"a": "NaN"}, True),  # Java's order puts it behind everything
    ("a < 3.0", {"a": "NaN"}, False),
    ("a >= b", {"a": "NaN", "b": "NaN"}, True),
    ("a > b", {"a": "0", "b": "-0.0"}, True),
    ("a = TRUE", {"a": "TrUe"}, True),
    ("a = TRUE", {"a": "yes"}, False),
    ("a = FALSE", {"a": "yes"}, True),
    ("a = FALSE", {}, None),
    # a text on the right is read as what stands on the left
    ("3 = a", {"a": "3"}, True),
    ("3 = a", {"a": "3.0"}, FAILS),
    ("3 < a", {"a": "3.5"}, FAILS),
    ("2147483648 < a", {"a": "3000000000"}, True),
    ("3.5 <= a", {"a": "3.5"}, True),
    ("3 = 'x'", {}, FAILS),
    ("TRUE = a", {"a": "true"}, FAILS),
    ("(b = 1) = a", {"a": "true", "b": "1"}, FAILS),
    ("a = (b = 1)", {"a": "true", "b": "1"}, True),
    # numbers of different kinds
    ("5 = 5.0", {}, True),
    ("5 < 5.5", {}, True),
    ("3000000000 > 5", {}, True),
    ("5 < 3000000000", {}, True),
    ("3000000000 = 3e9", {}, True),
    ("9007199254740993 = 9007199254740992.0", {}, True),  # as doubles they are the same
    ("-5 < 5", {}, True),
    # other mixes count as less
    ("5 = TRUE", {}, False),
    ("5 <> TRUE", {}, True),
    ("(a = 1) = 5", {"a": "1"}, False),
    ("(a = 1) = (b = 1)", {"a": "1", "b": "2"}, False),
    ("(a = 1) = TRUE", {"a": "1"}, True),
    ("'true' = TRUE", {}, True),
]


@pytest.mark.parametrize(("expression", "properties", "expected"), RULES)
def test_a_rule(expression: str, properties: dict[str, str], expected: Truth) -> None:
    check(expression, properties, expected)


@pytest.mark.parametrize(("expression", "properties", "expected"), COERCIONS)
def test_a_coercion(expression: str, properties: dict[str, str], expected: Truth) -> None:
    check(expression, properties, expected)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("a = 1 OR TRUE", FAILS),
        ("TRUE OR a = 1", True),
        ("FALSE AND a = 1", False),
        ("a = 1 AND FALSE", FAILS),
        ("NULL AND a = 1", FAILS),
        ("b > 1 OR a = 1", FAILS),
        ("b > -(a = 1)", None),  # the left side is missing: the right one is not looked at
        ("b = -(a = 1)", FAILS),  # `=` looks at both
        ("(a = 1) IS NULL", FAILS),
        ("NOT (a = 1)", FAILS),
    ],
)
def test_what_cannot_be_compared_decides_alone_unless_it_is_not_looked_at(expression: str, expected: Truth) -> None:
    check(expression, {"a": "abc"}, expected)


def test_a_number_of_absurd_length_is_none() -> None:
    assert truth("a > 0", {"a": "1" * 30_000}) == FAILS
    assert truth("a > 1.5", {"a": "1" * 30_000}) == FAILS
    assert truth("a > b", {"a": "1" * 300, "b": "1" * 299}) is True


def test_every_property_of_a_message_can_be_asked_for() -> None:
    wanted = compile_sql("TAGS = 'paid' AND KEYS IS NOT NULL AND amount > 10")
    assert wanted.matches({"TAGS": "paid", "KEYS": "o-1", "amount": "11"})
    assert not wanted.matches({"TAGS": "paid", "amount": "11"})
