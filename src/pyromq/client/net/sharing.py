"""Producers and consumers with the same instance name are one client: they share connections, routes and heartbeats."""

from __future__ import annotations

import asyncio
from weakref import WeakKeyDictionary

from pyromq.client.config import ClientConfig
from pyromq.client.net.address import discovery_url, parse_addresses
from pyromq.client.net.instance import ClientInstance
from pyromq.clock import Clock, SystemClock
from pyromq.protocol.acl import Credentials

_Key = tuple[str, tuple[str, ...], Credentials | None, int]
_shared: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[_Key, ClientInstance]] = WeakKeyDictionary()


def borrow_instance(config: ClientConfig, clock: Clock) -> ClientInstance:
    """Return the client of this name, made now if nobody has it; one of its own to who has no name.

    The settings of whoever made it count. Clients of different loops, name servers, accounts or clocks are different.
    """
    if config.instance_name is None:
        instance = ClientInstance(config, clock)
    else:
        instance = _named_instance(config, config.instance_name, clock)
    instance.users += 1
    return instance


def _named_instance(config: ClientConfig, name: str, clock: Clock) -> ClientInstance:
    instances = _shared.setdefault(asyncio.get_running_loop(), {})
    time = 0 if isinstance(clock, SystemClock) else id(clock)
    url = discovery_url(config.namesrv)
    key = (name, (url,) if url else tuple(sorted(parse_addresses(config.namesrv))), config.credentials, time)
    instance = instances.get(key)
    if instance is None or instance.forked:
        instance = instances[key] = ClientInstance(config, clock)
    return instance


async def return_instance(instance: ClientInstance) -> None:
    """Give it back; whoever does so last closes it."""
    instance.users -= 1
    if not instance.users:
        instances = _shared.get(asyncio.get_running_loop(), {})
        for key in [key for key, known in instances.items() if known is instance]:
            del instances[key]
        await instance.close()
