"""All clients that are connected to the brokers of a cluster: producers and consumers, by id."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from pyromq.admin.groups.snapshot import release
from pyromq.admin.masters import FindMasters, gather_limited
from pyromq.client.net.calls.admin_calls import AdminCalls
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.protocol.bodies import ConsumerConnection

_AT_A_TIME = 32


class ConnectedClient(Struct, frozen=True, kw_only=True):
    """A client as brokers know it from its heartbeats."""

    client_id: str
    address: str
    language: str
    version: str
    producer_groups: tuple[str, ...] = ()
    consumer_groups: tuple[str, ...] = ()
    brokers: tuple[str, ...] = ()
    """The brokers that it is connected to."""

    @property
    def host(self) -> str:
        """Its address without the port."""
        return self.address.rpartition(":")[0] or self.address


class ClientListing(Struct, frozen=True, kw_only=True):
    """All clients of a cluster, and what is missing."""

    clients: tuple[ConnectedClient, ...]
    silent_brokers: Mapping[str, str] = {}
    """Brokers that did not answer, and why."""
    without_producers: tuple[str, ...] = ()
    """Brokers that cannot list producers: Apache's before 4.9.4."""


class _Sighting(Struct):
    address: str
    language: str
    version: int
    producer_groups: set[str]
    consumer_groups: set[str]
    brokers: set[str]


class Clients:
    """Asks all brokers who is connected."""

    def __init__(self, api: BrokerApi, masters: FindMasters) -> None:
        self._calls = AdminCalls(api.remoting)
        self._masters = masters

    async def list(self) -> ClientListing:
        """Return all producers and consumers that send heartbeats, by client id."""
        masters = await self._masters()
        seen: dict[str, _Sighting] = {}
        producers = await masters.ask(self._calls.all_producers)
        for broker, table in producers.items():
            for group, members in table.data.items() if table else ():
                for one in members:
                    client = _sighting(seen, one.client_id, one.remote_ip, one.language.name, one.version)
                    client.producer_groups.add(group)
                    client.brokers.add(broker)
        for broker, groups in (await masters.ask(self._consumers)).items():
            for group, connection in groups.items():
                for member in connection.connection_set:
                    client = _sighting(seen, member.client_id, member.client_addr, member.language.name, member.version)
                    client.consumer_groups.add(group)
                    client.brokers.add(broker)
        return ClientListing(
            clients=tuple(_client(client_id, one) for client_id, one in sorted(seen.items())),
            silent_brokers=dict(masters.silent),
            without_producers=tuple(sorted(broker for broker, table in producers.items() if table is None)),
        )

    async def _consumers(self, address: str) -> dict[str, ConsumerConnection]:
        """Return the connections of all groups that have some; brokers of ours say which those are."""
        activity = await self._calls.group_activity(address)
        if activity is not None:
            groups = [group for group, row in activity.groups.items() if row.members]
        else:
            groups = list(await self._calls.group_settings(address))
        found = await gather_limited(groups, lambda group: self._calls.group_connections(address, group), _AT_A_TIME)
        return {group: one for group, one in zip(groups, found, strict=True) if one is not None}


def _sighting(seen: dict[str, _Sighting], client_id: str, address: str, language: str, version: int) -> _Sighting:
    return seen.setdefault(client_id, _Sighting(address.lstrip("/"), language, version, set(), set(), set()))


def _client(client_id: str, one: _Sighting) -> ConnectedClient:
    return ConnectedClient(
        client_id=client_id,
        address=one.address,
        language=one.language,
        version=release(one.version),
        producer_groups=tuple(sorted(one.producer_groups)),
        consumer_groups=tuple(sorted(one.consumer_groups)),
        brokers=tuple(sorted(one.brokers)),
    )
