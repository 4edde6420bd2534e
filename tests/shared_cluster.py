"""A cluster that many tests share, for the fixtures of several folders."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyromq.testing import LocalCluster


class SharedCluster:
    """One cluster for tests that leave it as it was, and another one after a test that did not.

    A test may advance the clock, stop a broker or replace its handlers. The next test gets a new cluster then, so that
    no test depends on what ran before it.
    """

    def __init__(self, brokers: int = 1) -> None:
        self._brokers = brokers
        self._running: LocalCluster | None = None

    @contextmanager
    def lend(self) -> Iterator[LocalCluster]:
        """Give the cluster to one test."""
        if self._running is None:
            self._running = LocalCluster(self._brokers).__enter__()
        before = _parts(self._running)
        yield self._running
        if self._running.clock.moved or _parts(self._running) != before:
            self.close()

    def close(self) -> None:
        """Stop the cluster, if it runs."""
        running, self._running = self._running, None
        if running is not None:
            running.__exit__(None, None, None)


def _parts(cluster: LocalCluster) -> list[object]:
    """Return what a test may exchange: the brokers' servers and their handlers."""
    return [(broker.server, dict(broker.server.handlers) if broker.server else {}) for broker in cluster.brokers]
