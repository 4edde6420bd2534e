"""Percentiles and histograms from counts by value agree with those of the values themselves."""

from __future__ import annotations

import math
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from pyromq.pipelines.topic_profile.distributions import highest, histogram, percentiles, quantiles
from pyromq.pipelines.topic_profile.profile import Percentiles, Weight


def counted(values: list[int]) -> dict[int, Weight]:
    return {value: Weight(count, 10 * count) for value, count in Counter(values).items()}


@given(st.lists(st.integers(-1000, 1 << 40), min_size=1), st.lists(st.sampled_from([0.5, 0.9, 0.99, 1.0])))
def test_a_quantile_is_the_value_of_its_rank(values: list[int], shares: list[float]) -> None:
    ordered, shares = sorted(values), sorted(shares)
    expected = [ordered[math.ceil(share * len(ordered)) - 1] for share in shares]
    assert quantiles(counted(values), shares) == expected


def test_one_large_value_in_a_thousand_is_not_among_999_in_a_thousand() -> None:
    assert percentiles(counted([7] * 999 + [5000]), 10, 5000) == Percentiles(7, 7, 7, 7, 5000)
    assert percentiles(counted([7] * 998 + [5000] * 2), 10, 5000) == Percentiles(7, 7, 7, 5000, 5000)


@given(st.integers(-(1 << 40), 1 << 40), st.integers(2, 12))
def test_a_percentile_is_never_too_low_and_little_too_high(value: int, digits: int) -> None:
    rest = max(0, abs(value).bit_length() - digits)
    given_back = highest(value >> rest << rest, digits, 1 << 50)
    assert value <= given_back <= value + abs(value) / (1 << digits - 2)
    assert highest(value >> rest << rest, digits, value) == value, "the largest value is known"


def test_round_sizes_begin_a_step_of_the_histogram() -> None:
    steps = histogram(counted([1 << power for power in range(40)]), 8)
    assert steps == {8 * power: Weight(1, 10) for power in range(40)}


@given(st.lists(st.integers(-5, 1 << 40)), st.sampled_from([1, 8]))
def test_every_message_is_in_one_step_that_holds_its_value(values: list[int], steps_of_an_octave: int) -> None:
    steps = histogram(counted(values), steps_of_an_octave)
    assert sum(weight.messages for weight in steps.values()) == len(values)
    for value in values:
        low = math.floor(math.log2(value) * steps_of_an_octave) if value >= 1 else -1
        assert low in steps
