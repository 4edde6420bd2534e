"""How values are spread: counts by value, brought from Spark, become percentiles and the steps of a histogram."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from pyromq.pipelines.profile.profile import Percentiles, Weight

Values = Mapping[int, Weight]
"""How many messages have a value, and what they weigh."""

STEPS_OF_AN_OCTAVE = 8
"""How fine the histogram of sizes is: from one step to the next they grow by 9 %."""
_SHARES = (0.5, 0.9, 0.99, 0.999)


def percentiles(values: Values, digits: int, most: int) -> Percentiles:
    """Return the values within which half of the messages are, 90 % of them and so on; the largest is known."""
    found = [highest(value, digits, most) for value in quantiles(values, _SHARES)]
    return Percentiles._make([*found, most])


def highest(value: int, digits: int, most: int) -> int:
    """Return the largest number that has been rounded down to this one, which has so many binary digits."""
    return min(value | ((1 << max(0, value.bit_length() - digits)) - 1), most)


def quantiles(values: Values, shares: Sequence[float]) -> list[int]:
    """Return for each share, in rising order, the least value that so many messages do not exceed."""
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
    """Return the same on a scale that doubles with each octave; step -1 is what is below 1."""
    steps: dict[int, Weight] = {}
    for value, weight in values.items():
        step = math.floor(math.log2(value) * steps_of_an_octave) if value >= 1 else -1
        so_far = steps.get(step, Weight(0, 0))
        steps[step] = Weight(so_far.messages + weight.messages, so_far.stored + weight.stored)
    return steps
