"""What administrators ask about groups and do to them."""

from __future__ import annotations

from collections.abc import Iterable

from pyromq.broker.clients.client_registry import Client
from pyromq.broker.parts import Parts
from pyromq.broker.tables.table_followers import CHANGE_PATIENCE
from pyromq.clock import Clock, wall_ms
from pyromq.errors import BrokerError, ServiceNotAvailable
from pyromq.protocol.bodies import (
    ClientConnection,
    ConsumerConnection,
    ProducerConnection,
    ProducerInfo,
    ProducerTableInfo,
    SubscriptionGroupConfig,
    decode,
)
from pyromq.protocol.bodies.json_steps import encoding
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import RemotingCommand, response
from pyromq.protocol.headers.admin import (
    DeleteSubscriptionGroupRequestHeader,
    GetConsumerConnectionListRequestHeader,
    GetProducerConnectionListRequestHeader,
)
from pyromq.remoting.connection import Connection
from pyromq.remoting.slices import AnswerSteps, Steps

CLIENTS_A_STEP = 100


class GroupHandlers:
    """Changes and describes groups: their rights and their members."""

    def __init__(self, parts: Parts) -> None:
        self._groups = parts.groups
        self._offsets = parts.offsets
        self._clients = parts.clients
        self._clock = parts.clock
        self._followers = parts.followers

    async def update(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Create a group or change it; answer when that is saved, and the slaves know."""
        config = decode(SubscriptionGroupConfig, request.body)
        self._groups.update(config)
        await self._saved(config.group_name)
        return response(request)

    def state(self, request: RemotingCommand) -> SubscriptionGroupConfig | None:
        """Return the settings of the group that a request changes, for the audit log."""
        if request.code == RequestCode.DELETE_SUBSCRIPTIONGROUP:
            name = request.header(DeleteSubscriptionGroupRequestHeader).group_name
        else:
            name = decode(SubscriptionGroupConfig, request.body).group_name
        return self._groups.by_name.get(name)

    def list_all(self, request: RemotingCommand, connection: Connection) -> AnswerSteps:
        """Return all groups of this broker, or a part of them."""
        return self._groups.parts.answer(request)

    async def delete(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Forget a group, and its offsets if asked to."""
        header = request.header(DeleteSubscriptionGroupRequestHeader)
        self._groups.delete(header.group_name)
        if header.remove_offset:
            self._offsets.remove_group(header.group_name)
        await self._saved(header.group_name)
        return response(request)

    def consumers(self, request: RemotingCommand, connection: Connection) -> AnswerSteps:
        """Return the members of a consumer group that are online, and what they subscribe to."""
        name = request.header(GetConsumerConnectionListRequestHeader).consumer_group
        group = self._clients.consumers.get(name)
        if group is None:
            raise BrokerError(f"no consumer of group {name} is online", ResponseCode.CONSUMER_NOT_ONLINE)
        subscriptions = {topic: found.data for topic, found in group.subscriptions.items()}
        shown = ConsumerConnection(
            connection_set=(yield from _connections(group.members.values())),
            subscription_table=subscriptions,
            consume_type=group.consume_type,
            message_model=group.message_model,
            consume_from_where=group.consume_from_where,
        )
        body = yield from encoding(shown)
        return response(request, body=body)

    def producers(self, request: RemotingCommand, connection: Connection) -> AnswerSteps:
        """Return the members of a producer group that are online."""
        name = request.header(GetProducerConnectionListRequestHeader).producer_group
        members = self._clients.producers.get(name)
        if members is None:
            raise BrokerError(f"no producer of group {name} is online")
        connections = yield from _connections(members.values())
        body = yield from encoding(ProducerConnection(connection_set=connections))
        return response(request, body=body)

    def all_producers(self, request: RemotingCommand, connection: Connection) -> AnswerSteps:
        """Return every producer that is online, by group."""
        table: dict[str, list[ProducerInfo]] = {}
        for name, members in list(self._clients.producers.items()):
            rows = table[name] = []
            for client in list(members.values()):
                rows.append(_producer_info(client, self._clock))
                if len(rows) % CLIENTS_A_STEP == 0:
                    yield
            yield
        body = yield from encoding(ProducerTableInfo(data=table))
        return response(request, body=body)

    async def _saved(self, group: str) -> None:
        if not await self._groups.saver.finish():
            raise ServiceNotAvailable("the table of groups could not be saved")
        await self._followers.spread(CHANGE_PATIENCE, f"group {group}")


def _connections(clients: Iterable[Client]) -> Steps[list[ClientConnection]]:
    rows: list[ClientConnection] = []
    for client in list(clients):
        rows.append(
            ClientConnection(
                client_id=client.client_id,
                client_addr=client.connection.peer,
                language=client.language,
                version=client.version,
            )
        )
        if len(rows) % CLIENTS_A_STEP == 0:
            yield
    return rows


def _producer_info(client: Client, clock: Clock) -> ProducerInfo:
    return ProducerInfo(
        client_id=client.client_id,
        remote_ip=f"/{client.connection.peer}",  # with the slash, as Java's addresses are written
        language=client.language,
        version=client.version,
        last_update_timestamp=wall_ms(clock, client.seen),
    )
