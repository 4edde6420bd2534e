from __future__ import annotations

from typing import Any

from hypothesis import example, given, settings

from pyromq.protocol.sql92.sql_filter import compile_sql
from pyromq.protocol.sql92.values import Incomparable
from tests.protocol.sql92 import oracle


def plainly(meaning: Any, properties: dict[str, str]) -> object:
    try:
        return oracle.evaluate(meaning, properties)
    except oracle.Failure:
        return "fails"


def compiled(text: str, properties: dict[str, str]) -> object:
    try:
        return compile_sql(text).evaluate(properties)
    except Incomparable:
        return "fails"


@settings(max_examples=500)
@given(oracle.expressions, oracle.properties)
@example(("a > b", (">", ("property", "a"), ("property", "b"))), {"a": "NaN", "b": "Infinity"})
def test_a_filter_says_what_the_plain_evaluator_says(written: oracle.Written, properties: dict[str, str]) -> None:
    text, meaning = written
    expected = plainly(meaning, properties)
    assert compiled(text, properties) == expected
    assert compile_sql(text).matches(properties) is (expected is True)


@given(oracle.expressions, oracle.properties)
def test_an_expression_written_down_again_means_the_same(written: oracle.Written, properties: dict[str, str]) -> None:
    found = compile_sql(written[0])
    again = compile_sql(str(found))
    assert again == found
    assert str(again) == str(found)
    assert compiled(str(found), properties) == compiled(written[0], properties)
