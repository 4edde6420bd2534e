"""What administrators ask of a consumer, through the connection that it has to this broker (307, 309).

The consumer's answer goes back as it came: code, remark, fields and body.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyromq.broker.clients.client_registry import Client
from pyromq.broker.parts import Parts
from pyromq.errors import BrokerError, MalformedHeader, RemotingError, RequestTimeout, StoreError
from pyromq.protocol.codes import LanguageCode, ResponseCode
from pyromq.protocol.command import RemotingCommand, response
from pyromq.protocol.command import request as new_request
from pyromq.protocol.headers.clients import ConsumeMessageDirectlyRequestHeader, GetConsumerRunningInfoRequestHeader
from pyromq.protocol.messages.message_id import decode_offset_id
from pyromq.remoting.connection import Connection

RELAY_TIMEOUT = 10.0
_OLDEST_CLIENT = 62  # version 3.1.8


class RelayHandlers:
    """Passes requests on to consumers, and their answers back."""

    def __init__(self, parts: Parts) -> None:
        self._broker_name = parts.name
        self._store = parts.store
        self._reads = parts.reads
        self._clients = parts.clients

    async def running_info(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Ask a consumer what goes on inside it."""
        header = request.header(GetConsumerRunningInfoRequestHeader)
        client = self._find(header.consumer_group, header.client_id)
        return await self._relay(request, client, request.ext_fields)

    async def consume_directly(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Have a consumer's listener take one stored message."""
        header = request.header(ConsumeMessageDirectlyRequestHeader)
        client = self._find(header.consumer_group, header.client_id)
        fields = {**request.ext_fields, "brokerName": self._broker_name}
        message = await self._reads.read(lambda: self._message(header.msg_id or ""))
        return await self._relay(request, client, fields, message)

    def _find(self, group: str, client_id: str | None) -> Client:
        client = self._clients.find_consumer(group, client_id)
        if client is None:
            raise BrokerError(f"client {client_id} of consumer group {group} is not connected to this broker")
        if client.version < _OLDEST_CLIENT:
            raise BrokerError(f"client {client_id} has version {client.version}, too old to be asked this")
        return client

    def _message(self, message_id: str) -> bytes:
        try:
            offset = decode_offset_id(message_id)[1]
            record = self._store.read(offset) if offset < self._store.confirm_offset else None
        except (MalformedHeader, StoreError) as error:
            raise BrokerError(f"message {message_id[:64]} cannot be read: {error}") from None
        if record is None:
            raise BrokerError(f"no message has the id {message_id}")
        return bytes(record)

    async def _relay(
        self, request: RemotingCommand, client: Client, fields: Mapping[str, str], body: bytes = b""
    ) -> RemotingCommand:
        question = new_request(request.code, fields, body, language=LanguageCode.JAVA)
        try:
            answer = await client.connection.request(question, RELAY_TIMEOUT)
        except RequestTimeout:
            raise BrokerError(
                f"client {client.client_id} did not answer within {RELAY_TIMEOUT:g} s", ResponseCode.CONSUME_MSG_TIMEOUT
            ) from None
        except RemotingError as error:
            raise BrokerError(f"client {client.client_id} could not be asked: {error}") from None
        return response(request, answer.code, answer.remark, answer.ext_fields or None, answer.body)
