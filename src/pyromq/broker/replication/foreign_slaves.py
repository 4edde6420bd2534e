"""Slaves of Apache's, which cut nothing: before one is sent what follows its report, its log is compared with ours.

Such a slave says only where its log ends. If it was master once and has a tail of its own, the bytes that it is sent
would follow that tail: a mixed log. So the last whole record before its report must be the same there. The slave is
asked for it by request 33, at the address under which it is registered.
"""

from __future__ import annotations

from pyromq.broker.config.public_address import split_address
from pyromq.broker.parts import Parts
from pyromq.broker.replication.master_calls import MasterCalls
from pyromq.broker.replication.rescue.known_slaves import registered_slaves
from pyromq.broker.replication.slave_link import SlaveLink
from pyromq.errors import PyroMQError
from pyromq.remoting.client import RemotingClient
from pyromq.store.message_store import MessageStore


class ForeignSlaves:
    """Looks into the logs of slaves that do not introduce themselves."""

    def __init__(self, parts: Parts, store: MessageStore, remoting: RemotingClient) -> None:
        self._parts = parts
        self._store = store
        self._remoting = remoting

    async def objection(self, link: SlaveLink, report: int) -> str:
        """Return why a slave may not be sent what follows its report; empty if it may."""
        last = self._store.copied_log.last_record(report)
        if last is None:
            return ""
        addresses = await self._registered_at(split_address(link.peer)[0])
        if not addresses:
            return "no slave is registered there, so what it has cannot be compared"
        for address in addresses:
            try:
                if await MasterCalls(self._remoting, address).record(last.physical_offset) == last.data:
                    return ""
            except PyroMQError:
                continue
        return f"the logs have parted: its record at {last.physical_offset} is another one; empty its store"

    async def _registered_at(self, host: str) -> list[str]:
        """Return the addresses of this broker's slaves on a machine, as the name servers know them."""
        slaves = await registered_slaves(self._parts.config, self._remoting)
        return [address for address in slaves.values() if split_address(address)[0] == host]
