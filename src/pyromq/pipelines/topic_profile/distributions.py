"""Distributions: turns counts by value, from Spark, into percentiles and histograms."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from pyromq.pipelines.topic_profile.profile import Percentiles, Weight

Values = Mapping[int, Weight]
"""Messages and bytes for each value."""

STEPS_OF_AN_OCTAVE = 8
"""Resolution of the histogram of sizes: each step is 9 % larger than the one before."""
_SHARES = (0.5, 0.9, 0.99, 0.999)


def percentiles(values: Values, digits: int, most: int) -> Percentiles:
    """Return the percentiles of values rounded to `digits`; `most` is the exact largest value."""
    found = [highest(value, digits, most) for value in quantiles(values, _SHARES)]
    return Percentiles._make([*found, most])


def highest(value: int, digits: int, most: int) -> int:
    """Return the largest number, up to `most`, that is rounded down to this value at `digits` binary digits."""
    return min(value | ((1 << max(0, value.bit_length() - digits)) - 1), most)


def quantiles(values: Values, shares: Sequence[float]) -> list[int]:
    """Return, for each share in rising order, the smallest value that this share of messages does not exceed."""
    total = sum(weight.messages for weight in values.values())
    ordered = iter(sorted(values.items()))
    found: list[int] = []
    value, counted = 0, 0
    for share in shares:
        while counted < share * total:
            value, weight = next(ordered)
            counted += weight.messages
        found.append(value)
    return found


def histogram(values: Values, steps_of_an_octave: int) -> dict[int, Weight]:
    """Return the values as steps of a logarithmic scale; step -1 holds values below 1."""
    steps: dict[int, Weight] = {}
    for value, weight in values.items():
        step = math.floor(math.log2(value) * steps_of_an_octave) if value >= 1 else -1
        so_far = steps.get(step, Weight(0, 0))
        steps[step] = Weight(so_far.messages + weight.messages, so_far.stored + weight.stored)
    return steps
