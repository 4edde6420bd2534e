"""KV settings: values that administrators keep at the name servers, by namespace and key.

Name servers do not know each other, so a value may differ between them: one was away when it was set. Reading asks all
of them and shows that; setting it again heals it.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from pyromq.admin.masters import gather_limited
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.client.net.calls.namesrv_calls import NamesrvCalls
from pyromq.errors import AccessDenied, ClientError, PyroMQError
from pyromq.protocol.names import ORDER_CONFIG_NAMESPACE as ORDER_NAMESPACE


class KvSetting(Struct, frozen=True, kw_only=True):
    """One key, by all name servers."""

    namespace: str
    key: str
    value: str
    """The value that most name servers have."""
    others: Mapping[str, str | None] = {}
    """Name servers that have another one, by address; None if they have none."""


class KvListing(Struct, frozen=True, kw_only=True):
    """All keys of a namespace, and the name servers that do not answer."""

    values: tuple[KvSetting, ...]
    silent: Mapping[str, str] = {}


class KeyValues:
    """Reads and changes the KV settings of all name servers."""

    def __init__(self, api: BrokerApi) -> None:
        self._namesrv = NamesrvCalls(api)

    async def list(self, namespace: str = ORDER_NAMESPACE) -> KvListing:
        """Return all values of a namespace; there are none in a namespace that does not exist."""
        addresses = await self._namesrv.addresses()
        answers = await gather_limited(addresses, lambda address: self._table(address, namespace))
        tables = {
            address: answer for address, answer in zip(addresses, answers, strict=True) if isinstance(answer, dict)
        }
        silent = {
            address: answer for address, answer in zip(addresses, answers, strict=True) if isinstance(answer, str)
        }
        if not tables:
            raise ClientError(
                "; ".join(f"name server {address} does not answer: {why}" for address, why in silent.items())
            )
        keys = sorted({key for table in tables.values() for key in table})
        found = (
            _compared(namespace, key, {address: table.get(key) for address, table in tables.items()}) for key in keys
        )
        return KvListing(values=tuple(found), silent=silent)

    async def get(self, namespace: str, key: str) -> KvSetting:
        """Return a value; raises ClientError if no name server has it."""
        listing = await self.list(namespace)
        for value in listing.values:
            if value.key == key:
                return value
        raise ClientError(f"the namespace {namespace!r} has no key {key!r}")

    async def set(self, namespace: str, key: str, value: str) -> None:
        """Set a value at every name server; raises ClientError if one of them did not take it."""
        _check(namespace, key)
        if namespace == ORDER_NAMESPACE:
            _check_order(value)
        await self._namesrv.put_kv(namespace, key, value)

    async def delete(self, namespace: str, key: str) -> None:
        """Delete a value at every name server; raises ClientError if none had it, or one of them did not answer."""
        await self.get(namespace, key)
        await self._namesrv.delete_kv(namespace, key)

    async def _table(self, address: str, namespace: str) -> dict[str, str] | str:
        try:
            return await self._namesrv.kv_table(address, namespace)
        except AccessDenied:
            raise
        except PyroMQError as error:
            return str(error)


def _compared(namespace: str, key: str, values: Mapping[str, str | None]) -> KvSetting:
    given = [value for value in values.values() if value is not None]
    usual = max(given, key=given.count)
    others = {address: value for address, value in values.items() if value != usual}
    return KvSetting(namespace=namespace, key=key, value=usual, others=others)


def _check(namespace: str, key: str) -> None:
    if not namespace or not key:
        raise ClientError("a namespace and a key are needed; neither may be empty")


def _check_order(value: str) -> None:
    """Raise ClientError unless it is an order setting: producers would fail to read it."""
    for part in filter(None, value.split(";")):
        broker, _, queues = part.rpartition(":")
        if not broker or not queues.isdecimal():
            raise ClientError(f"an order setting is broker:queues;broker:queues, and {part!r} is not that")
