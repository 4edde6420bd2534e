"""A thousand expressions, most of them odd, with the answers of RocketMQ 4.9.3's own filter: sql92.jsonl."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from pyromq.errors import LocalProtocolError
from pyromq.protocol.sql92.sql_filter import compile_sql
from pyromq.protocol.sql92.values import Incomparable

CASES = Path(__file__).with_name("sql92.jsonl")


def answer(expression: str, properties: dict[str, str]) -> str:
    """Return the answer of our filter, in the words of the file."""
    try:
        truth = compile_sql(expression).evaluate(properties)
    except LocalProtocolError:
        return "INVALID"
    except Incomparable:
        return "ERROR"
    return "UNKNOWN" if truth is None else str(truth).upper()


def test_every_expression_gets_the_answer_that_rocketmq_gives() -> None:
    cases = [json.loads(line) for line in CASES.read_text().splitlines()]
    wrong = [(*case, found) for case in cases if (found := answer(case[0], case[1])) != case[2]]
    assert wrong == []
    assert min(Counter(case[2] for case in cases).values()) >= 100  # all five kinds of answers are there
