"""Queue locks: the broker that has a queue records which member of a group may consume it.

The master does, or a slave while the master is away. A lock at one counts nothing at the other, so whoever changes from
one to the other asks again.

Orderly consumers need the lock: without it they neither pull nor consume, and it counts as lost 30 s after the last
renewal. Other consumers use it as a signal. The owner of a queue commits before it unlocks, and the next owner waits a
little for the lock: so it starts where the last owner stopped, and no message is repeated. Java's clients do not use
locks in this way and are not affected.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Iterable

from pyromq.client.background import FailureLog
from pyromq.client.consume.process_queue import LOCK_LIFETIME, ProcessQueue
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.client.net.routes import Routes
from pyromq.clock import Clock
from pyromq.errors import PyroMQError
from pyromq.protocol.messages.message import MessageQueue

logger = logging.getLogger(__name__)

RENEWAL_INTERVAL = 20.0
_RETRY_DELAYS = (0.02, 0.05, 0.1, 0.1, 0.2, 0.5, 1.0)


class QueueLocks:
    """Takes, renews and returns the locks of one member."""

    def __init__(self, api: BrokerApi, routes: Routes, group: str, client_id: str, clock: Clock) -> None:
        self._api = api
        self._routes = routes
        self._group = group
        self._client_id = client_id
        self._clock = clock
        self._log = FailureLog(logger, f"locking the queues of group {group}")

    async def acquire(self, held: ProcessQueue, patience: Callable[[], float] = lambda: math.inf) -> bool:
        """Take the lock of a queue; return False if its holder still has it after `patience()` seconds.

        `patience` is asked again and again: there is no need to wait for a holder that has left meanwhile.
        """
        started = self._clock.monotonic()
        attempt = 0
        while not await self._try(held):
            left = started + patience() - self._clock.monotonic()
            if left <= 0:
                return False
            await self._clock.sleep(min(left, _RETRY_DELAYS[min(attempt, len(_RETRY_DELAYS) - 1)]))
            attempt += 1
        return True

    async def _try(self, held: ProcessQueue) -> bool:
        address = (await self._routes.find_keeper(held.queue)).address
        asked_at = self._clock.monotonic()
        granted = held.queue in await self._api.lock(address, self._group, self._client_id, [held.queue])
        self._note(held, granted, asked_at, address)
        return granted

    async def renew(self, queues: Iterable[ProcessQueue]) -> bool:
        """Renew the locks of these queues with one request for each broker; return True if every broker answered."""
        by_broker: dict[str, list[ProcessQueue]] = {}
        for held in queues:
            by_broker.setdefault(held.queue.broker_name, []).append(held)
        done = await asyncio.gather(*[self._renew(held) for held in by_broker.values()])
        if all(done):
            self._log.worked()
        return all(done)

    async def _renew(self, queues: list[ProcessQueue]) -> bool:
        wanted = [held.queue for held in queues]
        asked_at = self._clock.monotonic()
        try:
            address = (await self._routes.find_keeper(wanted[0])).address
            granted = set(await self._api.lock(address, self._group, self._client_id, wanted))
        except PyroMQError as error:
            self._log.failed(error)
            return False
        for held in queues:
            self._note(held, held.queue in granted, asked_at, address)
        return True

    def _note(self, held: ProcessQueue, granted: bool, asked_at: float, address: str) -> None:
        held.locked_at = address
        held.lock_expires = asked_at + LOCK_LIFETIME if granted else 0.0

    async def release(self, queues: Iterable[MessageQueue]) -> None:
        """Unlock queues; a lock that cannot be released expires on its own."""
        by_broker: dict[str, list[MessageQueue]] = {}
        for queue in queues:
            by_broker.setdefault(queue.broker_name, []).append(queue)
        for unlocked in by_broker.values():
            try:
                address = (await self._routes.find_keeper(unlocked[0])).address
                await self._api.unlock(address, self._group, self._client_id, unlocked)
            except PyroMQError as error:
                logger.info("queue locks not released, they expire on their own: %s", error)
