"""AccountClients: people who sign in with an account of the cluster's access control, and the clients they act with.

The brokers decide what such a person may do: every act goes out under the account's own signature. The console only
leaves out topics and groups about which the account has no rights.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final

from pyromq.access.account import Account, Permission, parse_permission
from pyromq.admin.admin_client import AdminClient
from pyromq.admin.maintenance.accounts import AccountRights
from pyromq.console.login.roles import UserRole
from pyromq.console.login.users import User
from pyromq.errors import AccessDenied, PyroMQError
from pyromq.protocol.acl import Credentials

logger = logging.getLogger(__name__)

MOST_CLIENTS: Final = 50


class AccountClients:
    """The clients of accounts that are signed in, by access key."""

    def __init__(self, own: Callable[[], AdminClient], client_of: Callable[[Credentials], AdminClient]) -> None:
        self._own = own
        self._client_of = client_of
        self._clients: OrderedDict[str, AdminClient] = OrderedDict()

    async def sign_in(self, access_key: str, secret_key: str) -> User | None:
        """Return the user if the brokers know the account and its secret; None if not, or without access control."""
        account = await self._account(access_key)
        if account is None or not secret_key:
            return None
        client = self._client_of(Credentials(access_key, secret_key))
        try:
            await client.start()
            await client.accounts.check_own()
        except AccessDenied:
            await client.close()
            return None
        except PyroMQError:
            await client.close()
            raise
        await self._keep(access_key, client)
        role = UserRole.ADMIN if account.admin else UserRole.OPERATOR
        return User(name=access_key, role=role, account=account, kind="account")

    def client(self, user: User) -> AdminClient | None:
        """Return the client of an account; None if it is gone, and the person has to sign in again."""
        return self._clients.get(user.name)

    async def close(self) -> None:
        """Close all clients."""
        while self._clients:
            _, client = self._clients.popitem()
            await client.close()

    async def _account(self, access_key: str) -> Account | None:
        try:
            found = [one for one in await self._own().accounts.list() if one.access_key == access_key]
        except PyroMQError as error:  # no access control there, or not for us
            logger.info("accounts of the cluster cannot be asked for: %s", error)
            return None
        return _joined(found) if found else None

    async def _keep(self, access_key: str, client: AdminClient) -> None:
        old = self._clients.pop(access_key, None)
        self._clients[access_key] = client
        if len(self._clients) > MOST_CLIENTS:
            _, oldest = self._clients.popitem(last=False)
            await oldest.close()
        if old is not None:
            await old.close()


def _joined(found: Sequence[AccountRights]) -> Account:
    """Return an account as the first broker has it, an administrator only if all brokers say so; without its secret."""
    first = found[0]
    return Account(
        access_key=first.access_key,
        secret_key="",
        admin=all(one.admin for one in found),
        default_topic=_permission(first.default_topic),
        default_group=_permission(first.default_group),
        topics={name: _permission(text) for name, text in first.topics.items()},
        groups={name: _permission(text) for name, text in first.groups.items()},
    )


def _permission(text: str) -> Permission:
    try:
        return parse_permission(text)
    except ValueError:
        return Permission.DENY
