"""AdminClient: the operator's client, one attribute for each theme."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from functools import partial

from pyromq.admin.dead_letters import DeadLetters
from pyromq.admin.groups.groups import Groups
from pyromq.admin.masters import Masters
from pyromq.admin.timed_messages import TimedMessages
from pyromq.admin.topic_reader import TopicReader
from pyromq.admin.topics import Topics
from pyromq.admin.traces import Traces
from pyromq.admin.transactions import Transactions
from pyromq.client.lifecycle import ClientLifecycle
from pyromq.client.net.address import DEFAULT_NAMESRV
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.client.send.producer import Producer
from pyromq.clock import Clock, SystemClock
from pyromq.protocol.acl import Credentials
from pyromq.protocol.messages.message import MessageExt

ADMIN_GROUP = "pyromq-admin"


class AdminSession:
    """What an AdminClient has while it is open: connections, and a producer once one is needed."""

    def __init__(self, namesrv: str | Sequence[str], credentials: Credentials | None, clock: Clock) -> None:
        self._namesrv = namesrv
        self._credentials = credentials
        self._clock = clock
        self._stack = AsyncExitStack()
        self._producer: Producer | None = None
        self.api: BrokerApi

    async def start(self) -> None:
        """Prepare the connections; the first call connects."""
        api = await BrokerApi.connect(self._namesrv, credentials=self._credentials, clock=self._clock)
        self.api = await self._stack.enter_async_context(api)

    async def close(self, *, failed: bool) -> None:
        """Close all connections."""
        await self._stack.aclose()

    async def producer(self) -> Producer:
        """Return the producer, opened on first use."""
        if self._producer is None:
            producer = Producer(ADMIN_GROUP, self._namesrv, credentials=self._credentials, clock=self._clock)
            self._producer = await self._stack.enter_async_context(producer)
        return self._producer


class AdminClient(ClientLifecycle[AdminSession]):
    """Looks at a cluster and changes it. Each theme is an attribute: `groups`, `topics`, `dead_letters` …

    >>> async with AdminClient("127.0.0.1:9876") as admin:
    ...     async for letter in admin.dead_letters.read("billing"):
    ...         print(letter.message.message_id, letter.cause)
    """

    def __init__(
        self,
        namesrv: str | Sequence[str] = DEFAULT_NAMESRV,
        *,
        credentials: Credentials | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._clock = clock or SystemClock()
        super().__init__("client", partial(AdminSession, namesrv, credentials, self._clock))

    async def start(self) -> None:
        """Open the client; `async with` does it for you. The first call connects."""
        await super().start()
        api = self.api
        self.dead_letters = DeadLetters(api, self.producer, self._clock)
        self.timed_messages = TimedMessages(api, self.masters, ADMIN_GROUP)
        self.transactions = Transactions(api, self.masters)
        self.traces = Traces(api)
        self.groups = Groups(api, self._clock)
        self.topics = Topics(api)

    @property
    def api(self) -> BrokerApi:
        """Single calls to brokers and name servers."""
        return self._session.api

    async def producer(self) -> Producer:
        """Return the producer for messages that operators send; it is opened on first use."""
        return await self._session.producer()

    # --- the cluster -------------------------------------------------------------------------------------------------

    async def masters(self) -> dict[str, str]:
        """Return the address of every broker's master, by the broker's name."""
        return (await Masters.find(self.api)).addresses

    async def read(self, topic: str) -> AsyncIterator[MessageExt]:
        """Yield all messages that a topic holds now, without a group; raises NoRoute if there is no such topic."""
        reader = await TopicReader.open(self.api, topic)
        async for message in reader.read():
            yield message
