"""Listing: search, sort and pages, whatever a query says."""

from __future__ import annotations

import pytest

from pyromq.console.web.listing import Column, Listing

ROWS = [f"topic-{number:03}" for number in range(120)]
COLUMNS = (Column("name", lambda row: row), Column("number", lambda row: int(row[-3:]), descending=True))


def page(**asked: str) -> Listing[str]:
    return Listing.of(ROWS, asked, columns=COLUMNS, sort="name", search=lambda row: row)


def test_pages_are_cut_and_counted() -> None:
    assert page().rows == ROWS[:50]
    last = page(page="3")
    assert (last.rows, last.first, last.last, last.pages) == (ROWS[100:], 101, 120, 3)
    assert page(page="99").page == 3


def test_all_words_must_be_there() -> None:
    assert page(q="TOPIC 11").rows == ["topic-011", *(f"topic-11{number}" for number in range(10))]
    assert page(q="nothing").found == 0


def test_a_column_turns_round_and_links_keep_the_rest() -> None:
    found = page(sort="-number", q="topic", page="2")
    assert found.rows[0] == "topic-069"
    assert found.sort_url("number") == "?sort=number&q=topic"
    assert found.sort_url("name") == "?sort=name&q=topic"
    assert found.url(page=1) == "?sort=-number&q=topic&page=1"


@pytest.mark.parametrize(
    "asked", [{"page": "-1"}, {"page": "x"}, {"page": "9" * 50}, {"sort": "secret"}, {"q": "x" * 9999}]
)
def test_nonsense_is_a_page_too(asked: dict[str, str]) -> None:
    assert page(**asked).page >= 1
