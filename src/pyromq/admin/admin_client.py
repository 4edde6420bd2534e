"""AdminClient: the operator's client, one attribute for each theme."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import AsyncExitStack
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Self

from pyromq.admin.contexts import required_context
from pyromq.admin.maintenance.write_pause import GRACE, Phase, WritePausePlan, WritePauses, WriteState
from pyromq.admin.masters import Masters
from pyromq.client.lifecycle import ClientLifecycle
from pyromq.client.net.address import chosen_namesrv
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.clock import Clock, SystemClock
from pyromq.protocol.acl import Credentials
from pyromq.protocol.bodies.replication import Promotion
from pyromq.protocol.messages.message import MessageExt
from pyromq.remoting.tls.client_tls import Tls

if TYPE_CHECKING:  # each theme is loaded on first use: a command needs one, and all of them take as long as the rest
    from pyromq.admin.clients import Clients
    from pyromq.admin.clusters import Clusters, ClusterStatus, PromotionPlan
    from pyromq.admin.groups.groups import Groups
    from pyromq.admin.health.checks import CheckLimits, CheckReport
    from pyromq.admin.health.doctor import Doctor
    from pyromq.admin.health.examination import Examination
    from pyromq.admin.health.overview import Overview, Overviews
    from pyromq.admin.letters.dead_letters import DeadLetters
    from pyromq.admin.maintenance.accounts import ClusterAccounts
    from pyromq.admin.maintenance.audit import Audit
    from pyromq.admin.maintenance.cleaning import BrokerCleaning, Cleanable, Cleanings
    from pyromq.admin.maintenance.key_values import KeyValues
    from pyromq.admin.maintenance.settings import Settings
    from pyromq.admin.messages.messages import Messages
    from pyromq.admin.messages.traces import Traces
    from pyromq.admin.timed_messages import TimedMessages
    from pyromq.admin.topics.topics import Topics
    from pyromq.admin.transactions import Transactions
    from pyromq.client.send.producer import Producer

ADMIN_GROUP = "pyromq-admin"


class AdminSession:
    """The connections and the themes of an AdminClient while it is open."""

    def __init__(
        self, namesrv: str | Sequence[str], credentials: Credentials | None, tls: bool | Tls | None, clock: Clock
    ) -> None:
        self._namesrv = namesrv
        self._credentials = credentials
        self._tls = tls
        self._clock = clock
        self._producer: Producer | None = None
        self._exit = AsyncExitStack()

    async def start(self) -> None:
        """Prepare to connect, which the first call does."""
        opening = BrokerApi.connect(self._namesrv, credentials=self._credentials, tls=self._tls, clock=self._clock)
        self.api = await self._exit.enter_async_context(await opening)

    async def close(self, *, failed: bool) -> None:
        """Close all connections."""
        await self._exit.aclose()

    async def producer(self) -> Producer:
        """Return the producer for messages that operators send; it is opened on first use."""
        if self._producer is None:
            from pyromq.client.send.producer import Producer

            producer = Producer(
                ADMIN_GROUP, self._namesrv, credentials=self._credentials, tls=self._tls, clock=self._clock
            )
            self._producer = await self._exit.enter_async_context(producer)
        return self._producer

    async def masters(self) -> dict[str, str]:
        """Return the address of every broker's master, by the broker's name."""
        return (await self._find_masters()).addresses

    async def _find_masters(self) -> Masters:
        return await Masters.find(self.api)

    # --- themes

    @cached_property
    def dead_letters(self) -> DeadLetters:
        from pyromq.admin.letters.dead_letters import DeadLetters

        return DeadLetters(self.api, self.producer, self._clock)

    @cached_property
    def timed_messages(self) -> TimedMessages:
        from pyromq.admin.timed_messages import TimedMessages

        return TimedMessages(self.api, self._find_masters, ADMIN_GROUP, self._clock)

    @cached_property
    def transactions(self) -> Transactions:
        from pyromq.admin.transactions import Transactions

        return Transactions(self.api, self._find_masters)

    @cached_property
    def traces(self) -> Traces:
        from pyromq.admin.messages.traces import Traces

        return Traces(self.api)

    @cached_property
    def groups(self) -> Groups:
        from pyromq.admin.groups.groups import Groups

        return Groups(self.api, self._clock)

    @cached_property
    def topics(self) -> Topics:
        from pyromq.admin.topics.topics import Topics

        return Topics(self.api, self._clock)

    @cached_property
    def messages(self) -> Messages:
        from pyromq.admin.messages.messages import Messages

        return Messages(self.api, self.producer, self._clock)

    @cached_property
    def clients(self) -> Clients:
        from pyromq.admin.clients import Clients

        return Clients(self.api, self._find_masters)

    @cached_property
    def clusters(self) -> Clusters:
        from pyromq.admin.clusters import Clusters

        return Clusters(self.api)

    @cached_property
    def overviews(self) -> Overviews:
        from pyromq.admin.health.overview import Overviews

        return Overviews(self.api, self.groups, self._clock)

    @cached_property
    def doctor(self) -> Doctor:
        from pyromq.admin.health.doctor import Doctor

        return Doctor(self.api, self.clusters, self.overviews, self.producer, self._clock)

    @cached_property
    def settings(self) -> Settings:
        from pyromq.admin.maintenance.settings import Settings

        return Settings(self.api)

    @cached_property
    def kv(self) -> KeyValues:
        from pyromq.admin.maintenance.key_values import KeyValues

        return KeyValues(self.api)

    @cached_property
    def accounts(self) -> ClusterAccounts:
        from pyromq.admin.maintenance.accounts import ClusterAccounts

        return ClusterAccounts(self.api)

    @cached_property
    def audit(self) -> Audit:
        from pyromq.admin.maintenance.audit import Audit

        return Audit(self.api)

    @cached_property
    def write_pauses(self) -> WritePauses:
        return WritePauses(self.api, self._clock)

    @cached_property
    def cleanings(self) -> Cleanings:
        from pyromq.admin.maintenance.cleaning import Cleanings

        return Cleanings(self.api)


class AdminClient(ClientLifecycle[AdminSession]):
    """Looks at a cluster and changes it. Each theme is an attribute: `groups`, `topics`, `messages` …

    >>> async with AdminClient("127.0.0.1:9876") as admin:
    ...     async for letter in admin.dead_letters.read("billing"):
    ...         print(letter.message.message_id, letter.cause)
    """

    def __init__(
        self,
        namesrv: str | Sequence[str] | None = None,
        *,
        credentials: Credentials | None = None,
        tls: bool | Tls | None = None,
        clock: Clock | None = None,
    ) -> None:
        addresses = chosen_namesrv(namesrv)
        super().__init__("client", lambda: AdminSession(addresses, credentials, tls, clock or SystemClock()))

    @classmethod
    def from_context(cls, name: str | None = None, *, clock: Clock | None = None) -> Self:
        """Return a client for the context of this name, else that of PYROMQ_CONTEXT, else the chosen one.

        Raises ClientError if there is none.
        """
        context = required_context(name)
        return cls(context.namesrv, credentials=context.credentials, tls=context.tls, clock=clock)

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
    def messages(self) -> Messages:
        """Stored messages: find them, see who consumed them."""
        return self._session.messages

    @property
    def clients(self) -> Clients:
        """Connected producers and consumers."""
        return self._session.clients

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

    @property
    def settings(self) -> Settings:
        """The configuration of brokers and name servers."""
        return self._session.settings

    @property
    def kv(self) -> KeyValues:
        """The KV settings of the name servers."""
        return self._session.kv

    @property
    def accounts(self) -> ClusterAccounts:
        """The accounts of a cluster with access control."""
        return self._session.accounts

    @property
    def audit(self) -> Audit:
        """The audit logs of all servers: who changed what."""
        return self._session.audit

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

    async def overview(self) -> Overview:
        """Return rates and lag of all brokers, topics and groups; `Overview.since` compares two of them."""
        return await self._session.overviews.take()

    async def check(self, limits: CheckLimits | None = None, groups: Collection[str] = ()) -> CheckReport:
        """Compare the cluster with limits, with all groups or some; raises GroupNotFound if there is no such group."""
        from pyromq.admin.health.checks import DEFAULT_LIMITS, judge

        status = await self.cluster_status()
        return judge(await self.overview(), status, limits or DEFAULT_LIMITS, groups)

    async def examine(
        self, topic: str | None = None, *, send: bool = True, send_to_topic: bool = False, data: Path | None = None
    ) -> Examination:
        """Walk from the name servers to a stored test message, then look at clocks, versions and this machine.

        The walk is to `topic`, or to a topic that every broker has. Test messages go to BenchmarkTest, unless
        `send_to_topic` wants them in `topic` itself; `send=False` sends none. `data` is the store directory to look
        at, by default those of brokers on this machine. Raises nothing that a step can say instead.
        """
        return await self._session.doctor.examine(topic, send=send, send_to_topic=send_to_topic, data=data)

    async def plan_promotion(self, broker: str, broker_id: int | None = None) -> PromotionPlan:
        """Return which slave `promote` would make master; raises ClientError if there is none that could."""
        return await self._session.clusters.plan_promotion(broker, broker_id)

    async def promote(self, broker: str, broker_id: int | None = None, *, force: bool = False) -> Promotion:
        """Make a slave of this broker name master: the one with the longest log, or with this id.

        With both alive the master hands over, and no send fails. If it cannot be reached, `force` is needed, and what
        only it had is lost; BrokerError says how much that is.
        """
        return await self._session.clusters.promote(broker, broker_id, force=force)

    async def plan_pause_writes(self, broker: str) -> WritePausePlan:
        """Return whether a broker takes messages, and which others of its cluster do."""
        return await self._session.write_pauses.plan(broker)

    async def pause_writes(self, broker: str, *, grace: float = GRACE) -> AsyncIterator[Phase]:
        """Let a broker take no more messages, so that it can be drained; yield each phase when it is reached.

        `leaving`: no name server routes sends to it. `paused`, after `grace` seconds for producers to leave: it refuses
        them, also after a restart. What it has is consumed as before; what it delivers itself, such as delayed
        messages, it still stores.
        """
        async for phase in self._session.write_pauses.pause(broker, grace):
            yield phase

    async def resume_writes(self, broker: str) -> WriteState:
        """Let a broker take messages again; return what the name servers know of it then."""
        return await self._session.write_pauses.resume(broker)

    async def plan_cleaning(self, broker: str | None = None) -> list[BrokerCleaning]:
        """Return what there is to delete at all brokers or at one: expired files and queues, unused topics."""
        return await self._session.cleanings.plan(broker)

    async def clean(self, what: Collection[Cleanable], broker: str | None = None) -> list[BrokerCleaning]:
        """Delete `expired_files`, `expired_queues` or `unused_topics` at all brokers or at one.

        Returns what there was to delete. Expired files go in the background.
        """
        return await self._session.cleanings.clean(what, broker)

    async def read(self, topic: str) -> AsyncIterator[MessageExt]:
        """Yield all messages that a topic holds now, without a group; raises NoRoute if there is no such topic."""
        from pyromq.admin.topic_reader import TopicReader

        reader = await TopicReader.open(self.api, topic)
        async for message in reader.read():
            yield message
