"""Heartbeats tell every broker, every 30 seconds, which groups this client has; brokers forget it otherwise."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable

from pyromq.client.net.calls.answers import BrokerIdentity
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.client.net.routes import Routes
from pyromq.clock import Clock
from pyromq.errors import AccessDenied, NotSupported, PyroMQError
from pyromq.protocol.bodies import HeartbeatData

logger = logging.getLogger(__name__)

_NEARLY = 0.8  # of the interval: a little early is better than a whole round late


class Heartbeats:
    """Sends heartbeats; `brokers` holds the identity that each broker answered with, by address."""

    def __init__(
        self, api: BrokerApi, routes: Routes, content: Callable[[], HeartbeatData], clock: Clock, interval: float
    ) -> None:
        self.brokers: dict[str, BrokerIdentity] = {}
        self._api = api
        self._routes = routes
        self._content = content
        self._clock = clock
        self._interval = interval
        self._accepted_at: dict[str, float] = {}
        self._refusals: dict[str, AccessDenied] = {}

    async def beat(self) -> bool:
        """Send a heartbeat to all known brokers at once; return True if all of them accepted it.

        Consumers include slaves, which they may read from; producers send to masters only.
        """
        self._accepted_at.clear()
        return await self.beat_due()

    async def beat_due(self) -> bool:
        """Send one only to brokers that are new, that failed or were lost, or whose last one is nearly `interval` ago.

        While one broker is down, its retries must not cost all others a heartbeat every few seconds.
        """
        content = self._content()
        if not content.producer_data_set and not content.consumer_data_set:
            return True
        latest = self._clock.monotonic() - self._interval * _NEARLY
        addresses = self._routes.addresses(slaves=bool(content.consumer_data_set))
        due = [address for address in addresses if self._accepted_at.get(address, -math.inf) <= latest]
        return all(await asyncio.gather(*[self._beat(address, content) for address in due]))

    def forget(self, address: str) -> None:
        """Let the next heartbeat to this broker be due: it has forgotten the client with its connection."""
        self._accepted_at.pop(address, None)

    def forget_all(self) -> None:
        """Let the next heartbeat to every broker be due: the client's groups have changed."""
        self._accepted_at.clear()

    def check_access(self) -> None:
        """Raise AccessDenied if no broker accepted the last heartbeat, and one refused the account."""
        if self._refusals and not self.brokers:
            raise next(iter(self._refusals.values()))

    async def greet(self, address: str) -> BrokerIdentity:
        """Send a heartbeat to one broker and return its identity; raises PyroMQError."""
        identity = self.brokers[address] = await self._api.heartbeat(address, self._content())
        return identity

    async def require_timer(self, address: str) -> None:
        """Raise NotSupported unless a broker is PyroMQ's: others would deliver a timed message at once."""
        broker = self.brokers.get(address) or await self.greet(address)
        if broker.pyromq is None:
            reason = "it has no timer for any delay, only levels (level=, or `pyromq send --level`)"
            raise NotSupported(f"broker {address} is not PyroMQ's: {reason}")

    async def _beat(self, address: str, content: HeartbeatData) -> bool:
        self._accepted_at[address] = self._clock.monotonic()
        try:
            self.brokers[address] = await self._api.heartbeat(address, content)
        except PyroMQError as error:
            self.forget(address)
            known = self.brokers.pop(address, None)
            level = logging.WARNING if known else logging.DEBUG  # once, not every second while it is down
            logger.log(level, "heartbeat to broker=%s failed: %s", address, error)
            if isinstance(error, AccessDenied):
                self._refusals[address] = error
            return False
        self._refusals.pop(address, None)
        return True
