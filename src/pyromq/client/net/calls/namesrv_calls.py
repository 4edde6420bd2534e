"""Requests that operators send to name servers: their settings, key-value settings, routes."""

from __future__ import annotations

from collections.abc import Mapping

from pyromq.client.net.calls.base import CALL_TIMEOUT, broker_error
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.client.net.calls.maintenance_calls import settings_text
from pyromq.errors import AccessDenied, ClientError, PyroMQError, QueryNotFound, TopicNotFound
from pyromq.protocol.bodies import KVTable, TopicRouteData, decode
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import RemotingCommand, request
from pyromq.protocol.headers import Header
from pyromq.protocol.headers.routes import (
    DeleteKvConfigRequestHeader,
    DeleteTopicInNamesrvRequestHeader,
    GetKvConfigRequestHeader,
    GetKvConfigResponseHeader,
    GetKvListByNamespaceRequestHeader,
    GetRouteInfoByTopicRequestHeader,
    PutKvConfigRequestHeader,
    WipeWritePermOfBrokerRequestHeader,
)


class NamesrvCalls:
    """Reads from one name server, and writes to every one: they do not know each other."""

    def __init__(self, api: BrokerApi) -> None:
        self._remoting = api.remoting
        self._name_servers = api.name_servers

    async def addresses(self) -> tuple[str, ...]:
        """Return the addresses of all name servers."""
        if not self._name_servers.addresses:
            await self._name_servers.discover()
        return self._name_servers.addresses

    async def settings(self, address: str) -> dict[str, str]:
        """Return the configuration of one name server, by key."""
        answer = await self._ask(address, RequestCode.GET_NAMESRV_CONFIG)
        lines = answer.body.decode(errors="replace").splitlines()
        return {key.strip(): value.strip() for key, _, value in (line.partition("=") for line in lines)}

    async def change_settings(self, address: str, values: Mapping[str, str]) -> None:
        """Change settings of one name server; raises NoPermission for those that it does not let change."""
        await self._ask(address, RequestCode.UPDATE_NAMESRV_CONFIG, body=settings_text(values))

    async def route_at(self, address: str, topic: str) -> TopicRouteData | None:
        """Return a route by the account of one name server, None if it has none."""
        header = GetRouteInfoByTopicRequestHeader(topic=topic)
        try:
            answer = await self._ask(address, RequestCode.GET_ROUTEINFO_BY_TOPIC, header)
        except TopicNotFound:
            return None
        return decode(TopicRouteData, answer.body)

    async def wipe_write_permission(self, broker: str) -> None:
        """Let no name server route sends to a broker, until its topics change; raises ClientError if one did not."""
        await self._tell_all(
            RequestCode.WIPE_WRITE_PERM_OF_BROKER, WipeWritePermOfBrokerRequestHeader(broker_name=broker)
        )

    async def kv_table(self, address: str, namespace: str) -> dict[str, str]:
        """Return all values of a namespace at one name server; none if it has no such namespace."""
        header = GetKvListByNamespaceRequestHeader(namespace=namespace)
        try:
            answer = await self._ask(address, RequestCode.GET_KVLIST_BY_NAMESPACE, header)
        except QueryNotFound:
            return {}
        return dict(decode(KVTable, answer.body).table)

    async def _ask(
        self, address: str, code: RequestCode, header: Header | None = None, body: bytes = b""
    ) -> RemotingCommand:
        return _checked(await self._remoting.request(address, request(code, header, body), CALL_TIMEOUT))

    async def get_kv(self, namespace: str, key: str) -> str | None:
        """Return a value by one name server's account, None if there is none."""
        command = request(RequestCode.GET_KV_CONFIG, GetKvConfigRequestHeader(namespace=namespace, key=key))
        try:
            answer = _checked(await self._name_servers.call(command, CALL_TIMEOUT))
        except QueryNotFound:
            return None
        return answer.header(GetKvConfigResponseHeader).value

    async def put_kv(self, namespace: str, key: str, value: str) -> None:
        """Set a value at every name server; raises ClientError if one of them did not take it."""
        header = PutKvConfigRequestHeader(namespace=namespace, key=key, value=value)
        await self._tell_all(RequestCode.PUT_KV_CONFIG, header)

    async def delete_kv(self, namespace: str, key: str) -> None:
        """Remove a value from every name server; raises ClientError if one of them did not."""
        header = DeleteKvConfigRequestHeader(namespace=namespace, key=key)
        await self._tell_all(RequestCode.DELETE_KV_CONFIG, header)

    async def delete_topic(self, topic: str) -> None:
        """Let no name server route a topic any more; raises ClientError if one of them did not answer."""
        await self._tell_all(RequestCode.DELETE_TOPIC_IN_NAMESRV, DeleteTopicInNamesrvRequestHeader(topic=topic))

    async def _tell_all(self, code: RequestCode, header: Header) -> None:
        failures: dict[str, PyroMQError] = {}
        for address in await self.addresses():
            try:
                await self._ask(address, code, header)
            except AccessDenied:
                raise
            except PyroMQError as error:
                failures[address] = error
        for address, failure in failures.items():
            raise ClientError(f"name server {address} was not told, so run this again later: {failure}") from failure


def _checked(answer: RemotingCommand) -> RemotingCommand:
    if answer.code != ResponseCode.SUCCESS:
        raise broker_error(answer.code, answer.remark)
    return answer
