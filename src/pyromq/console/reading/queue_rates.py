"""QueueRates: how fast the queues of a topic grow, from what its page saw a moment ago.

Brokers count messages by topic, not by queue. The ends of the queues, which the page reads anyway, tell the rest: a
page that follows its topic knows the rates from its second reading on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from pyromq.clock import Clock
from pyromq.protocol.messages.message import MessageQueue

LEAST: Final = 2.0
"""Seconds between two readings; rates over less jump about."""
MOST: Final = 60.0
"""Seconds after which a reading says nothing about now."""
MOST_TOPICS: Final = 100

Ends = Mapping[MessageQueue, int]


class _Reading(Struct, frozen=True):
    at: float
    ends: Ends


class QueueRates:
    """The last readings of the topics that somebody looked at."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._readings: dict[str, list[_Reading]] = {}
        """Two of each topic, at least LEAST apart; the topic that was read last is at the end."""

    def __len__(self) -> int:
        return len(self._readings)

    def read(self, topic: str, ends: Ends) -> dict[MessageQueue, float]:
        """Take the ends of a topic's queues; return messages a second, of the queues of which that is known."""
        now = self._clock.monotonic()
        kept = [each for each in self._readings.pop(topic, []) if now - each.at <= MOST]
        base = next((each for each in reversed(kept) if now - each.at >= LEAST), None)
        if not kept or now - kept[-1].at >= LEAST:
            kept.append(_Reading(now, ends))
        self._readings[topic] = kept[-2:]
        while len(self._readings) > MOST_TOPICS:
            del self._readings[next(iter(self._readings))]
        return {} if base is None else _growth(base, ends, now)


def _growth(base: _Reading, ends: Ends, now: float) -> dict[MessageQueue, float]:
    """A queue that has become shorter was recreated: nothing is known about it."""
    return {
        queue: (end - base.ends[queue]) / (now - base.at)
        for queue, end in ends.items()
        if queue in base.ends and end >= base.ends[queue]
    }
