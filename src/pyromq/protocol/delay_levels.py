"""Delay levels: fixed delays that a message names by number, from 1, in its property DELAY.

A broker's `messageDelayLevel` lists them, such as `1s 5s 1m`. Retries use the same levels.
"""

from __future__ import annotations

import re
from typing import Final

DEFAULT_DELAY_LEVELS: Final = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"

# The level in CONSUMER_SEND_MSG_BACK; a positive one is taken as it is.
TO_DEAD_LETTERS: Final = -1
BY_RECONSUME_TIMES: Final = 0  # the broker decides: FIRST_RETRY_LEVEL, then one more each time
FIRST_RETRY_LEVEL: Final = 3

_UNITS_MS: Final = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000}
_DELAY_LEVEL: Final = re.compile(r"[0-9]{1,9}[dhms]")


def parse_delay_levels(text: str) -> tuple[int, ...]:
    """Read `messageDelayLevel`, such as `1s 5s 1m`, as milliseconds for level 1, 2, 3 …; raise ValueError."""
    levels = text.split()
    if not levels or not all(map(_DELAY_LEVEL.fullmatch, levels)):
        raise ValueError(f"must be durations in d, h, m or s such as '1s 5s 1m 2h', not {text!r}")
    return tuple(int(level[:-1]) * _UNITS_MS[level[-1]] for level in levels)


def show_delay_levels(levels_ms: tuple[int, ...]) -> str:
    """Write delay levels as `messageDelayLevel` has them, each in the largest unit that fits."""
    return " ".join(
        next(f"{level // size}{unit}" for unit, size in _UNITS_MS.items() if level % size == 0) for level in levels_ms
    )


DEFAULT_DELAY_LEVELS_MS: Final = parse_delay_levels(DEFAULT_DELAY_LEVELS)
