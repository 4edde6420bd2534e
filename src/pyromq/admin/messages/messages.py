"""The theme `messages` of the operator's client: find messages, show who consumed them, have one handled now."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime

from pyromq.admin.letters.letter import Letter
from pyromq.admin.masters import gather_limited
from pyromq.admin.messages.consumption import ConsumptionTracker, GroupConsumption
from pyromq.admin.messages.direct_consumption import DirectPlan, DirectResult, consume_directly, plan_direct
from pyromq.admin.messages.key_source import KeySource
from pyromq.admin.messages.lookup import MessageLookup, reader_of
from pyromq.admin.messages.queue_scan import QueueScans
from pyromq.admin.messages.search import MessageSearch, MessageSource, SearchBudget, SearchFilter, TimeRange
from pyromq.admin.topic_reader import TopicReader
from pyromq.client.net.calls.admin_calls import AdminCalls
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.client.send.producer import Producer
from pyromq.client.send_result import SendResult
from pyromq.clock import Clock
from pyromq.errors import ClientError, NoRoute, TopicNotFound
from pyromq.protocol.bodies import TopicRouteData
from pyromq.protocol.messages.message import MessageExt

DEFAULT_BUDGET = SearchBudget()


class Messages:
    """Finds messages in the topics of a cluster; no group's offsets are used or moved.

    >>> async with AdminClient("127.0.0.1:9876") as admin:
    ...     async for message in admin.messages.find("orders", key="o-1"):
    ...         print(message.message_id, await admin.messages.consumed_by(message))
    """

    def __init__(self, api: BrokerApi, producer: Callable[[], Awaitable[Producer]], clock: Clock) -> None:
        self._api = api
        self._producer = producer
        self._calls = AdminCalls(api.remoting)
        self._clock = clock
        self._lookup = MessageLookup(api, clock)

    # --- many --------------------------------------------------------------------------------------------------------

    def find(
        self,
        topic: str,
        *,
        key: str | None = None,
        tags: str | None = None,
        where: str | None = None,
        contains: bytes | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        oldest_first: bool = False,
        budget: SearchBudget = DEFAULT_BUDGET,
        seen: Callable[[MessageExt], MessageExt] | None = None,
    ) -> MessageSearch:
        """Return a search: iterate over it for the messages, then see in `stopped` whether the budget ended it.

        All conditions must hold. `key` asks the index of the brokers; otherwise every message of the time is looked at.
        `where` is SQL92 over properties and, as `body.field`, JSON bodies. Both ends of the time belong to it. `seen`
        returns what conditions are to see of a message, for users who may not see all of it.
        Raises LocalProtocolError for a wrong expression, ClientError for what cannot be combined; iterating raises
        TopicNotFound.
        """
        if key is not None and oldest_first:
            raise ClientError("messages with a key are found newest first")
        if key == "":
            raise ClientError("a key is not empty")
        time = TimeRange.of(since, until)
        if time.since_ms > time.until_ms:
            raise ClientError("the time to search ends before it begins")
        matches = SearchFilter(tags=tags, where=where, contains=contains).prepare(seen)

        async def open_sources(search: MessageSearch) -> Sequence[MessageSource]:
            route = await self._route(topic)
            if key is not None:
                return [
                    KeySource(self._api, reader_of(broker), broker.broker_name, topic, key, time)
                    for broker in route.broker_datas
                ]
            reader = TopicReader(self._api, topic, route)
            queues = QueueScans(self._api, reader, time, oldest_first=oldest_first)
            opened = await gather_limited(reader.queues, lambda queue: queues.open(queue, search))
            return [source for source in opened if source is not None]

        return MessageSearch(open_sources, matches, time, budget, self._clock, oldest_first=oldest_first)

    async def _route(self, topic: str) -> TopicRouteData:
        try:
            return await self._api.route(topic)
        except NoRoute:
            raise TopicNotFound(f"no broker has the topic {topic!r}") from None

    # --- one ---------------------------------------------------------------------------------------------------------

    async def get(self, message_id: str, topic: str | None = None) -> MessageExt:
        """Return the message with this id, its producer's or that of its place; raises QueryNotFound if none has it.

        Without a topic, the place is looked up first, then all topics; ClientError if those are too many. Instead of an
        id, `broker:queue:offset` names a place in the topic.
        """
        return await self._lookup.get(message_id, topic)

    async def consumed_by(self, message: MessageExt) -> list[GroupConsumption]:
        """Return what became of a message in each group that consumes its topic."""
        return await ConsumptionTracker(self._api, message, await self._address(message)).track()

    async def resend(self, message: MessageExt, to: str | None = None) -> SendResult:
        """Send a message again as a new one, to its own topic or another; an order key selects its queue.

        It says where it comes from in properties that begin with PYROMQ_. A dead letter goes to the topic that it was
        first sent to.
        """
        letter = Letter(message)
        return await (await self._producer()).send(letter.resent(to), order_key=letter.order_key)

    async def plan_consume(self, message_id: str, *, topic: str | None, group: str, client_id: str) -> DirectPlan:
        """Return which message `consume` would pass to whom; raises ClientError if that consumer is not there."""
        message = await self.get(message_id, topic)
        return await plan_direct(self._calls, message, await self._address(message), group, client_id)

    async def consume(self, message_id: str, *, topic: str | None, group: str, client_id: str) -> DirectResult:
        """Have one consumer's listener handle a message now; the group's offsets do not change.

        A listener that takes longer than 10 s goes on, but its result is lost: BrokerError says so.
        """
        plan = await self.plan_consume(message_id, topic=topic, group=group, client_id=client_id)
        return await consume_directly(self._calls, plan)

    async def _address(self, message: MessageExt) -> str:
        brokers = (await self._api.cluster_info()).broker_addr_table
        if message.broker_name not in brokers:
            raise ClientError(f"broker {message.broker_name!r}, which has the message, is gone")
        return reader_of(brokers[message.broker_name])
