"""The registry of figures: rows, how they are read, and /varz."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from pyromq.figures import BoundFigures, Figure, Figures, Kind

ROWS: tuple[Figure[SimpleNamespace], ...] = (
    Figure("sent", "Messages sent.", Kind.COUNTER, lambda part: part.sent),
    Figure("lag_ms", "How late it is.", Kind.GAUGE, lambda part: part.lag_ms),
    Figure("sent_by_topic", "Messages sent.", Kind.COUNTER, lambda part: part.topics, label="topic"),
    Figure("epoch", "For tools only.", Kind.GAUGE, lambda part: part.epoch, runtime="epochOf", in_varz=False),
)


def part(**values: object) -> SimpleNamespace:
    return SimpleNamespace(**{"sent": 3, "lag_ms": 1.26, "topics": {"orders": 2}, "epoch": 7, **values})


def test_varz_shows_values_by_name_with_one_digit_and_leaves_out_what_is_for_tools() -> None:
    figures = Figures(BoundFigures(ROWS, part))
    assert figures.varz() == {"sent": 3, "lag_ms": 1.3, "sent_by_topic": {"orders": 2}}


def test_the_subject_is_looked_up_once_for_all_rows_and_not_at_all_if_none_is_wanted() -> None:
    asked = []

    def subject() -> SimpleNamespace:
        asked.append(True)
        return part(sent=len(asked))

    figures = Figures(BoundFigures(ROWS, subject))
    assert list(figures.read(lambda row: False)) == []
    assert asked == []
    assert [value for _, value in figures.read()] == [1, 1.26, {"orders": 2}, 7]
    assert len(asked) == 1


def test_parts_are_read_in_order_and_afresh_each_time() -> None:
    first, second = part(), SimpleNamespace(held=0)
    held: Figure[SimpleNamespace] = Figure("held", "Pulls.", Kind.GAUGE, lambda pulls: pulls.held)
    figures = Figures(BoundFigures((held,), lambda: second), BoundFigures(ROWS[:1], lambda: first))
    assert list(figures.varz()) == ["held", "sent"]
    second.held = 4
    assert figures.varz() == {"held": 4, "sent": 3}


def test_two_figures_cannot_share_a_name() -> None:
    with pytest.raises(ValueError, match="more than one figure is named sent, lag_ms"):
        Figures(BoundFigures(ROWS[:2], part), BoundFigures(ROWS[:2], part))
