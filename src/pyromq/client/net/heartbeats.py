"""Heartbeats tell every broker, every 30 seconds, which groups this client has; brokers forget it otherwise."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from pyromq.client.net.calls.answers import BrokerIdentity
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.client.net.routes import Routes
from pyromq.errors import AccessDenied, NotSupported, PyroMQError
from pyromq.protocol.bodies import HeartbeatData

logger = logging.getLogger(__name__)


class Heartbeats:
    """Sends heartbeats; `brokers` holds the identity that each broker answered with, by address."""

    def __init__(self, api: BrokerApi, routes: Routes, content: Callable[[], HeartbeatData]) -> None:
        self.brokers: dict[str, BrokerIdentity] = {}
        self._api = api
        self._routes = routes
        self._content = content
        self._refusals: dict[str, AccessDenied] = {}

    async def beat(self) -> bool:
        """Send a heartbeat to all known brokers at once; return True if all of them accepted it.

        Consumers include slaves, which they may read from; producers send to masters only.
        """
        content = self._content()
        if not content.producer_data_set and not content.consumer_data_set:
            return True
        addresses = self._routes.addresses(slaves=bool(content.consumer_data_set))
        taken = await asyncio.gather(*[self._beat(address, content) for address in addresses])
        return all(taken)

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
            raise NotSupported(f"broker {address} is not PyroMQ's: it has no timer for any delay, only levels (level=)")

    async def _beat(self, address: str, content: HeartbeatData) -> bool:
        try:
            self.brokers[address] = await self._api.heartbeat(address, content)
        except PyroMQError as error:
            known = self.brokers.pop(address, None)
            level = logging.WARNING if known else logging.DEBUG  # once, not every second while it is down
            logger.log(level, "heartbeat to broker=%s failed: %s", address, error)
            if isinstance(error, AccessDenied):
                self._refusals[address] = error
            return False
        self._refusals.pop(address, None)
        return True
