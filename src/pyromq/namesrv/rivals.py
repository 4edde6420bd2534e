"""Rivals: brokers that register under one name and id, again and again. Both are told, and the log says so once.

A broker that has moved takes its old place with one registration. Two that run at the same time come again and again:
the second is refused, or they replace each other. Whoever does that for some time is a rival.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from typing import Final, NamedTuple

from pyromq.namesrv.broker_registration import BrokerRegistration

logger = logging.getLogger(__name__)

PERSISTENT: Final = 10.0
"""Seconds between the first and the last registration against another, after which they are rivals."""
FORGOTTEN_AFTER: Final = 75.0
"""Seconds without one after which they no longer are; brokers register every minute at least."""
_MOST: Final = 1_000


class _Claim(NamedTuple):
    rival: str
    first: float
    last: float


class _Place(NamedTuple):
    name: str
    broker_id: int
    address: str


class Rivals:
    """Who is in whose place."""

    def __init__(self) -> None:
        self._claims: OrderedDict[_Place, _Claim] = OrderedDict()

    def note(self, broker: BrokerRegistration, other: str, now: float) -> None:
        """Note that a broker registers although another one, which is alive, has its name and id."""
        was_known = self.of(broker, now)
        place = _place(broker)
        self._add(place, other, now)
        self._add(place._replace(address=other), broker.address, now)
        if not was_known and self.of(broker, now):
            logger.warning(
                "two brokers are name=%r id=%d: %r and %r; give one of them another brokerName or brokerId",
                *(broker.broker_name, broker.broker_id, broker.address, other),
            )

    def of(self, broker: BrokerRegistration, now: float) -> str:
        """Return the address of a broker's rival; empty if it has none."""
        claim = self._claims.get(_place(broker))
        return claim.rival if claim is not None and _is_serious(claim, now) else ""

    def all(self, now: float) -> list[str]:
        """Return all who are rivals, in words."""
        return [
            f"two brokers are {place.name} with the id {place.broker_id}: {place.address} and {claim.rival}"
            for place, claim in self._claims.items()
            if place.address < claim.rival and _is_serious(claim, now)
        ]

    def _add(self, place: _Place, rival: str, now: float) -> None:
        before = self._claims.get(place)
        goes_on = before is not None and before.rival == rival and now - before.last <= FORGOTTEN_AFTER
        self._claims[place] = _Claim(rival, before.first if before is not None and goes_on else now, now)
        self._claims.move_to_end(place)
        if len(self._claims) > _MOST:
            self._claims.popitem(last=False)


def _is_serious(claim: _Claim, now: float) -> bool:
    return now - claim.last <= FORGOTTEN_AFTER and claim.last - claim.first >= PERSISTENT


def _place(broker: BrokerRegistration) -> _Place:
    return _Place(broker.broker_name, broker.broker_id, broker.address)
