"""The name servers of a cluster, seen as one: a call goes to the one that answered last, on failure to the next."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Sequence
from typing import Self

from pyromq.client.net.address import discovery_url, parse_addresses
from pyromq.errors import ClientError, ConnectFailed, RemotingError
from pyromq.protocol.command import RemotingCommand
from pyromq.remoting.client import RemotingClient

logger = logging.getLogger(__name__)

DISCOVERY_INTERVAL = 120.0
_DISCOVERY_TIMEOUT = 3.0
_MOST_BYTES = 64 * 1024


class NameServers:
    """Any of these addresses: all hold the same routes, and none knows of the others.

    With a `url` the addresses are asked for by HTTP: the first line of what is there, `host:port;host:port`.
    """

    def __init__(self, remoting: RemotingClient, addresses: Sequence[str], url: str | None = None) -> None:
        self.addresses = tuple(addresses)
        self.url = url
        self._remoting = remoting
        self._chosen = random.randrange(max(len(self.addresses), 1))  # clients spread over the servers
        self._answering: bool | None = None

    @classmethod
    def of(cls, remoting: RemotingClient, namesrv: str | Sequence[str]) -> Self:
        """Return those that a user named, by their addresses or by a URL; raises ClientError for what is neither."""
        url = discovery_url(namesrv)
        return cls(remoting, () if url else parse_addresses(namesrv), url)

    async def call(self, command: RemotingCommand, timeout: float) -> RemotingCommand:
        """Return the first answer; each server gets `timeout` seconds. Raises ConnectFailed if none answers."""
        if not self.addresses:
            await self.discover()
        failures = []
        for _ in self.addresses:
            address = self.addresses[self._chosen % len(self.addresses)]
            try:
                answer = await self._remoting.request(address, command, timeout)
            except RemotingError as error:
                failures.append(f"{address} ({error})")
                self._chosen += 1
            else:
                self._note(answering=True)
                return answer
        self._note(answering=False, why=", ".join(failures))
        raise ConnectFailed(f"no name server answers: {', '.join(failures)}; is one running there?")

    def _note(self, *, answering: bool, why: str = "") -> None:
        """Say it once when all name servers go away, and once when one is back: every send may have to ask."""
        before, self._answering = self._answering, answering
        if before is None or before == answering:  # who never reached one hears it from the error
            return
        if answering:
            logger.info("name servers answer again")
        else:
            logger.warning("no name server answers: %s", why)

    async def discover(self) -> bool:
        """Ask for the addresses by HTTP, if that is how they are found; raises ConnectFailed if that does not work."""
        if self.url is None:
            return True
        try:
            text = await asyncio.to_thread(_fetch, self.url)
            found = parse_addresses(text.partition("\n")[0])
        except (OSError, ValueError, ClientError) as error:
            raise ConnectFailed(f"no name server's address at {self.url}: {error}") from error
        if set(found) != set(self.addresses):
            logger.info("name servers by %s: %s", self.url, ", ".join(found))
            self.addresses = found
        return True


def _fetch(url: str) -> str:
    """Return what is at a URL; raise OSError or ValueError."""
    from http.client import HTTPException  # both load dozens of modules, and are seldom used
    from urllib.request import urlopen

    try:
        with urlopen(url, timeout=_DISCOVERY_TIMEOUT) as answer:  # noqa: S310 (discovery_url lets http and https pass)
            body: bytes = answer.read(_MOST_BYTES)
    except HTTPException as error:
        raise OSError(str(error)) from error
    return body.decode()
