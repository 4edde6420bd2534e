"""Requests that operators send to name servers: key-value settings, and topics that are gone."""

from __future__ import annotations

from pyromq.client.net.calls.base import CALL_TIMEOUT, broker_error
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.errors import AccessDenied, ClientError, PyroMQError, QueryNotFound
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import RemotingCommand, request
from pyromq.protocol.headers import Header
from pyromq.protocol.headers.routes import (
    DeleteKvConfigRequestHeader,
    DeleteTopicInNamesrvRequestHeader,
    GetKvConfigRequestHeader,
    GetKvConfigResponseHeader,
    PutKvConfigRequestHeader,
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
                _checked(await self._remoting.request(address, request(code, header), CALL_TIMEOUT))
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
