"""The grammar: what is an expression, how it is grouped, what is refused and in which words."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.errors import LocalProtocolError
from pyromq.protocol.sql92.parser import MAX_DEPTH, MAX_LENGTH
from pyromq.protocol.sql92.sql_filter import compile_sql


@pytest.mark.parametrize(
    ("expression", "grouped"),
    [
        # precedence, lowest first: OR, AND, equality, order, prefix
        ("a=1 OR b=2 AND c=3", "(a = 1) OR ((b = 2) AND (c = 3))"),
        ("a=1 AND b=2 OR c=3", "((a = 1) AND (b = 2)) OR (c = 3)"),
        ("(a=1 OR b=2) AND c=3", "((a = 1) OR (b = 2)) AND (c = 3)"),
        ("a = b > 1", "a = (b > 1)"),
        ("a > 1 = TRUE", "(a > 1) = TRUE"),
        ("a > 1 IS NULL", "(a > 1) IS NULL"),
        ("NOT a = 5", "(NOT a) = 5"),
        ("NOT (a = 5)", "NOT (a = 5)"),
        ("NOT NOT a", "NOT (NOT a)"),
        ("a > -5", "a > -5"),
        ("a > - - 5", "a > -(-5)"),
        ("a > +5", "a > 5"),
        ("+a IN ('x')", "a IN ('x')"),
        ("((a)) IN ('x')", "a IN ('x')"),
        # binary levels are left-associative and may be repeated
        ("a = b = c", "(a = b) = c"),
        ("a <> b IS NULL IS NOT NULL", "((a <> b) IS NULL) IS NOT NULL"),
        ("a AND b AND c", "a AND b AND c"),
        ("(a AND b) AND c", "a AND b AND c"),
        ("a AND (b AND c)", "a AND (b AND c)"),
        # the forms of each level
        ("a >= 1 AND b <= 2", "(a >= 1) AND (b <= 2)"),
        ("a BETWEEN 1 AND 2 AND b", "(a BETWEEN 1 AND 2) AND b"),
        ("a NOT BETWEEN 1 AND 2", "a NOT BETWEEN 1 AND 2"),
        ("a NOT IN ('x', 'it''s')", "a NOT IN ('x', 'it''s')"),
        ("TRUE OR FALSE OR NULL", "TRUE OR FALSE OR NULL"),
        ("a", "a"),
        ("NULL IS NULL", "NULL IS NULL"),
        # keywords in any case, names in theirs
        ("a is NoT nUlL aNd A Is Null", "(a IS NOT NULL) AND (A IS NULL)"),
        ("inner_ = 1 or nullable = 2", "(inner_ = 1) OR (nullable = 2)"),
        ("$a_1 = 1", "$a_1 = 1"),
        ("now > 5", "now > 5"),
        # blanks and comments
        ("a\t=\n1\r\f", "a = 1"),
        ("a -- note\n = 1", "a = 1"),
        ("a -- note\r\n = 1", "a = 1"),
        ("a /* x * / ** */ = /**/ 1", "a = 1"),
        ("a = --5", "a = -(-5)"),  # no line end: two minus signs, no comment
        # numbers
        ("a = 5L", "a = 5"),
        ("a = 2147483648", "a = 2147483648"),
        ("a = 9223372036854775807", "a = 9223372036854775807"),
        ("a > 5.", "a > 5.0"),
        ("a > .5", "a > 0.5"),
        ("a > 5E10", "a > 50000000000.0"),
        ("a > 5.e+2", "a > 500.0"),
        ("a > 1e-7", "a > 1e-07"),
        # bounds that are not looked at: with a sign, or negated
        ("a BETWEEN -1 AND -2", "a BETWEEN -1 AND -2"),
        ("a NOT BETWEEN 2 AND 1", "a NOT BETWEEN 2 AND 1"),
        ("a BETWEEN 2 AND b", "a BETWEEN 2 AND b"),
        ("5 = TRUE", "5 = TRUE"),
        ("'x' = FALSE", "'x' = FALSE"),
        ("-a > b", "-a > b"),
        ("-'x' = 5", "-'x' = 5"),
    ],
)
def test_an_expression_is_grouped_as_rocketmq_groups_it(expression: str, grouped: str) -> None:
    found = compile_sql(expression)
    assert str(found) == grouped
    assert found.unread == ""
    assert compile_sql(grouped) == found


@pytest.mark.parametrize(
    ("expression", "read", "unread"),
    [
        ("a=3 b=4", "a = 3", "b=4"),
        ("a = 3 # no", None, None),  # the next token is looked at ...
        ("a = 3 b #", "a = 3", "b #"),  # ... and no further
        ("a = 3)", "a = 3", ")"),
        ("a > 5 -- note", "a > 5", "-- note"),
        ("a = 007", "a = 0", "07"),
        ("a = 0L", "a = 0", "L"),
        ("a = 1.2.3", "a = 1.2", ".3"),
        ("a CONTAINS 'x'", "a", "CONTAINS 'x'"),
        ("a LIKE 'x%'", "a", "LIKE 'x%'"),
        ("a + 1 > 2", "a", "+ 1 > 2"),
    ],
)
def test_reading_stops_behind_the_first_whole_expression(expression: str, read: str | None, unread: str | None) -> None:
    if read is None:
        with pytest.raises(LocalProtocolError):
            compile_sql(expression)
    else:
        found = compile_sql(expression)
        assert (str(found), found.unread) == (read, unread)


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        # no expression at all, or half of one
        ("", "expected a property, a literal or `(` at character 1, found the end"),
        ("  ", "found the end"),
        ("a =", "found the end"),
        ("= 5", "at character 1, found '='"),
        ("(a = 5", "expected `)` at character 7, found the end"),
        ("a and between 2 and 10", "found 'between'"),
        ("a IS 5", "expected `NULL` at character 6, found '5'"),
        ("a IS NOT 5", "expected `NULL`"),
        ("a NOT 5", "expected `IN` at character 7"),
        ("a BETWEEN 1 OR 2", "expected `AND`"),
        ("a IN 'x'", "expected `(`"),
        ("a IN ()", "expected a text in quotes"),
        ("a IN ('x' 'y')", "expected `)`"),
        ("a IN ('x',)", "expected a text in quotes"),
        ("a IN (5)", "expected a text in quotes at character 7, found '5'"),
        ("a IN (b)", "expected a text in quotes"),
        # what no token begins with
        ("a != 5", "unknown token at character 3: '!= 5'"),
        ("a == 5", "found '='"),
        ('a = "x"', "unknown token at character 5"),
        ("a.b = 5", "unknown token at character 2"),
        ("a = 'x", "unknown token at character 5"),
        ("a /* = 5", "unknown token at character 3"),
        ("größe > 5", "unknown token at character 3"),
        ("a = -- 5\n", "found the end"),
        # not a condition
        ("5", "'5' is not a condition"),
        ("'x'", "is not a condition"),
        ("a AND 5", "'5' is not a condition"),
        ("'x' OR a", "is not a condition"),
        ("NOT 5", "is not a condition"),
        ("-a", "'-a' is not a condition"),
        ("NOT -a", "is not a condition"),
        # numbers out of range
        ("a > 9223372036854775808", "does not fit 64 bits"),
        ("a > 100000000000000000000000", "does not fit 64 bits"),
        ("a > -9223372036854775808", "does not fit 64 bits"),
        ("a > 1e400", "infinite"),
        ("a > 0.0", "zero"),
        ("a > .0e5", "zero"),
        ("a > 1e-400", "zero"),
        # checks of `=`
        ("a = NULL", "IS NULL"),
        ("NULL <> a", "IS NULL"),
        ("TRUE = 5", "TRUE' cannot be compared with '5'"),
        ("FALSE = 'x'", "cannot be compared"),
        # checks of order
        ("a > 'x'", "cannot be ordered"),
        ("'x' < a", "cannot be ordered"),
        ("a >= TRUE", "cannot be ordered"),
        ("a <= NULL", "cannot be ordered"),
        ("a < (b = 1)", "cannot be ordered"),
        ("a > 1 > 2", "'a > 1' cannot be ordered"),
        ("a BETWEEN 'a' AND 'b'", "cannot be ordered"),
        ("a BETWEEN 1 AND NULL", "cannot be ordered"),
        ("a NOT BETWEEN 1 AND 'b'", "cannot be ordered"),
        ("a BETWEEN 10 AND 0", "no value lies between '10' and '0'"),
        ("a BETWEEN 1.5 AND 1", "no value lies between"),
        # IN needs a property
        ("5 IN ('x')", "IN needs a property on its left, not '5'"),
        ("-a IN ('x')", "IN needs a property"),
        ("a = 1 IN ('x')", "IN needs a property"),
        ("a IN ('x') IN ('y')", "IN needs a property"),
    ],
)
def test_what_rocketmq_refuses_is_refused_in_one_line(expression: str, reason: str) -> None:
    with pytest.raises(LocalProtocolError) as caught:
        compile_sql(expression)
    assert reason in str(caught.value)
    assert str(caught.value).startswith("SQL92: ")
    assert "\n" not in str(caught.value)


def refusal(expression: str) -> str:
    """Return why an expression is refused; nothing if it is not."""
    try:
        compile_sql(expression)
    except LocalProtocolError as error:
        return str(error)
    return ""


def test_an_error_shows_only_the_beginning_of_what_is_long() -> None:
    with pytest.raises(LocalProtocolError) as caught:
        compile_sql("a = '" + "x\n" * 1000)
    assert len(str(caught.value)) < 120
    assert "\n" not in str(caught.value)


# --- bounds ----------------------------------------------------------------------------------------------------------


def test_an_expression_has_a_longest_length() -> None:
    padding = " " * (MAX_LENGTH - len("a = 5"))
    assert compile_sql("a = 5" + padding).matches({"a": "5"})
    with pytest.raises(LocalProtocolError, match="8193 characters"):
        compile_sql("a =  5" + padding)


@pytest.mark.parametrize("before", ["(", "NOT (", "a = (", "(("])
def test_nesting_is_bounded_and_what_is_allowed_can_be_evaluated(before: str) -> None:
    text, deepest = "a = 5", 0
    while not (reason := refusal(text)):
        found = compile_sql(text)
        assert found.matches({"a": "5"}) in (True, False)
        assert compile_sql(str(found)) == found
        text, deepest = before + text + ")" * before.count("("), deepest + 1
    assert "nested deeper" in reason
    assert MAX_DEPTH // 2 - 2 <= deepest <= MAX_DEPTH


@pytest.mark.parametrize("sign", ["-", "+", "- ", "NOT "])
def test_a_row_of_prefixes_is_bounded(sign: str) -> None:
    assert compile_sql("a IS NULL AND b = (" + sign * 20 + "b)").matches({}) in (True, False)
    with pytest.raises(LocalProtocolError, match="nested deeper"):
        compile_sql("b = " + sign * 100 + "b")


def test_a_chain_of_comparisons_is_bounded() -> None:
    compile_sql("a" + " = a" * 50)
    for chain in (" = a", " IS NULL", " <> a"):
        with pytest.raises(LocalProtocolError, match="nested deeper"):
            compile_sql("a" + chain * 1000)


def test_a_long_row_of_conditions_is_not_deep() -> None:
    anything = compile_sql(" OR ".join(f"a={number}" for number in range(1000, 1600)))
    assert anything.matches({"a": "1599"})
    assert not anything.matches({"a": "1600"})
    everything = compile_sql(" AND ".join(f"a<>{number}" for number in range(1000, 1600)))
    assert everything.matches({"a": "1600"})
    assert not everything.matches({"a": "1599"})
    assert everything.size == 1 + 3 * 600


@pytest.mark.parametrize(
    "expression",
    [
        "'" * MAX_LENGTH,
        "(" * MAX_LENGTH,
        "-" * MAX_LENGTH,
        "/*" * (MAX_LENGTH // 2),
        "/" + "*" * (MAX_LENGTH - 1),
        "1" * MAX_LENGTH,
        "0" * MAX_LENGTH,
        "9" * (MAX_LENGTH - 1) + ".",
        "1e" + "9" * (MAX_LENGTH - 2),
        "a = '" + "''" * (MAX_LENGTH // 2 - 3),
        "a=" * (MAX_LENGTH // 2),
        "a --" * (MAX_LENGTH // 4),
        "a IN (" + "''," * (MAX_LENGTH // 3 - 2),
        "a" + " IS NULL" * 2000 + " IN ('x')",
        "NOT " * (MAX_LENGTH // 4),
    ],
)
def test_no_text_takes_long_to_read(expression: str) -> None:
    started = time.process_time()
    assert len(refusal(expression)) < 200
    assert time.process_time() - started < 5  # seconds; it takes some milliseconds


@given(st.text(max_size=60) | st.text("ab1.'()=<>- \n/*,eNOT", max_size=80))
def test_any_text_is_an_expression_or_refused(text: str) -> None:
    if reason := refusal(text):
        assert "\n" not in reason
        return
    found = compile_sql(text)
    assert text.endswith(found.unread)
    assert compile_sql(str(found)) == found
    assert found.matches({"a": "1"}) in (True, False)
