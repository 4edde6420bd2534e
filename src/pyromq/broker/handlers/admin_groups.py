"""What administrators ask about groups and do to them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyromq.broker.clients import Client, ClientRegistry
from pyromq.broker.consumer_offsets import ConsumerOffsets
from pyromq.broker.groups import SubscriptionGroups
from pyromq.broker.handlers.reading import stored_at
from pyromq.broker.stats import BrokerStats
from pyromq.broker.topics import Topic, TopicTable
from pyromq.errors import BrokerError, ServiceNotAvailable
from pyromq.protocol.bodies import Connection as ConnectionBody
from pyromq.protocol.bodies import (
    ConsumerConnection,
    ConsumeStats,
    OffsetWrapper,
    ProducerConnection,
    SubscriptionGroupConfig,
    decode,
    encode,
)
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import RemotingCommand, response
from pyromq.protocol.headers.admin import (
    DeleteSubscriptionGroupRequestHeader,
    GetConsumerConnectionListRequestHeader,
    GetConsumeStatsRequestHeader,
    GetProducerConnectionListRequestHeader,
)
from pyromq.protocol.message import MessageQueue
from pyromq.remoting.connection import Connection, Handler
from pyromq.store.readable import ReadableStore


class GroupHandlers:
    """Changes and describes groups: their rights, their members, how far they are."""

    def __init__(
        self,
        broker_name: str,
        *,
        store: ReadableStore,
        topics: TopicTable,
        groups: SubscriptionGroups,
        offsets: ConsumerOffsets,
        clients: ClientRegistry,
        stats: BrokerStats,
    ) -> None:
        self._broker_name = broker_name
        self._store = store
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._clients = clients
        self._stats = stats

    def handlers(self) -> Mapping[int, Handler]:
        """Return who answers which request."""
        return {
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: self.update,
            RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: self.list_all,
            RequestCode.DELETE_SUBSCRIPTIONGROUP: self.delete,
            RequestCode.GET_CONSUMER_CONNECTION_LIST: self.consumers,
            RequestCode.GET_PRODUCER_CONNECTION_LIST: self.producers,
            RequestCode.GET_CONSUME_STATS: self.progress,
        }

    async def update(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Create a group or change it; answer when that is saved."""
        self._groups.update(decode(SubscriptionGroupConfig, request.body))
        await self._saved()
        return response(request)

    def list_all(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Return all groups of this broker."""
        return response(request, body=encode(self._groups.snapshot()))

    async def delete(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Forget a group, and its offsets if asked to."""
        header = request.header(DeleteSubscriptionGroupRequestHeader)
        self._groups.delete(header.group_name)
        if header.remove_offset:
            self._offsets.remove_group(header.group_name)
        await self._saved()
        return response(request)

    def consumers(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Return the members of a consumer group that are online, and what they subscribe to."""
        name = request.header(GetConsumerConnectionListRequestHeader).consumer_group
        group = self._clients.consumers.get(name)
        if group is None:
            raise BrokerError(f"no consumer of group {name} is online", ResponseCode.CONSUMER_NOT_ONLINE)
        body = ConsumerConnection(
            connection_set=_connections(group.members.values()),
            subscription_table={topic: found.data for topic, found in group.subscriptions.items()},
            consume_type=group.consume_type,
            message_model=group.message_model,
            consume_from_where=group.consume_from_where,
        )
        return response(request, body=encode(body))

    def producers(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Return the members of a producer group that are online."""
        name = request.header(GetProducerConnectionListRequestHeader).producer_group
        members = self._clients.producers.get(name)
        if members is None:
            raise BrokerError(f"no producer of group {name} is online")
        return response(request, body=encode(ProducerConnection(connection_set=_connections(members.values()))))

    def progress(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Return how far a group is in every queue of its topics."""
        header = request.header(GetConsumeStatsRequestHeader)
        names = [header.topic] if header.topic else self._offsets.topics_of(header.consumer_group)
        topics = [topic for name in names if (topic := self._topics.get(name)) and self._consumes(header, topic)]
        table = {
            MessageQueue(topic.name, self._broker_name, queue_id): self._distance(header, topic, queue_id)
            for topic in topics
            for queue_id in range(topic.read_queues)
        }
        tps = sum(self._stats.group_rate(topic.name, header.consumer_group) for topic in topics)
        return response(request, body=encode(ConsumeStats(offset_table=table, consume_tps=tps)))

    async def _saved(self) -> None:
        if not await self._groups.saver.finish():
            raise ServiceNotAvailable("the table of groups could not be saved")

    def _consumes(self, header: GetConsumeStatsRequestHeader, topic: Topic) -> bool:
        """Leave out what the group once consumed and, being online, no longer does."""
        group = self._clients.consumers.get(header.consumer_group)
        return group is None or topic.name in group.subscriptions

    def _distance(self, header: GetConsumeStatsRequestHeader, topic: Topic, queue_id: int) -> OffsetWrapper:
        committed = self._offsets.get(header.consumer_group, topic.name, queue_id) or 0
        return OffsetWrapper(
            broker_offset=max(self._store.max_offset(topic.name, queue_id), 0),
            consumer_offset=committed,
            last_timestamp=stored_at(self._store, topic.name, queue_id, committed - 1),
        )


def _connections(clients: Iterable[Client]) -> list[ConnectionBody]:
    return [
        ConnectionBody(
            client_id=client.client_id,
            client_addr=client.connection.peer,
            language=client.language,
            version=client.version,
        )
        for client in clients
    ]
