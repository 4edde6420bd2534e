"""NameServerHandlers: the answers to all requests. Which code calls which method is in requests.py."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Final, TypeAlias

from pyromq.errors import QueryNotFound, TopicNotFound
from pyromq.namesrv.broker_registration import reading_registration
from pyromq.namesrv.config import NameServerSettings
from pyromq.namesrv.kv import ORDER_TOPIC_CONFIG, KVConfig
from pyromq.namesrv.routes import RouteTable
from pyromq.protocol import bodies
from pyromq.protocol.bodies import DataVersion, KVTable, TopicList
from pyromq.protocol.bodies.json_steps import encoding
from pyromq.protocol.codes import MASTER_ID, TOPIC_UNIT_FLAG, TOPIC_UNIT_SUBSCRIPTION_FLAG
from pyromq.protocol.command import RemotingCommand, response
from pyromq.protocol.headers import routes as headers
from pyromq.remoting.connection import Connection

AnswerSteps: TypeAlias = Generator[None, None, RemotingCommand]
"""An answer that takes long, made in slices."""

FEW_BROKERS: Final = 32  # whose route is written at once, in less than a millisecond
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

    def register_broker(self, request: RemotingCommand, connection: Connection) -> AnswerSteps:
        """Register a broker and its topics; answer with the order config, and to a slave with its master's address."""
        registration = yield from reading_registration(request, self._settings.current.max_registered_topics)
        master = self._routes.register(registration, connection, self._now())
        header = headers.RegisterBrokerResponseHeader(
            master_addr=master.address if master else None,
            ha_server_addr=master.ha_address if master else None,
            pyromq_rival=self._routes.rival_of(registration, self._now()) or None,
        )
        order = self._kv.table(ORDER_TOPIC_CONFIG)
        body = b"" if order is None else (yield from encoding(KVTable(table=dict(order))))
        return response(request, header=header, body=body)

    def unregister_broker(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Remove a broker that stops; a master of an older epoch has nothing to say any more."""
        header = request.header(headers.UnregisterBrokerRequestHeader)
        if header.broker_id == MASTER_ID and self._routes.is_deposed(header, header.pyromq_epoch or 0):
            return response(request)
        self._routes.unregister(header.broker_addr)
        return response(request)

    def query_data_version(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Answer whether a broker needs to register again."""
        header = request.header(headers.QueryDataVersionRequestHeader)
        version = bodies.decode(DataVersion, request.body)
        changed, known = self._routes.query_version(header.broker_addr, version, self._now())
        answer = headers.QueryDataVersionResponseHeader(changed=changed)
        return response(request, header=answer, body=bodies.encode(known) if known else b"")

    def wipe_write_permission(self, request: RemotingCommand, connection: Connection) -> AnswerSteps:
        """Take the write permission from a broker's topics, so that it can be stopped."""
        header = request.header(headers.WipeWritePermOfBrokerRequestHeader)
        count = yield from self._routes.wipe_write(header.broker_name)
        return response(request, header=headers.WipeWritePermOfBrokerResponseHeader(wipe_topic_count=count))

    def add_write_permission(self, request: RemotingCommand, connection: Connection) -> AnswerSteps:
        """Give the write permission back to a broker's topics."""
        header = request.header(headers.AddWritePermOfBrokerRequestHeader)
        count = yield from self._routes.add_write(header.broker_name)
        return response(request, header=headers.AddWritePermOfBrokerResponseHeader(add_topic_count=count))

    def route_state(self, request: RemotingCommand) -> object:
        """Return what is known of the broker or the topic that a request names, for the audit log."""
        fields = request.ext_fields
        if "topic" in fields:
            route = self._routes.route(fields["topic"])
            return None if route is None else [broker.broker_name for broker in route.broker_datas]
        return self._routes.broker_state(fields.get("brokerName", ""))

    # --- topics ------------------------------------------------------------------------------------------------------

    def get_route(self, request: RemotingCommand, connection: Connection) -> RemotingCommand | AnswerSteps:
        """Return the brokers and queues of a topic."""
        header = request.header(headers.GetRouteInfoByTopicRequestHeader)
        route = self._routes.route(header.topic)
        if route is None:
            raise TopicNotFound(f"no broker serves the topic {header.topic}")
        if self._settings.current.order_message_enable:
            route.order_topic_conf = self._kv.get(ORDER_TOPIC_CONFIG, header.topic)
        quoted = request.version >= STANDARD_JSON_VERSION or bool(header.accept_standard_json_only)
        if len(route.broker_datas) > FEW_BROKERS:
            return _encoded(request, route, quoted)
        return response(request, body=bodies.encode(route, quoted_keys=quoted))

    def get_cluster_info(self, request: RemotingCommand, connection: Connection) -> AnswerSteps:
        """Return all brokers and clusters."""
        return _encoded(request, self._routes.cluster_info())

    def get_all_topics(self, request: RemotingCommand, connection: Connection) -> AnswerSteps:
        """List all topics."""
        return self._topics(request, self._routes.topics())

    def get_topics_by_cluster(self, request: RemotingCommand, connection: Connection) -> AnswerSteps:
        """List the topics of one cluster; an unknown cluster has none."""
        header = request.header(headers.GetTopicsByClusterRequestHeader)
        return self._topics(request, self._routes.topics_of_cluster(header.cluster))

    def get_system_topics(self, request: RemotingCommand, connection: Connection) -> AnswerSteps:
        """List the topics named after clusters and brokers, and a broker that knows its other system topics."""
        names, address = self._routes.system_topics()
        return _encoded(request, TopicList(topic_list=names, broker_addr=address))

    def delete_topic(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Stop routing a topic."""
        header = request.header(headers.DeleteTopicInNamesrvRequestHeader)
        self._routes.delete_topic(header.topic, header.cluster_name or None)
        return response(request)

    def get_unit_topics(self, request: RemotingCommand, connection: Connection) -> AnswerSteps:
        """List the topics that belong to a unit."""
        return self._topics(request, self._routes.topics(_is_unit))

    def get_topics_with_unit_subscription(self, request: RemotingCommand, connection: Connection) -> AnswerSteps:
        """List the topics to which a unit subscribes."""
        return self._topics(request, self._routes.topics(_has_unit_subscription))

    def get_plain_topics_with_unit_subscription(self, request: RemotingCommand, connection: Connection) -> AnswerSteps:
        """List the topics to which a unit subscribes and that belong to none."""
        return self._topics(request, self._routes.topics(_has_unit_subscription_only))

    def _topics(self, request: RemotingCommand, reading: Generator[None, None, list[str]]) -> AnswerSteps:
        topics = yield from reading
        return (yield from _encoded(request, TopicList(topic_list=topics)))

    # --- settings ----------------------------------------------------------------------------------------------------

    async def put_kv(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Set the value of a namespace and key."""
        header = request.header(headers.PutKvConfigRequestHeader)
        await self._kv.put(header.namespace, header.key, header.value)
        return response(request)

    def kv_state(self, request: RemotingCommand) -> str | None:
        """Return a value for the audit log: only its length, unless it is an order configuration."""
        namespace = request.ext_fields.get("namespace", "")
        value = self._kv.get(namespace, request.ext_fields.get("key", ""))
        is_free_text = value is not None and namespace != ORDER_TOPIC_CONFIG
        return f"({len(value or '')} characters)" if is_free_text else value

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

    def get_kv_list(self, request: RemotingCommand, connection: Connection) -> AnswerSteps:
        """Return all values of a namespace."""
        header = request.header(headers.GetKvListByNamespaceRequestHeader)
        table = self._kv.table(header.namespace)
        if table is None:
            raise QueryNotFound(f"namespace {header.namespace} does not exist")
        return _encoded(request, KVTable(table=dict(table)))

    async def update_config(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Change settings that can be changed over the wire."""
        await self._settings.change(request.body)
        return response(request)

    def config_state(self, request: RemotingCommand) -> dict[str, str]:
        """Return the settings that requests can change, for the audit log."""
        return self._settings.changeable()

    def get_config(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Return all settings."""
        return response(request, body=self._settings.text())


def _encoded(request: RemotingCommand, body: object, quoted_keys: bool = False) -> AnswerSteps:
    return response(request, body=(yield from encoding(body, quoted_keys=quoted_keys)))


def _is_unit(flag: int) -> bool:
    return bool(flag & TOPIC_UNIT_FLAG)


def _has_unit_subscription(flag: int) -> bool:
    return bool(flag & TOPIC_UNIT_SUBSCRIPTION_FLAG)


def _has_unit_subscription_only(flag: int) -> bool:
    return _has_unit_subscription(flag) and not _is_unit(flag)
