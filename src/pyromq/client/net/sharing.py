"""Producers and consumers with the same instance name are one client: they share connections, routes and heartbeats.

Whoever borrows an instance gets a handle. It joins groups through the handle, and only the handle leaves them again.
"""

from __future__ import annotations

import asyncio
from functools import partial
from weakref import WeakKeyDictionary

from pyromq.client.background import run_all
from pyromq.client.config import ClientConfig
from pyromq.client.net.address import discovery_url, parse_addresses
from pyromq.client.net.broker_requests import GroupMember, TransactionCheck
from pyromq.client.net.instance import ClientInstance
from pyromq.clock import Clock, SystemClock
from pyromq.protocol.acl import Credentials
from pyromq.remoting.tls.client_tls import Tls, chosen_tls

_Key = tuple[str, tuple[str, ...], Credentials | None, Tls | None, int]
_shared: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[_Key, ClientInstance]] = WeakKeyDictionary()


class InstanceHandle:
    """One user's hold on an instance, with the groups that this user joined; close it to give both back."""

    def __init__(self, instance: ClientInstance) -> None:
        instance.users += 1
        self.instance = instance
        self._producer_groups: list[str] = []
        self._consumer_groups: list[str] = []
        self._checked_groups: list[str] = []
        self._closed = False

    def join_as_producer(self, group: str) -> None:
        """Announce a producer with the next heartbeat; raises ClientError if the instance has one of this group."""
        self.instance.add_producer(group)
        self._producer_groups.append(group)

    def answer_checks(self, group: str, check: TransactionCheck) -> None:
        """Answer brokers that ask about transactions of a producer group that this handle has joined."""
        self.instance.checks[group] = check
        self._checked_groups.append(group)

    def stop_answering(self) -> None:
        """Answer no more such questions."""
        for group in self._checked_groups:
            self.instance.checks.pop(group, None)
        self._checked_groups.clear()

    async def join_as_consumer(self, group: str, member: GroupMember) -> None:
        """Announce a consumer, and return once the known brokers have heard of it.

        Raises ClientError if the instance has one of this group, AccessDenied if no broker accepts it.
        """
        self.instance.add_consumer(group, member)
        self._consumer_groups.append(group)
        await self.instance.announce()

    async def close(self) -> None:
        """Leave the groups and give the instance back; the last user closes it. Do nothing the second time."""
        if self._closed:
            return
        self._closed = True
        self.stop_answering()
        await run_all(
            *(partial(self.instance.remove_producer, group) for group in self._producer_groups),
            *(partial(self.instance.remove_consumer, group) for group in self._consumer_groups),
            partial(_give_back, self.instance),
        )


def borrow_instance(config: ClientConfig, clock: Clock) -> InstanceHandle:
    """Return a handle to the instance of this name, created if there is none; without a name, to a new instance.

    The settings of the first user apply. Other loops, name servers, accounts or clocks mean another instance.
    """
    if config.instance_name is None:
        return InstanceHandle(ClientInstance(config, clock))
    return InstanceHandle(_named_instance(config, config.instance_name, clock))


def _named_instance(config: ClientConfig, name: str, clock: Clock) -> ClientInstance:
    instances = _shared.setdefault(asyncio.get_running_loop(), {})
    time = 0 if isinstance(clock, SystemClock) else id(clock)
    url = discovery_url(config.namesrv)
    addresses = (url,) if url else tuple(sorted(parse_addresses(config.namesrv)))
    key = (name, addresses, config.credentials, chosen_tls(config.tls), time)
    instance = instances.get(key)
    if instance is None or instance.guard.forked:
        instance = instances[key] = ClientInstance(config, clock)
    return instance


async def _give_back(instance: ClientInstance) -> None:
    instance.users -= 1
    if not instance.users:
        instances = _shared.get(asyncio.get_running_loop(), {})
        for key in [key for key, known in instances.items() if known is instance]:
            del instances[key]
        await instance.close()
