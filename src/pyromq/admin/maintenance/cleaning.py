"""Delete what brokers keep and nobody needs: expired files, queues without messages, topics without settings."""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Literal, get_args

from msgspec import Struct

from pyromq.admin.masters import Masters
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.client.net.calls.maintenance_calls import MaintenanceCalls
from pyromq.errors import ClientError, PyroMQError
from pyromq.protocol.bodies.cleaning import CleaningPreview

logger = logging.getLogger(__name__)

Cleanable = Literal["expired_files", "expired_queues", "unused_topics"]
"""Files of the log that are older than fileReservedTime; queues that their topics no longer have and in which nothing
is left; queues of topics that the broker does not know."""
CLEANABLE: tuple[Cleanable, ...] = get_args(Cleanable)


class BrokerCleaning(Struct, frozen=True, kw_only=True):
    """What there is to delete at one broker."""

    broker: str
    address: str
    found: CleaningPreview | None
    """None if it cannot say: it is one of Apache's."""


class Cleanings:
    """Has brokers delete what nobody needs; their slaves follow."""

    def __init__(self, api: BrokerApi) -> None:
        self._api = api
        self._calls = MaintenanceCalls(api.remoting)

    async def plan(self, broker: str | None = None) -> list[BrokerCleaning]:
        """Return what there is to delete at all masters or at one, and delete nothing; raises ClientError."""
        masters = await Masters.find(self._api)
        if broker is not None:
            masters = Masters({broker: masters.address(broker)})
        previews = await masters.ask_all(self._calls.preview_cleaning)
        return [
            BrokerCleaning(broker=name, address=masters.addresses[name], found=found)
            for name, found in sorted(previews.items())
        ]

    async def clean(self, what: Collection[Cleanable], broker: str | None = None) -> list[BrokerCleaning]:
        """Delete these at all masters or at one; return what there was to delete.

        Expired files go in the background, ten at a time. Raises ClientError if a broker does not answer, with nothing
        deleted, or names the broker that refused and those that have obeyed.
        """
        if unknown := sorted(set(what) - set(CLEANABLE)):
            raise ClientError(f"there is no {unknown[0]!r} to clean; there are {', '.join(CLEANABLE)}")
        if not what:
            raise ClientError(f"nothing to clean: name {', '.join(CLEANABLE)}")
        plan = await self.plan(broker)
        for number, one in enumerate(plan):
            try:
                await self._clean(one.address, what)
            except PyroMQError as error:
                done = ", ".join(before.broker for before in plan[:number]) or "none"
                raise ClientError(f"{one.broker} did not clean up: {error}; brokers that did: {done}") from error
            logger.info("cleaned broker=%s what=%s", one.broker, sorted(what))
        return plan

    async def _clean(self, address: str, what: Collection[Cleanable]) -> None:
        if "unused_topics" in what:
            await self._calls.delete_unused_topics(address)
        if "expired_files" in what:
            await self._calls.delete_expired_files(address)
        if "expired_queues" in what:
            await self._calls.delete_expired_queues(address)
