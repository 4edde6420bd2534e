"""How long writes take, by RocketMQ's steps and as percentiles of the last minute."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from pyromq.store.write.write_times import LIMITS, WriteTimes

WRITES = st.lists(st.tuples(st.floats(1e-5, 9.0), st.integers(1, 5)), min_size=1, max_size=30)


@given(WRITES, st.floats(0.01, 1.0))
def test_a_percentile_of_the_last_minute_is_exact_to_a_quarter(writes: list[tuple[float, int]], share: float) -> None:
    times = WriteTimes()
    for took, messages in writes:
        times.note(100.0 - took, 100.0, messages)
    assert times.percentile(share, 101.0) == 0.0, "the minute is not over"
    every = sorted(took for took, messages in writes for _ in range(messages))
    exact = every[math.ceil(share * len(every) - 1e-9) - 1]
    assert exact * 0.999 <= times.percentile(share, 161.0) <= exact * 1.26
    assert times.percentile(share, 222.0) == 0.0, "the next minute had none"


@given(WRITES)
def test_every_message_is_counted_in_one_step(writes: list[tuple[float, int]]) -> None:
    times = WriteTimes()
    for took, messages in writes:
        times.note(0.0, took, messages)
    assert sum(times.messages) == sum(messages for _, messages in writes)
    assert times.longest == max(took for took, _ in writes)
    assert times.last == writes[-1][0]
    for limit, count in zip(LIMITS, times.messages, strict=False):
        low = max((other for other in LIMITS if other < limit), default=0.0)
        assert count == sum(messages for took, messages in writes if low <= took < limit)
