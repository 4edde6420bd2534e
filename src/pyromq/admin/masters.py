"""Ask all brokers of a cluster at once; those that do not answer are noted and delay nobody."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TypeVar

from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.errors import AccessDenied, BrokerError, ClientError, NoMaster, ProtocolError, RemotingError
from pyromq.protocol.bodies import ClusterInfo
from pyromq.protocol.codes import MASTER_ID

_AT_A_TIME = 64

T = TypeVar("T")
K = TypeVar("K")


class Masters:
    """The master brokers of a cluster, for the duration of one operation."""

    def __init__(self, addresses: Mapping[str, str | None]) -> None:
        self.addresses = {name: address for name, address in sorted(addresses.items()) if address is not None}
        self.absent = [name for name in sorted(addresses) if addresses[name] is None]
        """Brokers without a master."""
        self.silent = dict.fromkeys(self.absent, "it has no master now")
        """Brokers that did not answer a question so far, and why. What only they know is missing."""
        self._unreachable: set[str] = set()

    @classmethod
    async def find(cls, api: BrokerApi) -> Masters:
        """Get their addresses from a name server."""
        return cls.of(await api.cluster_info())

    @classmethod
    def of(cls, cluster: ClusterInfo) -> Masters:
        """Take their addresses from what a name server said."""
        brokers = cluster.broker_addr_table
        return cls({name: broker.broker_addrs.get(MASTER_ID) for name, broker in brokers.items()})

    def address(self, name: str) -> str:
        """Return where a broker's master is; raises NoMaster if it has none, ClientError if nobody knows it."""
        if name in self.absent:
            raise NoMaster(f"broker {name} has no master now")
        try:
            return self.addresses[name]
        except KeyError:
            raise ClientError(f"no name server knows a broker {name!r}") from None

    def check_complete(self) -> None:
        """Raise NoMaster if a broker has no master: what it holds is missing in an answer."""
        if self.absent:
            which = "broker" if len(self.absent) == 1 else "brokers"
            verb = "has" if len(self.absent) == 1 else "have"
            raise NoMaster(
                f"{which} {', '.join(self.absent)} {verb} no master now: what is there could not be asked for"
            )

    async def ask(self, question: Callable[[str], Awaitable[T]]) -> dict[str, T]:
        """Ask all brokers at once, by address; return the answers by name; raises AccessDenied.

        A broker that could not be reached is not asked again: each question would wait for it.
        """
        names = [name for name in self.addresses if name not in self._unreachable]
        answers = await gather_limited(names, lambda name: self._ask(name, question))
        return {name: answer[0] for name, answer in zip(names, answers, strict=True) if answer}

    async def ask_all(self, question: Callable[[str], Awaitable[T]]) -> dict[str, T]:
        """Return the answers of all brokers; raises ClientError if one is missing: half a change is worse than none."""
        answers = await self.ask(question)
        self.check_all_answered()
        return answers

    def check_all_answered(self) -> None:
        """Raise ClientError if a broker has not answered a question."""
        for broker, reason in self.silent.items():
            raise ClientError(f"{broker} does not answer, so nothing was changed: {reason}")

    async def _ask(self, name: str, question: Callable[[str], Awaitable[T]]) -> tuple[T] | None:
        try:
            return (await question(self.addresses[name]),)
        except (RemotingError, ProtocolError) as error:
            self._unreachable.add(name)
            self.silent[name] = str(error)
        except AccessDenied:
            raise
        except BrokerError as error:
            self.silent[name] = str(error)
        return None


FindMasters = Callable[[], Awaitable[Masters]]


async def gather_limited(items: Iterable[K], work: Callable[[K], Awaitable[T]], at_a_time: int = _AT_A_TIME) -> list[T]:
    """Run `work` for each item, a limited number at a time; return the results in the order of the items."""
    limit = asyncio.Semaphore(at_a_time)

    async def one(item: K) -> T:
        async with limit:
            return await work(item)

    return list(await asyncio.gather(*map(one, items)))
