"""Pause the writes of a broker, so that it can be drained, and resume them.

    leaving   All name servers route no sends to it: producers leave with their next look at the route, within 30 s.
              This is what mqadmin's wipeWritePerm does; a change of the broker's topics would undo it.
    paused    The broker itself refuses sends, and registers all topics as not writable, also after a restart. Producers
              that come nevertheless are told NO_PERMISSION and try another broker.

Apache's brokers have no such setting: theirs is brokerPermission, with which they still accept sends to topics that are
not ordered from producers with an old route.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping
from typing import Final, Literal

from msgspec import Struct

from pyromq.admin.masters import Masters, gather_limited
from pyromq.client.net.calls.admin_calls import AdminCalls
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.client.net.calls.maintenance_calls import MaintenanceCalls
from pyromq.client.net.calls.namesrv_calls import NamesrvCalls
from pyromq.clock import Clock
from pyromq.errors import ClientError, PyroMQError
from pyromq.protocol.codes import MASTER_ID, PERM_WRITE
from pyromq.protocol.names import SELF_TEST_TOPIC

logger = logging.getLogger(__name__)

GRACE: Final = 35.0
"""Seconds in which producers see a changed route: they look every 30 s."""

_PAUSED: Final = "pyromqWritesPaused"
_PERMISSION: Final = "brokerPermission"

Phase = Literal["leaving", "paused"]


class WriteState(Struct, frozen=True, kw_only=True):
    """Whether a broker takes messages."""

    broker: str
    address: str
    """Of its master."""
    is_paused: bool
    """Whether it refuses sends by itself."""
    refuses_all: bool = True
    """Whether a paused one refuses all sends; Apache's accept those to topics that are not ordered."""
    unrouted_at: tuple[str, ...] = ()
    """The name servers that route no sends to it."""
    differing_slaves: tuple[str, ...] = ()
    """The addresses of slaves that would not do the same as master, or do not answer."""


class WritePausePlan(Struct, frozen=True, kw_only=True):
    """What a pause would do."""

    state: WriteState
    others: tuple[str, ...]
    """The other brokers of the cluster that take messages; if there are none, all sends fail."""


class WritePauses:
    """Pauses and resumes the writes of brokers."""

    def __init__(self, api: BrokerApi, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._calls = AdminCalls(api.remoting)
        self._changes = MaintenanceCalls(api.remoting)
        self._namesrv = NamesrvCalls(api)

    async def state(self, broker: str) -> WriteState:
        """Return whether a broker takes messages; raises ClientError or NoMaster if it cannot be asked."""
        address = (await Masters.find(self._api)).address(broker)
        values = await self._calls.broker_config(address)
        unrouted = await unrouted_brokers(self._namesrv)
        paused = is_paused(values)
        slaves = await self._slaves(broker, address)
        return WriteState(
            broker=broker,
            address=address,
            is_paused=paused,
            refuses_all=_PAUSED in values,
            unrouted_at=tuple(server for server, brokers in unrouted.items() if broker in brokers),
            differing_slaves=tuple([slave for slave in slaves if await self._is_paused_at(slave) is not paused]),
        )

    async def _slaves(self, broker: str, master: str) -> list[str]:
        addresses = (await self._api.cluster_info()).broker_addr_table[broker].broker_addrs.values()
        return [address for address in addresses if address != master]

    async def _is_paused_at(self, address: str) -> bool | None:
        try:
            return is_paused(await self._calls.broker_config(address))
        except PyroMQError:
            return None

    async def plan(self, broker: str) -> WritePausePlan:
        """Return what `pause` would do, and do nothing."""
        state = await self.state(broker)
        info = await self._api.cluster_info()
        cluster = info.broker_addr_table[broker].cluster
        names = [name for name, data in info.broker_addr_table.items() if data.cluster == cluster and name != broker]
        unrouted = await unrouted_brokers(self._namesrv)
        others = [
            name
            for name in names
            if MASTER_ID in info.broker_addr_table[name].broker_addrs
            and not any(name in at for at in unrouted.values())
        ]
        return WritePausePlan(state=state, others=tuple(sorted(others)))

    async def pause(self, broker: str, grace: float = GRACE) -> AsyncIterator[Phase]:
        """Pause the writes of a broker, and yield each phase when it is reached.

        Producers have `grace` seconds to leave before it refuses them; 0 refuses at once. Stopped in between, it still
        takes messages, and the name servers route none to it; `resume` takes that back.
        """
        state = await self.state(broker)
        if not state.is_paused:
            await self._namesrv.wipe_write_permission(broker)
            logger.info("sends are not routed any more broker=%s", broker)
            yield "leaving"
            await self._clock.sleep(grace)
            await self._set(broker, paused=True)
        yield "paused"

    async def resume(self, broker: str) -> WriteState:
        """Let a broker take messages again; return what name servers know of it then.

        It registers again with the permissions that its topics have; one that was not writable before is not now.
        """
        await self._set(broker, paused=False)
        return await self.state(broker)

    async def _set(self, broker: str, *, paused: bool) -> None:
        """Change the master, then the slaves: one of them may become master."""
        address = (await Masters.find(self._api)).address(broker)
        await self._set_at(address, paused=paused)
        for slave in await self._slaves(broker, address):
            try:
                await self._set_at(slave, paused=paused)
            except PyroMQError as error:
                logger.warning("a slave was not told broker=%s address=%s: %s", broker, slave, error)

    async def _set_at(self, address: str, *, paused: bool) -> None:
        values = await self._calls.broker_config(address)
        changes = {}
        if _PAUSED in values:
            changes[_PAUSED] = "true" if paused else "false"
        if _PAUSED not in values or not paused:
            changes[_PERMISSION] = str(_permission(values, writable=not paused))
        await self._changes.change_settings(address, changes)
        logger.info("writes %s address=%s", "paused" if paused else "resumed", address)


async def unrouted_brokers(namesrv: NamesrvCalls) -> dict[str, set[str]]:
    """Return, by name server that answers, the brokers to which it routes no sends."""

    async def at(address: str) -> set[str] | None:
        try:
            route = await namesrv.route_at(address, SELF_TEST_TOPIC)  # which all brokers have, as writable
        except PyroMQError:
            return None
        return {queue.broker_name for queue in route.queue_datas if not queue.perm & PERM_WRITE} if route else set()

    addresses = await namesrv.addresses()
    found = await gather_limited(addresses, at)
    return {address: brokers for address, brokers in zip(addresses, found, strict=True) if brokers is not None}


def _permission(values: Mapping[str, str], *, writable: bool) -> int:
    try:
        permission = int(values.get(_PERMISSION, "6"))
    except ValueError:
        raise ClientError(f"the broker says {_PERMISSION}={values[_PERMISSION]}, which is no number") from None
    return permission | PERM_WRITE if writable else permission & ~PERM_WRITE


def is_paused(values: Mapping[str, str]) -> bool:
    """Return True if a broker with this configuration refuses sends, as far as it can."""
    permission = values.get(_PERMISSION, "6")
    return values.get(_PAUSED) == "true" or (permission.isdecimal() and not int(permission) & PERM_WRITE)
