"""Heartbeats, who is in a group, and who owns an ordered queue."""

from __future__ import annotations

import logging
from collections.abc import Coroutine, Generator, Iterator

from pyromq.access.account import SUB
from pyromq.broker.clients.agreement import SubscriptionAgreement
from pyromq.broker.clients.change_notices import ChangeNotices
from pyromq.broker.clients.client_registry import (
    TAG_TYPES,
    Client,
    GroupSubscription,
    group_subscription,
)
from pyromq.broker.config.broker_config import BrokerConfig
from pyromq.broker.parts import Parts
from pyromq.errors import BrokerError, ServiceNotAvailable
from pyromq.protocol.bodies import (
    CheckClientRequestBody,
    ConsumerData,
    GetConsumerListByGroupResponseBody,
    HeartbeatData,
    LockBatchRequestBody,
    LockBatchResponseBody,
    decode,
    encode,
)
from pyromq.protocol.bodies.json_steps import SMALL, decoding, encoding, finish
from pyromq.protocol.codes import TOPIC_UNIT_SUBSCRIPTION_FLAG
from pyromq.protocol.command import RemotingCommand, response
from pyromq.protocol.headers.clients import (
    GetConsumerListByGroupRequestHeader,
    HeartBeatResponseHeader,
    UnregisterClientRequestHeader,
)
from pyromq.protocol.messages.message import MessageQueue
from pyromq.protocol.names import retry_topic
from pyromq.remoting.connection import Connection
from pyromq.remoting.slices import in_turns

logger = logging.getLogger(__name__)

FEW_GROUPS = 16  # registered at once, in about a millisecond
SUBSCRIPTIONS_AT_A_TIME = 20  # an expression may have thousands of tags
QUEUES_AT_A_TIME = 500  # locked or unlocked at once
LOCK_PATIENCE = 0.3  # how long a new holder of a queue waits for the slaves
SILENCE_LIMIT = 120.0  # a client without a heartbeat for that long is gone


class ClientHandlers:
    """Keeps the register of clients up to date, and tells a group's members when it changes."""

    def __init__(self, parts: Parts, version: str) -> None:
        self._clock = parts.clock
        self._standing = parts.standing
        self._access = parts.access
        self._version = version
        self._clients = parts.clients
        self._groups = parts.groups
        self._topics = parts.topics
        self._locks = parts.tables.locks
        self._followers = parts.followers
        self._registered = parts.tables.filters
        self._filters = parts.tables.expressions
        self.configure(parts.config)
        self._notices = ChangeNotices(parts.clients.members)
        self.agreement = SubscriptionAgreement()

    def configure(self, config: BrokerConfig) -> None:
        """Take over changed settings."""
        self._notify_changes = config.notify_consumer_changes

    def heartbeat(
        self, request: RemotingCommand, connection: Connection
    ) -> RemotingCommand | Generator[None, None, RemotingCommand]:
        """Register the client's producers and consumers on this connection."""
        if len(request.body) > SMALL:
            return self._large_heartbeat(request, connection)
        data = decode(HeartbeatData, request.body)
        steps = self._register(data, request, connection)
        if len(data.producer_data_set) + len(data.consumer_data_set) > FEW_GROUPS:
            return steps
        return finish(steps)  # at once: a client that leaves a moment later must not come back

    def _large_heartbeat(
        self, request: RemotingCommand, connection: Connection
    ) -> Generator[None, None, RemotingCommand]:
        data = yield from decoding(HeartbeatData, request.body)
        return (yield from self._register(data, request, connection))

    def _register(
        self, data: HeartbeatData, request: RemotingCommand, connection: Connection
    ) -> Generator[None, None, RemotingCommand]:
        client = Client(
            connection=connection,
            client_id=data.client_id,
            language=request.language,
            version=request.version,
            seen=self._clock.monotonic(),
        )
        yield from self._check_members(data, request, connection)
        self._clients.check_room(connection, data)
        takes_replies = self._takes_replies(client)
        for count, producer in enumerate(data.producer_data_set, 1):
            self._clients.register_producer(producer.group_name, client, takes_replies=takes_replies)
            if count % FEW_GROUPS == 0:
                yield
        for consumer in data.consumer_data_set:
            yield from self._register_consumer(consumer, client)
            yield  # also where each has few subscriptions
        return response(request, header=HeartBeatResponseHeader(pyromq=self._version))

    def _takes_replies(self, client: Client) -> bool:
        """Tell whether replies to its client id go to this client: not while a client of another account has the id.

        Everybody who reads a request learns the id of who asked, and could claim it.
        """
        holder = self._clients.producer_connection(client.client_id)
        return holder is None or self._access.is_same_caller(holder, client.connection)

    def _check_members(
        self, data: HeartbeatData, request: RemotingCommand, connection: Connection
    ) -> Generator[None, None, None]:
        """Raise AccessRefused if a consumer lacks a right; a producer needs none before it sends."""
        checked = 0
        for consumer in data.consumer_data_set:
            self._access.need_group(request, connection, consumer.group_name)
            for subscription in consumer.subscription_data_set:
                self._access.need(request, connection, SUB, subscription.topic)
                checked += 1
                if checked % QUEUES_AT_A_TIME == 0:
                    yield

    def unregister(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Forget a client's place in its groups."""
        header = request.header(UnregisterClientRequestHeader)
        if header.producer_group:
            self._clients.unregister_producer(header.producer_group, connection)
        if header.consumer_group and self._clients.unregister_consumer(header.consumer_group, connection):
            self._left(header.consumer_group, connection)
        return response(request, header={})

    def check(self, request: RemotingCommand, connection: Connection) -> Generator[None, None, RemotingCommand]:
        """Tell whether this broker can filter as a client wants; raises what a pull with that expression would."""
        body = yield from decoding(CheckClientRequestBody, request.body)
        data = body.subscription_data
        self._access.need_group(request, connection, body.group)
        self._access.need(request, connection, SUB, data.topic)
        if data.expression_type not in TAG_TYPES:
            self._filters.check_on(data.expression_type)
            self._filters.find(data.expression_type, data.sub_string)
        return response(request)

    def consumer_list(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Return the client ids of a consumer group."""
        group = request.header(GetConsumerListByGroupRequestHeader).consumer_group
        ids = self._clients.consumer_ids(group)
        if not ids:
            raise BrokerError(f"no consumer of group {group} is online")
        return response(request, body=encode(GetConsumerListByGroupResponseBody(consumer_id_list=ids)))

    def lock(
        self, request: RemotingCommand, connection: Connection
    ) -> Generator[None, None, RemotingCommand] | Coroutine[None, None, RemotingCommand]:
        """Give a client the queues that no other client holds; a slave does so only while its master is away.

        A new holder is answered when the slaves know it.
        """
        if self._standing.is_slave() and self._standing.has_master():
            raise ServiceNotAvailable("this broker is a slave and follows its master: ask that for locks")
        steps = self._lock(request, connection)
        return self._locked_everywhere(steps) if self._followers.are_there else steps

    async def _locked_everywhere(self, steps: Generator[None, None, RemotingCommand]) -> RemotingCommand:
        before = self._locks.changed_keys.mark
        answer = await in_turns(steps, self._clock)
        if self._locks.changed_keys.mark != before:
            await self._followers.spread(LOCK_PATIENCE, "a queue lock")
        return answer

    def _lock(self, request: RemotingCommand, connection: Connection) -> Generator[None, None, RemotingCommand]:
        body = yield from self._queues(request, connection)
        granted: list[MessageQueue] = []
        for queues in _batches(body.mq_set):
            granted += self._locks.lock(body.consumer_group, queues, body.client_id, self._clock.monotonic())
            yield
        answer = yield from encoding(LockBatchResponseBody(lock_ok_mq_set=granted))
        return response(request, body=answer)

    def unlock(self, request: RemotingCommand, connection: Connection) -> Generator[None, None, RemotingCommand]:
        """Take queues back from the client that holds them."""
        body = yield from self._queues(request, connection)
        for queues in _batches(body.mq_set):
            self._locks.unlock(body.consumer_group, queues, body.client_id)
            yield
        return response(request)

    def _queues(self, request: RemotingCommand, connection: Connection) -> Generator[None, None, LockBatchRequestBody]:
        """Return the queues that a request is about; raise AccessRefused if its account may not consume them."""
        body = yield from decoding(LockBatchRequestBody, request.body)
        self._access.need_group(request, connection, body.consumer_group)
        for topic in {queue.topic for queue in body.mq_set}:
            self._access.need(request, connection, SUB, topic)
        return body

    def connection_closed(self, connection: Connection) -> None:
        """Forget the clients of a connection, and have the groups they were in share out their queues again."""
        for group in self._clients.drop(connection):
            self._left(group, connection, also_unwilling=True)

    def expire(self) -> None:
        """Drop the clients that went silent although their connection stands, and locks that nobody renews."""
        for client in self._clients.silent(self._clock.monotonic() - SILENCE_LIMIT):
            client.connection.abort(f"no heartbeat of client {client.client_id} for {SILENCE_LIMIT:g} s")
        self._locks.forget_expired(self._clock.monotonic())

    def _register_consumer(self, data: ConsumerData, client: Client) -> Generator[None, None, None]:
        try:
            config = self._groups.find_or_create(data.group_name)
            sys_flag = TOPIC_UNIT_SUBSCRIPTION_FLAG if data.unit_mode else 0
            self._topics.ensure(retry_topic(config.group_name), config.retry_queue_nums, "for retries", sys_flag)
        except BrokerError as error:
            # RocketMQ answers every heartbeat with success; the pull will say why it cannot be served.
            logger.warning("consumer without a group client=%s reason=%s", client.client_id, error.remark)
        yield from self._registered.registering(data.group_name, data.subscription_data_set)
        wanted: list[GroupSubscription] = []
        for count, subscription in enumerate(data.subscription_data_set, 1):
            wanted.append(group_subscription(subscription))
            if count % SUBSCRIPTIONS_AT_A_TIME == 0:
                yield
        changed = self._clients.register_consumer(data, client, wanted)
        self.agreement.heard(self._clients.consumers[data.group_name], client, wanted)
        if changed:
            logger.info("consumer group changed group=%s client=%s", data.group_name, client.client_id)
            self._notify(data.group_name)

    def _left(self, group: str, connection: Connection, also_unwilling: bool = False) -> None:
        """Tell the others that a member has left; nobody asks for the filters of a group that has none any more."""
        if group not in self._clients.consumers:
            self._registered.unregister(group)
        self.agreement.left(group, connection, self._clients.consumers.get(group))
        self._notify(group, also_unwilling)

    def _notify(self, group: str, also_unwilling: bool = False) -> None:
        """Tell all members of a group that it changed, unless the group is not to be told of those who come and go."""
        config = self._groups.by_name.get(group)
        willing = also_unwilling or config is None or config.notify_consumer_ids_changed_enable
        if self._notify_changes and willing:
            self._notices.tell(group)


def _batches(queues: list[MessageQueue]) -> Iterator[list[MessageQueue]]:
    for start in range(0, len(queues), QUEUES_AT_A_TIME):
        yield queues[start : start + QUEUES_AT_A_TIME]
