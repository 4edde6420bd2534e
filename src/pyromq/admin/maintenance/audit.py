"""The audit log of a cluster: who changed what, at which server, and what was there before and after."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from pyromq.admin.masters import gather_limited
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.client.net.calls.maintenance_calls import MaintenanceCalls
from pyromq.client.net.calls.namesrv_calls import NamesrvCalls
from pyromq.errors import AccessDenied, PyroMQError

MOST_ENTRIES = 1_000
"""What a server remembers; its file has more (`pyromq.remoting.audit.audit_trail.read_audit`)."""


class AuditEntry(Struct, frozen=True, kw_only=True, rename={"from_": "from"}):
    """One administrative request."""

    time: str
    """ISO 8601, UTC, with milliseconds."""
    server: str
    """The name of the broker, or `namesrv`."""
    account: str
    """The access key, `-` if the request named none. Without access control nobody checked it."""
    from_: str
    """The address of who asked."""
    at: str
    """The address of the server that was asked."""
    subject: str
    """What it is about: topics, groups, offsets, configuration, accounts, roles, routes, kv, files, transactions."""
    request: str
    """The name of the request code."""
    result: str
    """SUCCESS, the name of another response code, or UNFINISHED."""
    reason: str = ""
    """Why it was refused."""
    details: Mapping[str, str] = {}
    """What the request said, without secrets."""
    before: Any = None
    """The subject as it was; None if it did not exist, or has no state to show."""
    after: Any = None
    left_out: int = 0
    """Refused requests before this one that a flood kept out of the log."""


class AuditListing(Struct, frozen=True, kw_only=True):
    """Entries of all servers, and those that did not answer."""

    entries: tuple[AuditEntry, ...]
    """The newest last."""
    silent: Mapping[str, str] = {}
    """By address, why a server did not answer; one of Apache's has no audit log."""


class Audit:
    """Reads the audit logs of all brokers and name servers."""

    def __init__(self, api: BrokerApi) -> None:
        self._api = api
        self._brokers = MaintenanceCalls(api.remoting)
        self._name_servers = NamesrvCalls(api)

    async def list(self, limit: int = 100) -> AuditListing:
        """Return the newest entries of all servers together, at most `limit`; raises AccessDenied."""
        info = await self._api.cluster_info()
        brokers = {address for one in info.broker_addr_table.values() for address in one.broker_addrs.values()}
        addresses = sorted(brokers | set(await self._name_servers.addresses()))
        answers = await gather_limited(addresses, lambda address: self._of(address, limit))
        by_address = dict(zip(addresses, answers, strict=True))
        found = [entry for answer in answers if not isinstance(answer, str) for entry in answer]
        found.sort(key=lambda entry: entry.time)
        silent = {address: answer for address, answer in by_address.items() if isinstance(answer, str)}
        return AuditListing(entries=tuple(found[-limit:]), silent=silent)

    async def _of(self, address: str, limit: int) -> Sequence[AuditEntry] | str:
        try:
            lines = await self._brokers.audit_log(address, min(limit, MOST_ENTRIES))
        except AccessDenied:
            raise
        except PyroMQError as error:
            return str(error)
        return [audit_entry(json.loads(line)) for line in lines]


def audit_entry(fields: Mapping[str, Any]) -> AuditEntry:
    """Return the entry of one line of an audit log."""
    known = {"from_" if key == "from" else key: value for key, value in fields.items()}
    return AuditEntry(**{key: value for key, value in known.items() if key in AuditEntry.__struct_fields__})
