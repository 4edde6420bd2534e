"""The text of an order setting."""

from __future__ import annotations

import pytest

from pyromq.admin.topics.order_setting import changed_order


@pytest.mark.parametrize(
    ("before", "queues", "after"),
    [
        (None, {"b": 8, "a": 4}, "a:4;b:8"),
        ("a:4", {"b": 8}, "a:4;b:8"),
        ("a:4;b:8", {"a": 2}, "a:2;b:8"),
        ("a:4;b:8", {"a": None}, "b:8"),
        ("a:4", {"a": None}, ""),
        (None, {"a": None}, ""),
        ("", {}, ""),
    ],
)
def test_the_parts_of_other_brokers_stay(before: str | None, queues: dict[str, int | None], after: str) -> None:
    assert changed_order(before, queues) == after
