"""Collecting /metrics: the figures of the servers of this process, and every topic, group and queue of its masters.

The work is done on the event loop, where the tables are, in steps of about a millisecond, and everybody else has a turn
in between. One page is made at a time, whole, before its first byte is sent: a slow reader holds up nobody.

prometheus-client collects what it knows best, the figures of the process. exposition.py says why the rest is ours.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector, generate_latest

from pyromq.broker.server import Broker, Role
from pyromq.console.monitoring.exposition import MetricsPage, label_text
from pyromq.console.monitoring.loop_lag import LoopLag
from pyromq.console.monitoring.watched import Watched
from pyromq.figures import Figure


class Metrics:
    """Makes the page for Prometheus."""

    def __init__(self, watched: Watched, lag: LoopLag) -> None:
        self._watched = watched
        self._lag = lag
        self._turn = asyncio.Lock()
        self._process = CollectorRegistry()
        for collector in (ProcessCollector, PlatformCollector, GCCollector):
            collector(registry=self._process)

    async def page(self) -> list[bytes]:
        """Return the page, in pieces; raise ServiceNotAvailable if a broker stops meanwhile."""
        async with self._turn:
            page = MetricsPage()
            page.add_figures(self._lag.figures().read(), "pyromq", "")
            if (name_server := self._watched.name_server) is not None:
                labels = label_text({"address": name_server.address})
                page.add_figures(name_server.figures().read(), "pyromq_namesrv", labels)
            for broker in list(self._watched.brokers):
                await _add_broker(page, broker)
            pieces = [generate_latest(self._process)]
            for piece in page.pieces():
                pieces.append(piece)
                await asyncio.sleep(0)
            return pieces


async def _add_broker(page: MetricsPage, broker: Broker) -> None:
    labels = {"cluster": broker.service.cluster, "broker": broker.name}

    def read() -> list[tuple[Figure[Any], Any]]:
        return list(broker.figures().read())

    values = await broker.service.parts.reads.read(read)
    page.add_figures(values, "pyromq_broker", label_text(labels | {"address": broker.address}))
    await asyncio.sleep(0)
    if broker.role is Role.MASTER:
        async with aclosing(broker.service.reading.series.batches()) as batches:
            async for batch in batches:
                page.add_batch(batch, label_text(labels))
