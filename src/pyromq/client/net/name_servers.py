"""The name servers of a cluster as one: a call goes to the one that answered last, and on failure to the next."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from random import SystemRandom
from typing import Self

from pyromq.client.net.address import discovery_url, parse_addresses
from pyromq.clock import wait_for
from pyromq.errors import ClientError, ConnectFailed, NoNameServer, RemotingError
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import RemotingCommand
from pyromq.remoting.client import RemotingClient

logger = logging.getLogger(__name__)
_random = SystemRandom()  # programs seed the default one: then all their replicas would choose alike

DISCOVERY_INTERVAL = 120.0
_DISCOVERY_TIMEOUT = 3.0
_MOST_BYTES = 64 * 1024
_A_BROKER = "that is a broker; name servers listen on port 9876 by default"
_KNOWN_TO_ALL = (
    RequestCode.GET_ROUTEINFO_BY_TOPIC,
    RequestCode.GET_BROKER_CLUSTER_INFO,
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
)
_SHARE = 0.5  # of the time, divided among the servers; the other half is for the last one


class NameServers:
    """Name servers hold the same routes and do not know each other, so any of them will do.

    With a `url` the addresses come by HTTP: the first line of the answer, `host:port;host:port`.
    """

    def __init__(self, remoting: RemotingClient, addresses: Sequence[str], url: str | None = None) -> None:
        self.addresses = tuple(addresses)
        self.url = url
        self._remoting = remoting
        self._chosen = _random.randrange(max(len(self.addresses), 1))  # so that clients spread over the servers
        self._answering: bool | None = None
        self._asking: set[asyncio.Task[RemotingCommand]] = set()
        self._overtaken: set[asyncio.Task[RemotingCommand]] = set()  # another server has answered meanwhile
        self._silent: set[str] = set()

    @classmethod
    def of(cls, remoting: RemotingClient, namesrv: str | Sequence[str]) -> Self:
        """Return the name servers at these addresses or this URL; raises ClientError if it is neither."""
        url = discovery_url(namesrv)
        return cls(remoting, () if url else parse_addresses(namesrv), url)

    def through(self, remoting: RemotingClient) -> NameServers:
        """Return the same name servers, reached by other connections."""
        return NameServers(remoting, self.addresses, self.url)

    async def call(self, command: RemotingCommand, timeout: float) -> RemotingCommand:
        """Return the first answer within `timeout` seconds; raises NoNameServer if none answers.

        One server is asked, and the next one as soon as that fails. If it is only slow, the next one is asked too after
        a share of the time, and the first answer counts.
        """
        if not self.addresses:
            await self.discover()
        left = [self.addresses[(self._chosen + number) % len(self.addresses)] for number in range(len(self.addresses))]
        share = timeout * _SHARE / len(left)
        deadline = self._remoting.clock.monotonic() + timeout
        asked: dict[asyncio.Task[RemotingCommand], str] = {}
        failures: dict[str, str] = {}
        while left or asked:
            if left:
                address = left.pop(0)
                asked[self._ask(address, command, deadline)] = address
            for ended in await self._first_ended(asked, share if left else None):
                address = asked.pop(ended)
                error = ended.exception()
                if error is None:
                    if _is_from_a_broker(command, ended.result()):
                        failures[address] = _A_BROKER
                        continue
                    self._answered(address, failures)
                    self._overtaken.update(asked)
                    return ended.result()
                if not isinstance(error, RemotingError):
                    raise error
                failures[address] = reason_without(error, address)
        why = ", ".join(f"{address} ({reason})" for address, reason in failures.items())
        self._note(answering=False, why=why)
        hint = "" if _A_BROKER in failures.values() else "; is one running there?"
        raise NoNameServer(f"no name server answers: {why}{hint}")

    def _ask(self, address: str, command: RemotingCommand, deadline: float) -> asyncio.Task[RemotingCommand]:
        timeout = max(deadline - self._remoting.clock.monotonic(), 0.0)
        task = asyncio.create_task(self._remoting.request(address, command, timeout))
        self._asking.add(task)  # it goes on when another server has answered: so its silence is noticed
        task.add_done_callback(lambda done: self._ended(address, done))
        return task

    async def _first_ended(
        self, asked: Iterable[asyncio.Task[RemotingCommand]], patience: float | None
    ) -> set[asyncio.Task[RemotingCommand]]:
        waiting = asyncio.wait(list(asked), return_when=asyncio.FIRST_COMPLETED)
        try:
            return (await (waiting if patience is None else wait_for(self._remoting.clock, waiting, patience)))[0]
        except TimeoutError:
            return set()

    def _answered(self, address: str, failures: Mapping[str, str]) -> None:
        self._chosen = self.addresses.index(address) if address in self.addresses else 0
        self._note(answering=True)
        for failed, reason in failures.items():
            self._report(failed, reason)

    def _ended(self, address: str, task: asyncio.Task[RemotingCommand]) -> None:
        self._asking.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is None:
            self._silent.discard(address)
        elif task in self._overtaken and not self._remoting.closed:
            self._report(address, reason_without(error, address))
        self._overtaken.discard(task)

    def _report(self, address: str, reason: str) -> None:
        """Log once that this name server does not answer, although another one does."""
        if address not in self._silent:
            self._silent.add(address)
            logger.warning("name server %s does not answer, another one does: %s", address, reason)

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


def reason_without(error: BaseException, address: str) -> str:
    """Return the text of an error of the network without the address, for a line that has it already."""
    text = str(error).removeprefix(f"cannot connect to {address}: ")
    return text.replace(f" to {address} lost", " lost").replace(f" from {address}", "")


def _is_from_a_broker(command: RemotingCommand, answer: RemotingCommand) -> bool:
    """Return True if a server does not know what every name server knows: then it is a broker."""
    return command.code in _KNOWN_TO_ALL and answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED


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
