"""MasterEpochs: which master of a broker name is the newest, so that a deposed one cannot take its place back.

A broker of ours says in which epoch it is master. The greatest number per broker name is remembered, in memory only,
together with the address that gave it, until that master has not registered for ten minutes. The same address may
always register: it is the same broker, perhaps on a new disk, whose epochs begin at 1 again. So may a broker with
another history, once that master has gone: a new one under an old name, whose epochs have nothing to do with those.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from typing import Final, NamedTuple

from pyromq.errors import BrokerError
from pyromq.namesrv.broker_registration import BrokerRegistration

logger = logging.getLogger(__name__)

_MOST_NAMES: Final = 10_000
_MOST_REFUSED: Final = 1_000
_FORGOTTEN_AFTER: Final = 600.0
"""Seconds without a registration, after which there is no master to protect: a broker may begin again elsewhere."""


class BrokerName(NamedTuple):
    """A broker name is unique within its cluster."""

    cluster: str
    broker: str


class _NewestMaster(NamedTuple):
    epoch: int
    address: str
    history: str
    seen: float


class MasterEpochs:
    """Decides who may register as master."""

    def __init__(self) -> None:
        self._newest: OrderedDict[BrokerName, _NewestMaster] = OrderedDict()  # the longest silent first
        self._refused: OrderedDict[tuple[BrokerName, str, int], None] = OrderedDict()

    def check(self, broker: BrokerRegistration, registered: str | None, now: float) -> None:
        """Raise BrokerError if a newer master is known. `registered` is the master that is alive, if there is one."""
        problem = self._problem(broker, registered, now)
        if problem:
            self._log_once(broker, problem)
            raise BrokerError(problem)

    def note(self, broker: BrokerRegistration, now: float) -> None:
        """Note that a master is registered."""
        name = BrokerName(broker.cluster, broker.broker_name)
        self._refused.pop((name, broker.address, broker.epoch), None)
        if broker.epoch:
            self._newest[name] = _NewestMaster(broker.epoch, broker.address, broker.history, now)
            self._newest.move_to_end(name)
            if len(self._newest) > _MOST_NAMES:
                self._newest.popitem(last=False)

    def is_older(self, name: BrokerName, epoch: int, address: str) -> bool:
        """Return True if a master at another address has a newer epoch."""
        newest = self._newest.get(name)
        return newest is not None and newest.address != address and 0 < epoch < newest.epoch

    def _problem(self, broker: BrokerRegistration, registered: str | None, now: float) -> str:
        name = BrokerName(broker.cluster, broker.broker_name)
        newest = self._newest.get(name)
        if newest is None or newest.address == broker.address or now - newest.seen > _FORGOTTEN_AFTER:
            return ""
        who = f"{newest.address} became master of broker {broker.broker_name} in epoch {newest.epoch}"
        is_alive = registered == newest.address
        if not broker.epoch:
            return f"{who}, and a master without an epoch cannot replace it while it is registered" if is_alive else ""
        if not is_alive and broker.history and newest.history and broker.history != newest.history:
            return ""
        if broker.epoch < newest.epoch:
            return f"epoch {broker.epoch} is older: {who}"
        if broker.epoch == newest.epoch and is_alive:
            return f"epoch {broker.epoch} is taken: {who}"
        return ""

    def _log_once(self, broker: BrokerRegistration, problem: str) -> None:
        key = BrokerName(broker.cluster, broker.broker_name), broker.address, broker.epoch
        if key not in self._refused:
            logger.warning("master refused name=%r address=%r: %s", broker.broker_name, broker.address, problem)
        self._refused[key] = None
        if len(self._refused) > _MOST_REFUSED:
            self._refused.popitem(last=False)
