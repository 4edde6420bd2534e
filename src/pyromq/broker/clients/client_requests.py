"""Heartbeats, who is in a group, and who owns an ordered queue."""

from __future__ import annotations

import logging

from pyromq.broker.clients.agreement import SubscriptionAgreement
from pyromq.broker.clients.client_registry import TAG_TYPES, Client, QueueLockTable
from pyromq.broker.config.broker_config import BrokerConfig
from pyromq.broker.parts import Parts
from pyromq.errors import BrokerError, ConnectionLost
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
from pyromq.protocol.codes import TOPIC_UNIT_SUBSCRIPTION_FLAG, LanguageCode, RequestCode
from pyromq.protocol.command import RemotingCommand, response
from pyromq.protocol.command import request as new_request
from pyromq.protocol.headers.clients import (
    GetConsumerListByGroupRequestHeader,
    HeartBeatResponseHeader,
    NotifyConsumerIdsChangedRequestHeader,
    UnregisterClientRequestHeader,
)
from pyromq.protocol.names import retry_topic
from pyromq.remoting.connection import Connection

logger = logging.getLogger(__name__)

SILENCE_LIMIT = 120.0  # a client without a heartbeat for that long is gone


class ClientHandlers:
    """Keeps the register of clients up to date, and tells a group's members when it changes."""

    def __init__(self, parts: Parts, version: str) -> None:
        self._clock = parts.clock
        self._version = version
        self._clients = parts.clients
        self._groups = parts.groups
        self._topics = parts.topics
        self._locks = QueueLockTable()
        self._registered = parts.tables.filters
        self._filters = parts.tables.expressions
        self.configure(parts.config)
        self.agreement = SubscriptionAgreement()

    def configure(self, config: BrokerConfig) -> None:
        """Take over changed settings."""
        self._notify_changes = config.notify_consumer_changes

    def heartbeat(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Register the client's producers and consumers on this connection."""
        data = decode(HeartbeatData, request.body)
        client = Client(
            connection=connection,
            client_id=data.client_id,
            language=request.language,
            version=request.version,
            seen=self._clock.monotonic(),
        )
        for producer in data.producer_data_set:
            self._clients.register_producer(producer.group_name, client)
        for consumer in data.consumer_data_set:
            self._register_consumer(consumer, client)
        return response(request, header=HeartBeatResponseHeader(pyromq=self._version))

    def unregister(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Forget a client's place in its groups."""
        header = request.header(UnregisterClientRequestHeader)
        if header.producer_group:
            self._clients.unregister_producer(header.producer_group, connection)
        if header.consumer_group and self._clients.unregister_consumer(header.consumer_group, connection):
            self._left(header.consumer_group)
        return response(request, header={})

    def check(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Tell whether this broker can filter as a client wants; raises what a pull with that expression would."""
        data = decode(CheckClientRequestBody, request.body).subscription_data
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

    def lock(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Give a client the queues that no other client holds."""
        body = decode(LockBatchRequestBody, request.body)
        granted = self._locks.lock(body.consumer_group, body.mq_set, body.client_id, self._clock.monotonic())
        return response(request, body=encode(LockBatchResponseBody(lock_ok_mq_set=granted)))

    def unlock(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Take queues back from the client that holds them."""
        body = decode(LockBatchRequestBody, request.body)
        self._locks.unlock(body.consumer_group, body.mq_set, body.client_id)
        return response(request)

    def connection_closed(self, connection: Connection) -> None:
        """Forget the clients of a connection, and have the groups they were in share out their queues again."""
        for group in self._clients.drop(connection):
            self._left(group, also_unwilling=True)

    def expire(self) -> None:
        """Drop the clients that went silent although their connection stands, and locks that nobody renews."""
        for client in self._clients.silent(self._clock.monotonic() - SILENCE_LIMIT):
            client.connection.abort(f"no heartbeat of client {client.client_id} for {SILENCE_LIMIT:g} s")
        self._locks.forget_expired(self._clock.monotonic())

    def _register_consumer(self, data: ConsumerData, client: Client) -> None:
        try:
            config = self._groups.find_or_create(data.group_name)
            sys_flag = TOPIC_UNIT_SUBSCRIPTION_FLAG if data.unit_mode else 0
            self._topics.ensure(retry_topic(config.group_name), config.retry_queue_nums, "for retries", sys_flag)
        except BrokerError as error:
            # RocketMQ answers every heartbeat with success; the pull will say why it cannot be served.
            logger.warning("consumer without a group client=%s reason=%s", client.client_id, error.remark)
        self._registered.register(data.group_name, data.subscription_data_set)
        changed = self._clients.register_consumer(data, client)
        self.agreement.heard(self._clients.consumers[data.group_name], client, data.subscription_data_set)
        if changed:
            logger.info("consumer group changed group=%s client=%s", data.group_name, client.client_id)
            self._notify(data.group_name)

    def _left(self, group: str, also_unwilling: bool = False) -> None:
        """Tell the others that a member has left; nobody asks for the filters of a group that has none any more."""
        if group not in self._clients.consumers:
            self._registered.unregister(group)
        self.agreement.left(group, self._clients.consumers.get(group))
        self._notify(group, also_unwilling)

    def _notify(self, group: str, also_unwilling: bool = False) -> None:
        """Tell all members of a group that it changed, unless the group is not to be told of those who come and go."""
        config = self._groups.by_name.get(group)
        willing = also_unwilling or config is None or config.notify_consumer_ids_changed_enable
        if not (self._notify_changes and willing):
            return
        header = NotifyConsumerIdsChangedRequestHeader(consumer_group=group)
        for member in self._clients.members(group):
            notice = new_request(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, header, language=LanguageCode.JAVA)
            try:
                member.oneway(notice)
            except ConnectionLost:
                continue  # it leaves the group by itself
