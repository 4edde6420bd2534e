"""AdminClient: the operator's client, one attribute for each theme."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack

from pyromq.admin.clusters import Clusters, ClusterStatus, PromotionPlan
from pyromq.admin.dead_letters import DeadLetters
from pyromq.admin.groups.groups import Groups
from pyromq.admin.masters import Masters
from pyromq.admin.timed_messages import TimedMessages
from pyromq.admin.topic_reader import TopicReader
from pyromq.admin.topics.topics import Topics
from pyromq.admin.traces import Traces
from pyromq.admin.transactions import Transactions
from pyromq.client.lifecycle import ClientLifecycle
from pyromq.client.net.address import DEFAULT_NAMESRV
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.client.send.producer import Producer
from pyromq.clock import Clock, SystemClock
from pyromq.protocol.acl import Credentials
from pyromq.protocol.bodies.replication import Promotion
from pyromq.protocol.messages.message import MessageExt

ADMIN_GROUP = "pyromq-admin"


class AdminSession:
    """The connections and the themes of an AdminClient while it is open."""

    def __init__(self, namesrv: str | Sequence[str], credentials: Credentials | None, clock: Clock) -> None:
        self._namesrv = namesrv
        self._credentials = credentials
        self._clock = clock
        self._producer: Producer | None = None
        self._exit = AsyncExitStack()

    async def start(self) -> None:
        """Make the themes. The first call connects."""
        opening = BrokerApi.connect(self._namesrv, credentials=self._credentials, clock=self._clock)
        self.api = await self._exit.enter_async_context(await opening)
        self.dead_letters = DeadLetters(self.api, self.producer, self._clock)
        self.timed_messages = TimedMessages(self.api, self._find_masters, ADMIN_GROUP)
        self.transactions = Transactions(self.api, self._find_masters)
        self.traces = Traces(self.api)
        self.groups = Groups(self.api, self._clock)
        self.topics = Topics(self.api, self._clock)
        self.clusters = Clusters(self.api)

    async def close(self, *, failed: bool) -> None:
        """Close all connections."""
        await self._exit.aclose()

    async def producer(self) -> Producer:
        """Return the producer for messages that operators send; it is opened on first use."""
        if self._producer is None:
            producer = Producer(ADMIN_GROUP, self._namesrv, credentials=self._credentials, clock=self._clock)
            self._producer = await self._exit.enter_async_context(producer)
        return self._producer

    async def masters(self) -> dict[str, str]:
        """Return the address of every broker's master, by the broker's name."""
        return (await self._find_masters()).addresses

    async def _find_masters(self) -> Masters:
        return await Masters.find(self.api)


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
        super().__init__("client", lambda: AdminSession(namesrv, credentials, clock or SystemClock()))

    # --- themes ------------------------------------------------------------------------------------------------------

    @property
    def groups(self) -> Groups:
        """Consumer groups."""
        return self._session.groups

    @property
    def topics(self) -> Topics:
        """Topics."""
        return self._session.topics

    @property
    def dead_letters(self) -> DeadLetters:
        """Dead letters."""
        return self._session.dead_letters

    @property
    def timed_messages(self) -> TimedMessages:
        """Messages that wait for their delivery time."""
        return self._session.timed_messages

    @property
    def transactions(self) -> Transactions:
        """Transactions without a known end."""
        return self._session.transactions

    @property
    def traces(self) -> Traces:
        """Message traces."""
        return self._session.traces

    # --- the cluster -------------------------------------------------------------------------------------------------

    @property
    def api(self) -> BrokerApi:
        """Single calls to brokers and name servers."""
        return self._session.api

    async def producer(self) -> Producer:
        """Return the producer for messages that operators send; it is opened on first use."""
        return await self._session.producer()

    async def masters(self) -> dict[str, str]:
        """Return the address of every broker's master, by the broker's name."""
        return await self._session.masters()

    async def cluster_status(self, broker: str | None = None) -> ClusterStatus:
        """Return how masters and slaves stand, all of them or those of one broker name, and what is wrong."""
        return await self._session.clusters.status(broker)

    async def plan_promotion(self, broker: str, broker_id: int | None = None) -> PromotionPlan:
        """Return which slave `promote` would make master; raises ClientError if there is none that could."""
        return await self._session.clusters.plan_promotion(broker, broker_id)

    async def promote(self, broker: str, broker_id: int | None = None, *, force: bool = False) -> Promotion:
        """Make a slave of this broker name master: the one with the longest log, or with this id.

        With both alive the master hands over, and no send fails. If it cannot be reached, `force` is needed, and what
        only it had is lost; BrokerError says how much that is.
        """
        return await self._session.clusters.promote(broker, broker_id, force=force)

    async def read(self, topic: str) -> AsyncIterator[MessageExt]:
        """Yield all messages that a topic holds now, without a group; raises NoRoute if there is no such topic."""
        reader = await TopicReader.open(self.api, topic)
        async for message in reader.read():
            yield message
