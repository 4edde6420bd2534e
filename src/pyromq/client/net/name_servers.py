"""The name servers of a cluster as one: a call goes to the one that answered last, and on failure to the next."""

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
    """Name servers hold the same routes and do not know each other, so any of them will do.

    With a `url` the addresses come by HTTP: the first line of the answer, `host:port;host:port`.
    """

    def __init__(self, remoting: RemotingClient, addresses: Sequence[str], url: str | None = None) -> None:
        self.addresses = tuple(addresses)
        self.url = url
        self._remoting = remoting
        self._chosen = random.randrange(max(len(self.addresses), 1))  # so that clients spread over the servers
        self._answering: bool | None = None

    @classmethod
    def of(cls, remoting: RemotingClient, namesrv: str | Sequence[str]) -> Self:
        """Return the name servers at these addresses or this URL; raises ClientError if it is neither."""
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
        """Log once that no name server answers, and once that one does again; every send may come here."""
        before, self._answering = self._answering, answering
        if before is None or before == answering:  # if none has ever answered, the exception says so
            return
        if answering:
            logger.info("name servers answer again")
        else:
            logger.warning("no name server answers: %s", why)

    async def discover(self) -> bool:
        """Fetch the addresses if they come by HTTP; raises ConnectFailed if that fails."""
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
    """Return the text at a URL; raises OSError or ValueError."""
    from http.client import HTTPException  # both load dozens of modules and are rarely used
    from urllib.request import urlopen

    try:
        with urlopen(url, timeout=_DISCOVERY_TIMEOUT) as answer:  # noqa: S310 (discovery_url lets http and https pass)
            body: bytes = answer.read(_MOST_BYTES)
    except HTTPException as error:
        raise OSError(str(error)) from error
    return body.decode()
