"""Shared by the tests of Apache's client: what it sends, and how that is read back."""

from __future__ import annotations

import time

from interop.conftest import Cluster
from interop.peer import Fact, Peer

COUNT = 20
BODIES = [f"body {number}" for number in range(COUNT)]
EVEN = [f"body {number}" for number in range(0, COUNT, 2)]


def bodies(facts: list[Fact]) -> list[str]:
    """Return the bodies, in the order of their numbers."""
    return sorted((fact["body"] for fact in facts), key=lambda body: int(body.split()[-1]))


def send(java: Peer, cluster: Cluster, topic: str, how: str = "sync", **options: object) -> list[Fact]:
    """Make Java send the usual messages."""
    sent: list[Fact] = java.call(f"Sends.{how}", namesrv=cluster.namesrv, topic=topic, count=COUNT, **options)
    return sent


def read(java: Peer, cluster: Cluster, topic: str) -> list[Fact]:
    """Make Java read a whole topic, queue by queue."""
    found: list[Fact] = java.call("Pulls.all", namesrv=cluster.namesrv, topic=topic)
    return found


def wait_for_messages(java: Peer, cluster: Cluster, topic: str) -> list[Fact]:
    """Wait until a topic, which may not exist yet, has messages."""
    end = time.monotonic() + 30
    while True:
        try:
            if found := read(java, cluster, topic):
                return found
        except AssertionError as error:
            if "No topic route info" not in str(error) and "CODE: 17" not in str(error):
                raise
        assert time.monotonic() < end, f"nothing came to {topic}"
        time.sleep(0.2)
