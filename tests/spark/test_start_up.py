"""Spark starts a process for each stream, so every unneeded import costs time."""

from __future__ import annotations

import subprocess
import sys


def loaded_by(*modules: str) -> set[str]:
    """Return what a fresh process has loaded once it has imported some modules."""
    code = f"import sys, {', '.join(modules)}; print(*sys.modules)"
    return set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())


def test_reading_files_needs_no_client() -> None:
    assert not {
        name
        for name in loaded_by("pyromq.spark.read.store_readers")
        if name.startswith("pyromq.client.net.calls.broker_api")
    }


def test_reading_through_brokers_needs_no_producer_and_no_http() -> None:
    assert not loaded_by("pyromq.spark.read.stream_reader", "pyromq.spark.read.brokers.broker_queues") & {
        "pyromq.client.send.producer",
        "urllib.request",
    }
