"""A consumer's report about its listener, as it is written and read."""

from __future__ import annotations

import os
import sys

import pytest

from pyromq.client.consume.consumer_stats import ListenerLoad
from pyromq.client.consume.listener_report import (
    LISTENER_PROPERTY,
    ListenerReport,
    listener_property,
    listener_report,
    usable_cores,
)
from pyromq.protocol.bodies import ConsumerRunningInfo


def test_what_is_written_is_read() -> None:
    info = ConsumerRunningInfo(properties=listener_property(ListenerLoad(7, 1.25, 80.5, 19.5, 400.0), 3))
    assert listener_report(info) == ListenerReport(
        cores=usable_cores(), measured=7, cpu_ms=1.25, wait_ms=80.5, job_seconds=19.5, running=3, peak_rate=400.0
    )


@pytest.mark.parametrize("text", ["", "nonsense", "[]", '{"cores": "many"}', '{"x":' + "[" * 5000])
def test_what_others_wrote_is_no_report(text: str) -> None:
    assert listener_report(ConsumerRunningInfo(properties={LISTENER_PROPERTY: text})) is None
    assert listener_report(ConsumerRunningInfo()) is None


def test_the_global_lock_lets_one_core_compute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: True, raising=False)
    assert usable_cores() == 1
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)
    assert usable_cores() == (len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count())
