"""Figures are formatted as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.pipelines.pages import wording


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (wording.short(1_234_567), "1.23 M"),
        (wording.short(950), "950"),
        (wording.short(0), "0"),
        (wording.short(0.5), "0.5"),
        (wording.short(0.005), "0.005"),
        (wording.size(0), "0 B"),
        (wording.size(1023), "1 KiB"),
        (wording.size(3.5 * 2**20), "3.5 MiB"),
        (wording.span(250), "250 ms"),
        (wording.span(90_000), "1.5 min"),
        (wording.share(1, 3), "33 %"),
        (wording.share(1, 1_000_000), "under 0.1 %"),
        (wording.share(999_999, 1_000_000), "over 99.9 %"),
        (wording.share(5, 5), "100 %"),
        (wording.share(0, 0), "0 %"),
        (wording.many(1, "queue"), "1 queue"),
        (wording.many(2000, "queue"), "2,000 queues"),
        (wording.listed(["a", "b", "c", "d"]), "a, b, c and 1 more"),
        (wording.listed(["a", "b"]), "a and b"),
        (wording.cut_middle("customer-1", 10), "customer-1"),
        (wording.cut_middle("customer-12", 10), "custo…r-12"),
        (wording.cut_front("broker-a/0", 7), "…er-a/0"),
        (wording.cut_front("3", 7), "3"),
    ],
)
def test_figures_are_worded(text: str, expected: str) -> None:
    assert text == expected


@given(st.floats(min_value=0, max_value=1e18))
def test_no_figure_has_an_exponent_or_is_long(number: float) -> None:
    for text in (wording.short(number), wording.size(number), wording.span(number)):
        assert "e" not in text.replace("sec", "")
        assert len(text) < 22
