"""Latency fault tolerance: brokers that failed or answered slowly are avoided for some time."""

from __future__ import annotations

from bisect import bisect_right
from random import SystemRandom

from msgspec import Struct

from pyromq.client.net.publish_info import TopicPublishInfo
from pyromq.clock import Clock
from pyromq.protocol.messages.message import MessageQueue

# A broker that took at least so many milliseconds counts as unavailable for so many seconds.
_LATENCIES_MS = (50, 100, 550, 1000, 2000, 3000, 15_000)
_ABSENCES = (0.0, 0.0, 0.0, 30.0, 60.0, 120.0, 180.0, 600.0)
_FAILED_MS = 30_000
_random = SystemRandom()  # programs seed the default one: then all their replicas would choose alike


class _Fault(Struct):
    latency_ms: float
    until: float


class LatencyFaultTolerance:
    """The latency of each broker's last answer, and until when the broker is avoided."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._faults: dict[str, _Fault] = {}
        self._turn = _random.randrange(1 << 20)

    def note(self, broker_name: str, seconds: float, *, failed: bool = False) -> None:
        """Record how long a broker took to answer, or that it failed."""
        latency_ms = seconds * 1000
        absence = _ABSENCES[bisect_right(_LATENCIES_MS, _FAILED_MS if failed else latency_ms)]
        self._faults[broker_name] = _Fault(latency_ms, self._clock.monotonic() + absence)

    def is_available(self, broker_name: str) -> bool:
        """Return True if a broker may be used now, or is not known."""
        fault = self._faults.get(broker_name)
        return fault is None or self._clock.monotonic() >= fault.until

    def choose(self, info: TopicPublishInfo) -> MessageQueue:
        """Return the next queue of an available broker; if there is none, a queue of one of the least slow brokers."""
        queue = info.next_where(self.is_available)
        if queue is not None:
            return queue
        broker_name = self._least_slow()
        found = info.next_of(broker_name) if broker_name else None
        if found is None:
            self._faults.pop(broker_name or "", None)
            return info.next()
        return found

    def _least_slow(self) -> str | None:
        names = _random.sample(list(self._faults), len(self._faults))
        names.sort(key=self._badness)
        better = max(len(names) // 2, 1)  # in turn among the better half
        self._turn += 1
        return names[self._turn % better] if names else None

    def _badness(self, broker_name: str) -> tuple[bool, float, float]:
        fault = self._faults[broker_name]
        return (not self.is_available(broker_name), fault.latency_ms, fault.until)
