"""Accounts of a cluster with access control: list, add, change and remove them, on every broker.

Each broker has its own file. What is done here is done on all brokers of the cluster, slaves included; a name server
reads its own file, which `pyromq up` shares with its brokers.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence

from msgspec import Struct

from pyromq.client.net.calls.account_calls import AccountCalls
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.errors import ClientError
from pyromq.protocol.bodies.admin import PlainAccessConfig
from pyromq.protocol.headers.accounts import UpdateAndCreateAclConfigRequestHeader


class AccountRights(Struct, frozen=True, kw_only=True):
    """An account as a broker has it, without its secret."""

    access_key: str
    admin: bool
    default_topic: str
    default_group: str
    topics: Mapping[str, str]
    """The permission of each topic or prefix."""
    groups: Mapping[str, str]
    white_address: str = ""
    brokers: Sequence[str] = ()
    """The addresses of the brokers that have exactly this."""


class ClusterAccounts:
    """Looks after the accounts of all brokers."""

    def __init__(self, api: BrokerApi) -> None:
        self._api = api
        self._calls = AccountCalls(api.remoting)

    async def list(self) -> Sequence[AccountRights]:
        """Return all accounts; one that brokers have with different rights comes once for each difference."""
        found: dict[tuple[object, ...], tuple[PlainAccessConfig, list[str]]] = {}
        for address in await self._brokers():
            for one in (await self._calls.accounts(address)).plain_access_configs:
                found.setdefault(_identity(one), (one, []))[1].append(address)
        return [_rights(one, brokers) for one, brokers in found.values()]

    async def get(self, access_key: str) -> Sequence[AccountRights]:
        """Return an account, several times if brokers differ; raises ClientError if no broker has it."""
        found = [account for account in await self.list() if account.access_key == access_key]
        if not found:
            raise ClientError(f"no broker has an account {access_key!r}")
        return found

    async def check_own(self) -> None:
        """Have a broker check the account of this client; raises AccessDenied if it does not know it, or its secret."""
        for address in (await self._brokers())[:1]:
            await self._calls.check(address)

    async def add(
        self,
        access_key: str,
        secret_key: str | None = None,
        *,
        admin: bool = False,
        default_topic: str = "DENY",
        default_group: str = "DENY",
        topics: Mapping[str, str] | None = None,
        groups: Mapping[str, str] | None = None,
    ) -> str:
        """Add an account to all brokers; return its secret, a random one unless it is given.

        Raises ClientError if there is one already, BrokerError if a broker refuses.
        """
        if any(account.access_key == access_key for account in await self.list()):
            raise ClientError(f"there is an account {access_key!r} already: change it with `set`")
        secret = secret_key or secrets.token_urlsafe(24)
        await self._update(
            UpdateAndCreateAclConfigRequestHeader(
                access_key=access_key,
                secret_key=secret,
                admin=admin,
                default_topic_perm=default_topic,
                default_group_perm=default_group,
                topic_perms=_joined(topics or {}),
                group_perms=_joined(groups or {}),
            )
        )
        return secret

    async def set(
        self,
        access_key: str,
        *,
        secret_key: str | None = None,
        admin: bool | None = None,
        default_topic: str | None = None,
        default_group: str | None = None,
        topics: Mapping[str, str] | None = None,
        groups: Mapping[str, str] | None = None,
    ) -> None:
        """Change what is given of an account on all brokers; entries of topics and groups are added to those it has.

        An entry with an empty permission is removed. Raises ClientError if no broker has the account.
        """
        known = (await self.get(access_key))[0]
        await self._update(
            UpdateAndCreateAclConfigRequestHeader(
                access_key=access_key,
                secret_key=secret_key,
                admin=known.admin if admin is None else admin,
                default_topic_perm=default_topic,
                default_group_perm=default_group,
                topic_perms=None if topics is None else _joined({**known.topics, **topics}),
                group_perms=None if groups is None else _joined({**known.groups, **groups}),
            )
        )

    async def remove(self, access_key: str) -> None:
        """Remove an account from all brokers that have it; raises ClientError if none has."""
        for address in {broker for account in await self.get(access_key) for broker in account.brokers}:
            if any(one.access_key == access_key for one in (await self._calls.accounts(address)).plain_access_configs):
                await self._calls.remove_account(address, access_key)  # brokers of one process share a file

    async def _update(self, wanted: UpdateAndCreateAclConfigRequestHeader) -> None:
        for address in await self._brokers():
            await self._calls.update_account(address, wanted)

    async def _brokers(self) -> Sequence[str]:
        info = await self._api.cluster_info()
        return sorted(address for broker in info.broker_addr_table.values() for address in broker.broker_addrs.values())


def _joined(rights: Mapping[str, str]) -> str:
    return ",".join(f"{name}={permission}" for name, permission in rights.items() if permission)


def _split(rights: Sequence[str] | None) -> dict[str, str]:
    return {name: permission for name, _, permission in (one.partition("=") for one in rights or ())}


def _identity(one: PlainAccessConfig) -> tuple[object, ...]:
    topics, groups = tuple(one.topic_perms or ()), tuple(one.group_perms or ())
    return one.access_key, one.admin, one.default_topic_perm, one.default_group_perm, topics, groups


def _rights(one: PlainAccessConfig, brokers: Sequence[str]) -> AccountRights:
    return AccountRights(
        access_key=one.access_key,
        admin=one.admin,
        default_topic=one.default_topic_perm or "DENY",
        default_group=one.default_group_perm or "DENY",
        topics=_split(one.topic_perms),
        groups=_split(one.group_perms),
        white_address=one.white_remote_address or "",
        brokers=tuple(brokers),
    )
