"""A fake name server and broker in one, with real sockets and scripted answers."""

from __future__ import annotations

from collections import deque
from types import TracebackType
from typing import Self

from pyromq.blocking import Portal
from pyromq.clock import SystemClock
from pyromq.protocol.bodies import BrokerData, QueueData, TopicRouteData, encode
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import RemotingCommand, response
from pyromq.protocol.headers.offsets import GetMaxOffsetResponseHeader, GetMinOffsetResponseHeader
from pyromq.protocol.headers.pull import PullMessageRequestHeader, PullMessageResponseHeader
from pyromq.protocol.messages.message import MessageQueue
from pyromq.protocol.messages.record import Record, encode_record
from pyromq.remoting.connection import Connection
from pyromq.remoting.server import RemotingServer

TOPIC = "orders"
QUEUE = MessageQueue(TOPIC, "fake", 0)


class FakeBroker:
    """Serves one queue from `first` to `end`, after the scripted `answers`; None breaks the connection."""

    def __init__(self, first: int = 0, end: int = 0, tags: dict[int, str] | None = None) -> None:
        self.first = first
        self.end = end
        self.missing: set[int] = set()
        self.tags = tags or {}
        self.answers: deque[RemotingCommand | bytes | None] = deque()
        self.pulls: list[PullMessageRequestHeader] = []

    def __enter__(self) -> Self:
        self._portal = Portal()
        handlers = {
            int(RequestCode.GET_ROUTEINFO_BY_TOPIC): self._route,
            int(RequestCode.GET_MIN_OFFSET): self._min_offset,
            int(RequestCode.GET_MAX_OFFSET): self._max_offset,
            int(RequestCode.PULL_MESSAGE): self._pull,
        }
        self._server = RemotingServer(handlers, host="127.0.0.1", port=0, clock=SystemClock())
        self._portal.call(self._server.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._portal.call(self._server.__aexit__(kind, error, trace))
        self._portal.close()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._server.port}"

    def _route(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        queues = QueueData(broker_name="fake", read_queue_nums=1, write_queue_nums=1, perm=6, topic_sys_flag=0)
        broker = BrokerData(cluster="c", broker_name="fake", broker_addrs={0: self.address})
        return response(request, body=encode(TopicRouteData(queue_datas=[queues], broker_datas=[broker])))

    def _min_offset(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        return response(request, header=GetMinOffsetResponseHeader(offset=self.first))

    def _max_offset(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        return response(request, header=GetMaxOffsetResponseHeader(offset=self.end))

    def _pull(self, request: RemotingCommand, connection: Connection) -> RemotingCommand | None:
        header = request.header(PullMessageRequestHeader)
        self.pulls.append(header)
        if self.answers:
            answer = self.answers.popleft()
            if answer is None:
                connection.abort("as the test wants")
            elif isinstance(answer, bytes):
                return self._answer(request, ResponseCode.SUCCESS, header.queue_offset + 1, answer)
            else:
                return response(request, answer.code, answer.remark)
            return None
        offset = header.queue_offset
        if offset < self.first or offset > self.end:
            return self._answer(request, ResponseCode.PULL_OFFSET_MOVED, self.first)
        if offset == self.end:
            return self._answer(request, ResponseCode.PULL_NOT_FOUND, offset)
        stop = min(self.end, offset + header.max_msg_nums)
        body = b"".join(self.record(number) for number in range(offset, stop) if number not in self.missing)
        return self._answer(request, ResponseCode.SUCCESS, stop, body)

    def _answer(self, request: RemotingCommand, code: int, next_offset: int, body: bytes = b"") -> RemotingCommand:
        header = PullMessageResponseHeader(
            suggest_which_broker_id=0, next_begin_offset=next_offset, min_offset=self.first, max_offset=self.end
        )
        return response(request, code, header=header, body=body)

    def record(self, offset: int) -> bytes:
        """Return the message at an offset, as a broker stores it."""
        properties = f"TAGS\x01{self.tags[offset]}".encode() if offset in self.tags else b""
        record = Record(topic=TOPIC, body=b"body %d" % offset, properties=properties)
        return encode_record(record, TOPIC.encode(), offset, 1000 * offset, 1_700_000_000_000)
