"""Requests about accounts, which administrators send to brokers with access control."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyromq.client.net.calls.base import CALL_TIMEOUT, BrokerCalls
from pyromq.errors import NotSupported, RequestTimeout
from pyromq.protocol.bodies import decode
from pyromq.protocol.bodies.admin import AclInfo
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.headers.accounts import DeleteAclConfigRequestHeader, UpdateAndCreateAclConfigRequestHeader


class AccountCalls(BrokerCalls):
    """Typed requests to one broker."""

    async def accounts(self, address: str) -> AclInfo:
        """Return all accounts of a broker; Apache's also answers with their secrets."""
        with _explained():
            answer = await self._ask(address, RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG, timeout=CALL_TIMEOUT)
        return decode(AclInfo, answer.body)

    async def update_account(self, address: str, wanted: UpdateAndCreateAclConfigRequestHeader) -> None:
        """Add an account, or change one; raises BrokerError that says why not."""
        with _explained():
            await self._ask(address, RequestCode.UPDATE_AND_CREATE_ACL_CONFIG, wanted, timeout=CALL_TIMEOUT)

    async def remove_account(self, address: str, access_key: str) -> None:
        """Remove an account; raises BrokerError if the broker has none of this name."""
        header = DeleteAclConfigRequestHeader(access_key=access_key)
        with _explained():
            await self._ask(address, RequestCode.DELETE_ACL_CONFIG, header, timeout=CALL_TIMEOUT)

    async def check(self, address: str) -> None:
        """Ask for what every account may know; raises AccessDenied if the broker does not know ours, or its secret."""
        await self._ask(address, RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER, timeout=CALL_TIMEOUT)


@contextmanager
def _explained() -> Iterator[None]:
    """Say what silence means: Apache's broker answers nothing about accounts while access control is off."""
    try:
        yield
    except RequestTimeout as error:
        raise NotSupported(f"{error}; Apache's brokers do not answer this without aclEnable=true") from None
