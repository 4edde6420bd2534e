"""The name servers of a cluster, seen as one: a call goes to the one that answered last, on failure to the next."""

from __future__ import annotations

import logging
import random
from collections.abc import Sequence

from pyromq.errors import ConnectFailed, RemotingError
from pyromq.protocol.command import RemotingCommand
from pyromq.remoting.client import RemotingClient

logger = logging.getLogger(__name__)


class NameServers:
    """Any of these addresses: all hold the same routes, and none knows of the others."""

    def __init__(self, remoting: RemotingClient, addresses: Sequence[str]) -> None:
        self.addresses = tuple(addresses)
        self._remoting = remoting
        self._chosen = random.randrange(len(self.addresses))  # clients spread over the servers

    async def call(self, command: RemotingCommand, timeout: float) -> RemotingCommand:
        """Return the first answer; each server gets `timeout` seconds. Raises ConnectFailed if none answers."""
        failures = []
        for _ in self.addresses:
            address = self.addresses[self._chosen]
            try:
                return await self._remoting.request(address, command, timeout)
            except RemotingError as error:
                failures.append(f"{address} ({error})")
                self._chosen = (self._chosen + 1) % len(self.addresses)
        logger.warning("no name server answers: %s", ", ".join(failures))
        raise ConnectFailed(f"no name server answers: {', '.join(failures)}; is one running there?")
