"""SEND_REPLY_MESSAGE (324, 325): the reply to a request message, handed to the client that waits for it.

The answer says whether that client took the reply. Replies are stored too, unless `storeReplyMessageEnable` says
otherwise, so that somebody can look for one that never arrived.
"""

from __future__ import annotations

from pyromq.broker.config.broker_config import BrokerConfig
from pyromq.broker.messages.send import SendHandler
from pyromq.broker.parts import Parts, Writing
from pyromq.broker.tables.topic_table import Topic
from pyromq.errors import BrokerError, LocalProtocolError, RemotingError, StoreError
from pyromq.protocol.codes import ONEWAY_FLAG, LanguageCode, RequestCode, ResponseCode
from pyromq.protocol.command import RemotingCommand, response
from pyromq.protocol.command import request as new_request
from pyromq.protocol.headers.send import (
    PushReplyMessageToClientRequestHeader,
    SendMessageRequestHeader,
    SendMessageRequestHeaderV2,
    SendMessageResponseHeader,
)
from pyromq.protocol.messages.hosts import decode_host
from pyromq.protocol.messages.message_id import encode_offset_id
from pyromq.protocol.messages.properties import (
    CORRELATION_ID,
    PUSH_REPLY_TIME,
    REPLY_TO_CLIENT,
    TAGS,
    decode_properties,
    encode_properties,
    find_property,
)
from pyromq.protocol.messages.record import TRANSACTION_MASK
from pyromq.protocol.names import reply_topic
from pyromq.protocol.tag_filter import tag_code
from pyromq.remoting.connection import Connection
from pyromq.store.results import PutResult

PUSH_TIMEOUT = 10.0
_NO_ID = "0"  # what a client reads that needs an id, where nothing is stored


class ReplyHandler:
    """Hands replies to those who wait for them."""

    def __init__(self, parts: Parts, writing: Writing, sends: SendHandler) -> None:
        self._clock = parts.clock
        self._store = writing.store
        self._store_host = parts.store_host
        self._access = parts.access
        self._reply_topic = reply_topic(parts.config.cluster)
        self._clients = parts.clients
        self._sends = sends
        self._acknowledgements = writing.acknowledgements
        self._stats = parts.stats
        self._region = parts.config.region
        self._trace_on = parts.config.trace_on
        self.configure(parts.config)

    def configure(self, config: BrokerConfig) -> None:
        """Take over settings, at the start and when they change."""
        self._stores_replies = config.store_replies

    async def reply(self, request: RemotingCommand, connection: Connection) -> RemotingCommand | None:
        """Push a reply to its client and store it; the checks are those of a send."""
        is_first = request.code == RequestCode.SEND_REPLY_MESSAGE
        header = request.header(SendMessageRequestHeader if is_first else SendMessageRequestHeaderV2)
        if header.topic != self._reply_topic:
            text = f"a reply goes to topic {self._reply_topic!r} only, not to {header.topic!r}"
            self._access.need_admin(request, connection, text)
        try:
            topic, queue_id = self._sends.target(header, request, connection)
        except BrokerError as error:
            return self._sends.failure(request, error)
        problem = await self._push(header, request, connection)
        self._stats.count_reply(taken=not problem)
        stored = self._put(header, request, connection, topic, queue_id) if self._stores_replies else None
        answer = self._answer(request, problem, queue_id, stored)
        if stored is None:
            return answer
        if request.flag & ONEWAY_FLAG:
            self._acknowledgements.expect_group()
        else:
            # It tells of the push: it waits for the write, which gives the reply an id, and for nothing more.
            self._acknowledgements.add(connection, request, answer.encode(), waits=False)
        return None

    async def _push(self, header: SendMessageRequestHeader, request: RemotingCommand, connection: Connection) -> str:
        """Give the reply to the client that waits; return what went wrong, if something did."""
        properties = decode_properties(header.properties or "")
        client_id = properties.get(REPLY_TO_CLIENT)
        if client_id is None:
            return f"the reply does not say whose request it answers: it has no property {REPLY_TO_CLIENT}"
        if CORRELATION_ID not in properties:
            return f"the reply does not say which request it answers: it has no property {CORRELATION_ID}"
        waiting = self._clients.producer_connection(client_id)
        if waiting is None:
            return f"the client {client_id} that waits for this reply is not connected to this broker"
        properties[PUSH_REPLY_TIME] = str(self._clock.now_ms())
        pushed = self._pushed_header(header, encode_properties(properties), connection)
        push = new_request(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, pushed, request.body, language=LanguageCode.JAVA)
        try:
            answer = await waiting.request(push, PUSH_TIMEOUT)
        except (RemotingError, LocalProtocolError) as error:  # the second: it is too large with what was added
            return f"the client {client_id} did not take the reply: {error}"
        taken = answer.code == ResponseCode.SUCCESS
        return "" if taken else f"the client {client_id} refused the reply: {answer.remark}"

    def _pushed_header(
        self, header: SendMessageRequestHeader, properties: str, connection: Connection
    ) -> PushReplyMessageToClientRequestHeader:
        return PushReplyMessageToClientRequestHeader(
            producer_group=header.producer_group,
            topic=header.topic,
            default_topic=header.default_topic,
            default_topic_queue_nums=header.default_topic_queue_nums,
            queue_id=header.queue_id,
            sys_flag=header.sys_flag,
            born_timestamp=header.born_timestamp,
            flag=header.flag,
            properties=properties,
            reconsume_times=header.reconsume_times,
            unit_mode=header.unit_mode,
            born_host=connection.peer,
            store_host=decode_host(self._store_host),
            store_timestamp=self._clock.now_ms(),
        )

    def _put(
        self,
        header: SendMessageRequestHeader,
        request: RemotingCommand,
        connection: Connection,
        topic: Topic,
        queue_id: int,
    ) -> PutResult | None:
        """Store the reply as it was sent; return None where that fails: the answer is about the push."""
        record = self._sends.record(header, request, connection, topic, queue_id)
        record.sys_flag &= ~TRANSACTION_MASK
        record.properties = (header.properties or "").encode()
        record.tags_code = tag_code(find_property(record.properties, TAGS))
        try:
            stored = self._store.put(record)
        except StoreError:
            return None
        topic.count_put(stored.size)
        return stored

    def _answer(
        self, request: RemotingCommand, problem: str, queue_id: int, stored: PutResult | None
    ) -> RemotingCommand:
        header = SendMessageResponseHeader(
            msg_id=encode_offset_id(self._store_host, stored.physical_offset) if stored else _NO_ID,
            queue_id=queue_id,
            queue_offset=stored.queue_offset if stored else 0,
            msg_region=self._region,
            trace_on=self._trace_on,
        )
        code = ResponseCode.SYSTEM_ERROR if problem else ResponseCode.SUCCESS
        return response(request, code, problem or None, header)
