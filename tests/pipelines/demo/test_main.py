"""The demo tells the truth about what went in and what came out."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from rich.console import Console

from pyromq.pipelines.common.streams import LATE, REPEATED
from pyromq.pipelines.demo.books import Books, WindowSum, claims
from pyromq.pipelines.demo.departments import Stock
from pyromq.pipelines.demo.main import Demo, claims_table, run
from pyromq.pipelines.demo.shop import Shop, fates
from pyromq.pipelines.demo.shop_day import Claim
from pyromq.pipelines.orders import REASONS
from pyromq.pipelines.outcome import Outcome
from tests.pipelines.html_page import Html

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def test_a_line_that_differs_in_number_or_in_money_is_seen() -> None:
    assert claims_table({"all": [Claim("a", 2, 2), Claim("b", 0, 0, 5, 5)]})[1]
    assert not claims_table({"all": [Claim("a", 2, 2)], "more": [Claim("b", 1, 0)]})[1]
    assert not claims_table({"all": [Claim("a", 2, 3)]})[1]
    assert not claims_table({"all": [Claim("a", 2, 2, 30, 29)]})[1]


@pytest.fixture
def shop() -> Shop:
    """A shop that has received one order twice, and some invalid messages."""
    shop = Shop(Stock(), timedelta(seconds=1))
    shop.orders = {fate.order: fate for fate in fates(1, seed=1)}
    shop.sent = {(0, "created"), (0, "paid")}
    shop.repeated = 1
    shop.rubbish[REASONS[0]] = 2
    return shop


@pytest.fixture
def books(shop: Shop) -> Books:
    """What should come out of Spark for this shop."""
    totals = {state: total for state, total in shop.totals().items() if total[0]}
    sums = [WindowSum(NOON, state, *total) for state, total in totals.items()]
    return Books(totals, sums, {REASONS[0]: 2}, Outcome(read=5, written=2, dropped={REPEATED: 1}))


def test_true_books_agree(shop: Shop, books: Books) -> None:
    assert [claim for claim in claims(shop, books) if not claim.is_true] == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"kept": {}},
        {"kept": {"created": (1, 1), "paid": (1, 1)}},
        {"sums": []},
        {"rejected": {}},
        {"rejected": {REASONS[0]: 1, REASONS[1]: 1}},
        {"outcome": Outcome(read=5, written=3, dropped={})},
        {"outcome": Outcome(read=5, written=2, dropped={REPEATED: 1, LATE: 1})},
    ],
)
def test_wrong_books_are_seen(shop: Shop, books: Books, wrong: dict[str, Any]) -> None:
    assert not all(claim.is_true for claim in claims(shop, books._replace(**wrong)))


def test_a_state_that_nobody_sent_is_seen(shop: Shop, books: Books) -> None:
    books.kept["dreamt of"] = (1, 5)
    assert not all(claim.is_true for claim in claims(shop, books))


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_a_day_in_the_shop_ends_with_books_that_agree_and_a_page(spark: SparkSession, tmp_path: Path) -> None:
    demo = Demo(orders=60, seed=0, patience=timedelta(seconds=1), out=tmp_path / "kept")
    parts = run(demo, lambda: spark, Console(file=io.StringIO()))
    assert [claim for part in parts.values() for claim in part if not claim.is_true] == []
    nothing = {claim.name for part in parts.values() for claim in part if not claim.expected}
    assert len(nothing) == 4, f"everything else has happened: {nothing}"
    page = Html(demo.page.read_text())
    assert f"all {sum(map(len, parts.values()))} lines agree" in page.text
    assert 'li class="warn"' not in demo.page.read_text(), "nothing looks wrong where all is well"
    for word in ("A day in the shop", "Cents by window and state", "stock: every state", "Size of bodies", "Behind"):
        assert word in page.text
