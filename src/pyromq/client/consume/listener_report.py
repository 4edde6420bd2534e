"""What a consumer reports to tools about its listener: a property of its running info.

Threads and machines are planned from it: `pyromq group advise`.
"""

from __future__ import annotations

import os
import sys

import msgspec
from msgspec import Struct

from pyromq.client.consume.consumer_stats import ListenerLoad
from pyromq.protocol.bodies import ConsumerRunningInfo

LISTENER_PROPERTY = "PYROMQ_LISTENER"
"""A JSON object with the times of the listener."""


class ListenerReport(Struct, frozen=True, kw_only=True):
    """How a consumer's listener was used, by its own measurement."""

    cores: int
    """How many of its calls can compute at the same time."""
    measured: int
    """How many messages were measured within the last hour."""
    cpu_ms: float
    """CPU time of one message."""
    wait_ms: float
    """Waiting time of one message."""
    job_seconds: float
    """Seconds that calls took in each second of the last minute: so many were under way at a time."""
    running: int
    """Calls that are under way now."""
    peak_rate: float
    """The most messages a second that were pulled within ten seconds of the last hour."""
    rate_limit: float | None = None
    """The most messages a second that it may handle, by its option `rate`."""


def usable_cores() -> int:
    """Return how many cores the listeners of one process can use: one, where Python has its global lock."""
    has_lock = getattr(sys, "_is_gil_enabled", lambda: True)()
    if has_lock:
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def listener_property(load: ListenerLoad, running: int = 0, rate_limit: float | None = None) -> dict[str, str]:
    """Return the property that reports the times of the listener, and how many calls are under way."""
    report = ListenerReport(
        cores=usable_cores(),
        measured=load.measured,
        cpu_ms=round(load.cpu_ms, 4),
        wait_ms=round(load.wait_ms, 4),
        job_seconds=round(load.job_seconds, 3),
        running=running,
        peak_rate=round(load.peak_rate, 1),
        rate_limit=rate_limit,
    )
    return {LISTENER_PROPERTY: msgspec.json.encode(report).decode()}


def listener_report(info: ConsumerRunningInfo) -> ListenerReport | None:
    """Return what a consumer reports about its listener; only PyroMQ's consumers do."""
    try:
        return msgspec.json.decode(info.properties.get(LISTENER_PROPERTY, ""), type=ListenerReport)
    except (msgspec.DecodeError, RecursionError):  # another product, or another release
        return None
