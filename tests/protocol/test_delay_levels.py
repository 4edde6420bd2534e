from __future__ import annotations

import pytest

from pyromq.protocol.delay_levels import (
    DEFAULT_DELAY_LEVELS,
    DEFAULT_DELAY_LEVELS_MS,
    parse_delay_levels,
    show_delay_levels,
)


def test_delay_levels_are_read_as_rocketmq_writes_them() -> None:
    assert parse_delay_levels("1s 5m 2h 1d") == (1_000, 300_000, 7_200_000, 86_400_000)
    assert parse_delay_levels("1s  5s ") == (1_000, 5_000)
    for wrong in ("", "1x", "s", "-1s", "1_0s", "1.5h", "10", "1s,5s"):
        with pytest.raises(ValueError, match=f"durations.* not {wrong!r}"):
            parse_delay_levels(wrong)


def test_the_default_levels_are_those_of_rocketmq() -> None:
    seconds = (1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)
    assert tuple(level // 1000 for level in DEFAULT_DELAY_LEVELS_MS) == seconds
    assert show_delay_levels(DEFAULT_DELAY_LEVELS_MS) == DEFAULT_DELAY_LEVELS
