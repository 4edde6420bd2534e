"""NameServerHandlers: the answers to all requests. Which code calls which method is in requests.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pyromq.errors import QueryNotFound, TopicNotFound
from pyromq.namesrv.broker_registration import read_registration
from pyromq.namesrv.config import NameServerSettings
from pyromq.namesrv.kv import ORDER_TOPIC_CONFIG, KVConfig
from pyromq.namesrv.routes import RouteTable
from pyromq.protocol import bodies
from pyromq.protocol.bodies import DataVersion, KVTable, TopicList
from pyromq.protocol.codes import TOPIC_UNIT_FLAG, TOPIC_UNIT_SUBSCRIPTION_FLAG
from pyromq.protocol.command import RemotingCommand, response
from pyromq.protocol.headers import routes as headers
from pyromq.remoting.connection import Connection

STANDARD_JSON_VERSION: Final = 401  # 4.9.4: clients from then on read routes with quoted keys


class NameServerHandlers:
    """Answers each request; `now` returns seconds of a clock that never goes back."""

    def __init__(
        self, routes: RouteTable, kv: KVConfig, settings: NameServerSettings, now: Callable[[], float]
    ) -> None:
        self._routes = routes
        self._kv = kv
        self._settings = settings
        self._now = now

    # --- brokers -----------------------------------------------------------------------------------------------------

    def register_broker(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Register a broker and its topics; answer with the order config, and to a slave with its master's address."""
        master = self._routes.register(read_registration(request), connection, self._now())
        header = headers.RegisterBrokerResponseHeader(
            master_addr=master.address if master else None, ha_server_addr=master.ha_address if master else None
        )
        order = self._kv.table(ORDER_TOPIC_CONFIG)
        body = b"" if order is None else bodies.encode(KVTable(table=dict(order)))
        return response(request, header=header, body=body)

    def unregister_broker(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Remove a broker that stops."""
        header = request.header(headers.UnregisterBrokerRequestHeader)
        self._routes.unregister(header.broker_addr)
        return response(request)

    def query_data_version(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Answer whether a broker needs to register again."""
        header = request.header(headers.QueryDataVersionRequestHeader)
        version = bodies.decode(DataVersion, request.body)
        changed, known = self._routes.query_version(header.broker_addr, version, self._now())
        answer = headers.QueryDataVersionResponseHeader(changed=changed)
        return response(request, header=answer, body=bodies.encode(known) if known else b"")

    def wipe_write_permission(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Take the write permission from a broker's topics, so that it can be stopped."""
        header = request.header(headers.WipeWritePermOfBrokerRequestHeader)
        count = self._routes.wipe_write(header.broker_name)
        return response(request, header=headers.WipeWritePermOfBrokerResponseHeader(wipe_topic_count=count))

    def add_write_permission(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Give the write permission back to a broker's topics."""
        header = request.header(headers.AddWritePermOfBrokerRequestHeader)
        count = self._routes.add_write(header.broker_name)
        return response(request, header=headers.AddWritePermOfBrokerResponseHeader(add_topic_count=count))

    # --- topics ------------------------------------------------------------------------------------------------------

    def get_route(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Return the brokers and queues of a topic."""
        header = request.header(headers.GetRouteInfoByTopicRequestHeader)
        route = self._routes.route(header.topic)
        if route is None:
            raise TopicNotFound(f"no broker serves the topic {header.topic}")
        if self._settings.current.order_message_enable:
            route.order_topic_conf = self._kv.get(ORDER_TOPIC_CONFIG, header.topic)
        quoted = request.version >= STANDARD_JSON_VERSION or bool(header.accept_standard_json_only)
        return response(request, body=bodies.encode(route, quoted_keys=quoted))

    def get_cluster_info(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Return all brokers and clusters."""
        return response(request, body=bodies.encode(self._routes.cluster_info()))

    def get_all_topics(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """List all topics."""
        return response(request, body=_topic_list(self._routes.topics()))

    def get_topics_by_cluster(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """List the topics of one cluster; an unknown cluster has none."""
        header = request.header(headers.GetTopicsByClusterRequestHeader)
        return response(request, body=_topic_list(self._routes.topics_of_cluster(header.cluster)))

    def get_system_topics(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """List the topics named after clusters and brokers, and a broker that knows its other system topics."""
        return response(request, body=_topic_list(*self._routes.system_topics()))

    def delete_topic(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Stop routing a topic."""
        header = request.header(headers.DeleteTopicInNamesrvRequestHeader)
        self._routes.delete_topic(header.topic, header.cluster_name or None)
        return response(request)

    def get_unit_topics(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """List the topics that belong to a unit."""
        return response(request, body=_topic_list(self._routes.topics(_is_unit)))

    def get_topics_with_unit_subscription(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """List the topics to which a unit subscribes."""
        return response(request, body=_topic_list(self._routes.topics(_has_unit_subscription)))

    def get_plain_topics_with_unit_subscription(
        self, request: RemotingCommand, connection: Connection
    ) -> RemotingCommand:
        """List the topics to which a unit subscribes and that belong to none."""
        return response(request, body=_topic_list(self._routes.topics(_has_unit_subscription_only)))

    # --- settings ----------------------------------------------------------------------------------------------------

    async def put_kv(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Set the value of a namespace and key."""
        header = request.header(headers.PutKvConfigRequestHeader)
        await self._kv.put(header.namespace, header.key, header.value)
        return response(request)

    def get_kv(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Return the value of a namespace and key."""
        header = request.header(headers.GetKvConfigRequestHeader)
        value = self._kv.get(header.namespace, header.key)
        if value is None:
            raise QueryNotFound(f"namespace {header.namespace} has no key {header.key}")
        return response(request, header=headers.GetKvConfigResponseHeader(value=value))

    async def delete_kv(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Remove a value, if there is one."""
        header = request.header(headers.DeleteKvConfigRequestHeader)
        await self._kv.delete(header.namespace, header.key)
        return response(request)

    def get_kv_list(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Return all values of a namespace."""
        header = request.header(headers.GetKvListByNamespaceRequestHeader)
        table = self._kv.table(header.namespace)
        if table is None:
            raise QueryNotFound(f"namespace {header.namespace} does not exist")
        return response(request, body=bodies.encode(KVTable(table=dict(table))))

    async def update_config(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Change settings that can be changed over the wire."""
        await self._settings.change(request.body)
        return response(request)

    def get_config(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Return all settings."""
        return response(request, body=self._settings.text())


def _topic_list(topics: list[str], broker_address: str | None = None) -> bytes:
    return bodies.encode(TopicList(topic_list=topics, broker_addr=broker_address))


def _is_unit(flag: int) -> bool:
    return bool(flag & TOPIC_UNIT_FLAG)


def _has_unit_subscription(flag: int) -> bool:
    return bool(flag & TOPIC_UNIT_SUBSCRIPTION_FLAG)


def _has_unit_subscription_only(flag: int) -> bool:
    return _has_unit_subscription(flag) and not _is_unit(flag)
