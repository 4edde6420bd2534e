"""AdminClient: the operator's client, one attribute for each theme."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from types import TracebackType
from typing import Self

from pyromq.admin.dead_letters import DeadLetters
from pyromq.admin.groups.groups import Groups
from pyromq.admin.masters import Masters
from pyromq.admin.timed_messages import TimedMessages
from pyromq.admin.topic_reader import TopicReader
from pyromq.admin.topics import Topics
from pyromq.admin.traces import Traces
from pyromq.admin.transactions import Transactions
from pyromq.client.net.address import DEFAULT_NAMESRV
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.client.send.producer import Producer
from pyromq.clock import Clock, SystemClock
from pyromq.errors import ClientError
from pyromq.protocol.acl import Credentials
from pyromq.protocol.messages.message import MessageExt

ADMIN_GROUP = "pyromq-admin"


class AdminClient:
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
        self._namesrv = namesrv
        self._credentials = credentials
        self._clock = clock or SystemClock()
        self._api: BrokerApi | None = None
        self._producer: Producer | None = None

    # --- life --------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Open the client; `async with` does it for you. The first call connects."""
        if self._api is not None:
            raise ClientError("this client is open already")
        self._api = await BrokerApi.connect(self._namesrv, credentials=self._credentials, clock=self._clock)
        self.dead_letters = DeadLetters(self._api, self.producer, self._clock)
        self.timed_messages = TimedMessages(self._api, self.masters, ADMIN_GROUP)
        self.transactions = Transactions(self._api, self.masters)
        self.traces = Traces(self._api)
        self.groups = Groups(self._api, self._clock)
        self.topics = Topics(self._api)

    async def close(self) -> None:
        """Close all connections."""
        api, self._api = self._api, None
        producer, self._producer = self._producer, None
        if producer is not None:
            await producer.close()
        if api is not None:
            await api.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def api(self) -> BrokerApi:
        """Single calls to brokers and name servers."""
        if self._api is None:
            raise ClientError("this client is not open: use it inside `async with`")
        return self._api

    async def producer(self) -> Producer:
        """Return the producer for messages that operators send; it is opened on first use."""
        if self._producer is None:
            producer = Producer(ADMIN_GROUP, self._namesrv, credentials=self._credentials, clock=self._clock)
            await producer.start()
            self._producer = producer
        return self._producer

    # --- the cluster -------------------------------------------------------------------------------------------------

    async def masters(self) -> dict[str, str]:
        """Return the address of every broker's master, by the broker's name."""
        return (await Masters.find(self.api)).addresses

    async def read(self, topic: str) -> AsyncIterator[MessageExt]:
        """Yield all messages that a topic holds now, without a group; raises NoRoute if there is no such topic."""
        reader = await TopicReader.open(self.api, topic)
        async for message in reader.read():
            yield message
