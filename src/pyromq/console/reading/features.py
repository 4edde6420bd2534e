"""What the brokers of a cluster can do: some things only PyroMQ's can."""

from __future__ import annotations

from typing import Final

from pyromq.console.reading.snapshot import Snapshot

OURS_ONLY: Final = {
    "timed_messages": "Only PyroMQ's brokers list and cancel delayed messages",
    "topic_rates": "Only PyroMQ's brokers say how busy each topic is",
    "half_messages": "Only PyroMQ's brokers list half messages",
    "any_delay": "Only PyroMQ's brokers delay messages to any time; these have RocketMQ's 18 levels",
    "write_pause": "Only PyroMQ's brokers can refuse messages at an operator's request",
    "promotion": "Only PyroMQ's brokers change master at an operator's request",
}
"""A feature, and why another broker does not have it: a key of the catalog of translations."""


def missing(feature: str, snapshot: Snapshot) -> str:
    """Return why a cluster lacks a feature, empty if it has it; raise KeyError if there is no such feature."""
    reason = OURS_ONLY[feature]
    return reason if snapshot.foreign_brokers else ""
