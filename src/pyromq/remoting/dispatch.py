"""Dispatcher: runs the handler of each request and turns what it returns or raises into an answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Generator, Mapping
from typing import Any, Final, Protocol, TypeAlias

from pyromq.clock import Clock, wait_for
from pyromq.errors import BrokerError, RemoteProtocolError, ServiceNotAvailable, StoreError, SystemBusy
from pyromq.protocol.codes import ONEWAY_FLAG, RequestCode, ResponseCode
from pyromq.protocol.command import RemotingCommand, response
from pyromq.remoting.connection import Connection, Frames
from pyromq.remoting.requests import Answer, Handler, HandlerResult
from pyromq.remoting.round import ANSWER_SHARE, BeginPass, PlainLane, QuickPass, Round
from pyromq.remoting.slices import SliceQueue

logger = logging.getLogger(__name__)

MAX_REASON = 300
_SEND = int(RequestCode.SEND_MESSAGE_V2)
_NO_LANES: Mapping[Handler, PlainLane] = {}
QUICK_SHARE: Final = 32
"""Frames of one read that are answered at once."""
SCRATCH: Final = 1 << 20
"""Bytes of quick answers that are made before they are written."""
_LITTLE_ROOM: Final = 128 << 10  # of these: it may have been too little for the next answer
_NO_PREFIX: Final = b"\0"  # no header begins with it


class Closable(Protocol):
    """A coroutine or generator that may be given up before it runs."""

    def close(self) -> None:
        """Give it up."""


class Dispatcher:
    """Serve requests from a table of handlers.

    A plain function answers within the read. A generator is served in slices, a coroutine runs as a task.
    """

    def __init__(
        self,
        handlers: Mapping[int, Handler],
        *,
        answer_unknown: bool = True,
        guard: Handler | None = None,
        lanes: Mapping[Handler, PlainLane] = _NO_LANES,
    ) -> None:
        """`guard` is asked about each request, before its handler: it returns None to let it in, else the answer.

        `lanes` has what takes plain messages in the place of a handler, as long as that answers SEND_MESSAGE_V2 itself.
        The guard does not see those: a lane takes only what the guard would let in.
        """
        self._lane_of: Callable[[Handler | None], PlainLane | None] = lanes.get  # type: ignore[assignment]
        self._guard = guard
        self.is_guarded = guard is not None
        self._handler_of: Callable[[int], Handler | None] = handlers.get
        self._answer_unknown = answer_unknown
        self._tasks: set[asyncio.Task[None]] = set()
        self._slices = SliceQueue(_settle)

    def lane(self) -> PlainLane | None:
        """Return what takes plain messages now; None if whoever answers sends wants to see each of them."""
        return self._lane_of(self._handler_of(_SEND))

    def serve_guarded(self, command: RemotingCommand, connection: Connection) -> None:
        """Serve a request if the guard lets it in; else queue the guard's answer."""
        assert self._guard is not None
        try:
            refusal = self._guard(command, connection)
            if refusal is None:
                connection.is_proven = True
                self.serve(command, connection)
            else:
                self._turn_away(refusal, command, connection)
        except Exception as error:
            send_answer(error_answer(command, error, connection), command, connection)

    def serve(self, command: RemotingCommand, connection: Connection) -> None:
        """Run the handler of `command` and queue its answer; where there is a guard, it has been let in."""
        handler = self._handler_of(command.code)
        try:
            answer = handler(command, connection) if handler else self._unknown(command, connection)
            if answer is None or isinstance(answer, (bytes, RemotingCommand)):  # cheaper than to test for a coroutine
                send_answer(answer, command, connection)
            elif isinstance(answer, Generator):
                _check_running(answer, connection)
                self._slices.add(answer, command, connection)
            else:
                _check_running(answer, connection)
                self._start(answer, command, connection)
        except Exception as error:
            send_answer(error_answer(command, error, connection), command, connection)

    def _turn_away(self, answer: HandlerResult, command: RemotingCommand, connection: Connection) -> None:
        connection.refusals[ResponseCode.SYSTEM_ERROR] += 1
        if isinstance(answer, Coroutine):
            _check_running(answer, connection)
            self._start(answer, command, connection)
        elif isinstance(answer, (bytes, RemotingCommand)):
            send_answer(answer, command, connection)

    async def stop(self, clock: Clock, timeout: float) -> None:
        """Refuse new requests, wait for running handlers, and cancel those still running after `timeout`."""
        self._handler_of = lambda code: _refuse
        await self._finish_slices(clock, timeout)
        if self._tasks:
            await _wait_or_cancel(self._tasks, clock, timeout)

    async def _finish_slices(self, clock: Clock, timeout: float) -> None:
        if self._slices.is_empty:
            return
        try:
            await wait_for(clock, self._slices.drained(), timeout)
        except TimeoutError:
            self._slices.drop_all()

    def _unknown(self, command: RemotingCommand, connection: Connection) -> RemotingCommand | None:
        connection.refusals[ResponseCode.REQUEST_CODE_NOT_SUPPORTED] += 1
        if not self._answer_unknown:
            return None
        remark = f" request type {command.code} not supported"  # the blank is RocketMQ's
        return response(command, ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark)

    def _start(self, coroutine: Coroutine[Any, Any, Answer], command: RemotingCommand, connection: Connection) -> None:
        connection.running += 1
        task = asyncio.get_running_loop().create_task(_run(coroutine, command, connection))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


QuickAnswer: TypeAlias = tuple[int, bytes | memoryview, bool]
"""How many frames were answered, all their answers, and whether there may be more with another buffer."""

AnswerQuickly: TypeAlias = Callable[[Frames, int, int, Connection, memoryview], QuickAnswer]
"""Answers some frames, from one on and at most so many; the first that must be served as usual ends it. The answers may
be the beginning of the given buffer."""


class QuickAnswers:
    """Answers the frames at the beginning of reads, undecoded and without waiting for the end of the round.

    Answers leave in the order of their requests. They go into a buffer, and are written when all connections are served
    that the loop has found readable in this pass. For a peer that sleeps is woken by a write, which costs more than the
    write itself: so writes come one after the other, and the first wakes it for the rest. The buffer is small enough
    for the processor's cache. When it is full, its answers are written before others are made.

    A QuickPass may answer whole reads, until something else is served or the answers are written: what was looked at
    when it began holds for so long.
    """

    def __init__(self, round: Round) -> None:
        self._round = round
        self._prefix = b""
        self._prefix_end = 4
        self._answer: AnswerQuickly | None = None
        self._code = 0
        self._handlers: Mapping[int, Handler] = {}
        self._handler: Handler | None = None
        self._scratch = memoryview(bytearray(SCRATCH))
        self._room = self._scratch
        self.prefix = _NO_PREFIX
        """How the header of a request begins that `answer` may answer."""
        self._answered: list[Connection] = []
        self._is_scheduled = False
        self._pass: QuickPass | None = None
        self._begin_pass: BeginPass | None = None
        self._asks_guard = False

    def start(
        self,
        code: int,
        answer: AnswerQuickly,
        handlers: Mapping[int, Handler],
        *,
        asks_guard: bool = False,
        begin_pass: BeginPass | None = None,
    ) -> None:
        """Have frames with this request code answered, as long as `handlers` has the same handler for it as now.

        Behind a guard only with `asks_guard`: `answer` then answers what the guard would let in, and no more.
        """
        self._begin_pass = begin_pass
        self.prefix = _NO_PREFIX if begin_pass is None else b'{"code":%d,' % code
        self._asks_guard = asks_guard
        self._prefix = b'{"code":%d,' % code
        self._prefix_end = 4 + len(self._prefix)
        self._answer = answer
        self._code = code
        self._handlers = handlers
        self._handler = handlers.get(code)

    def stop(self) -> None:
        """Leave all frames to be served as usual."""
        self.end_pass()
        self._answer, self.prefix = None, _NO_PREFIX

    def serve_guarded(self, frames: Frames, connection: Connection) -> Frames:
        """Do as `serve` does, where there is a guard."""
        return self.serve(frames, connection) if self._asks_guard else frames

    def serve(self, frames: Frames, connection: Connection) -> Frames:
        """Answer the first of some frames; return those that are left to be served as usual, now."""
        answer = self._answer
        self.end_pass()
        if answer is None or not frames or self._round.quick_bytes <= 0:
            return frames  # nobody has sent anything where a turn only means to read on
        if frames[0][4 : self._prefix_end] != self._prefix:
            return frames
        if self._handlers.get(self._code) is not self._handler:
            return frames
        count = size = 0
        more = True
        while more and count < QUICK_SHARE and size <= ANSWER_SHARE:
            answered, answers, more = answer(frames, count, QUICK_SHARE - count, connection, self._room)
            if answered:
                count += answered
                size += len(answers)
                self._write_soon()
                connection.send_ahead(answers)
                self._answered.append(connection)
                if isinstance(answers, memoryview):
                    self._room = self._room[len(answers) :]
            elif not more or self._room is self._scratch:  # not even an empty buffer holds the next answer
                more = False
                break
            else:
                self.write()
        if count:
            self._round.answered(count, size)
        if not more or count == len(frames):
            return frames[count:] if count else frames
        connection.serve_later(frames[count:])  # its share of this round is used up
        return []

    def answer(self, data: bytes, connection: Connection, /) -> bytes:
        """Answer the first frames of a read that begins with `prefix`; return the rest: it is to be served as usual."""
        while True:
            current = self._pass or self._new_pass()
            if current is None:
                return data
            served, answers = current.feed(data)
            if served:
                connection.send_ahead(answers)
                self._answered.append(connection)
                if served == len(data):
                    return b""
                data = data[served:]
            self.end_pass()
            if len(self._room) >= _LITTLE_ROOM:
                return data
            self.write()

    def _new_pass(self) -> QuickPass | None:
        if self._begin_pass is None or self._round.quick_bytes <= 0:
            return None
        if self._handlers.get(self._code) is not self._handler:
            return None
        self._pass = self._begin_pass(self._room, self._round.quick_bytes)
        if self._pass is not None:
            self._write_soon()
        return self._pass

    def end_pass(self) -> None:
        """End the pass: something else is served."""
        if self._pass is not None:
            count, size = self._pass.end()
            self._pass = None
            self._room = self._room[size:]
            self._round.answered(count, size)

    def _write_soon(self) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._write_scheduled)

    def _write_scheduled(self) -> None:
        self._is_scheduled = False
        self.write()

    def write(self) -> None:
        """Write all answers that were made."""
        self.end_pass()
        answered, self._answered = self._answered, []
        for connection in answered:
            try:
                connection.write_ahead()
            except Exception:
                logger.exception("could not write quick answers")
        self._room = self._scratch


def _check_running(answer: Closable, connection: Connection) -> None:
    if connection.running >= connection.limits.max_running:
        answer.close()
        raise SystemBusy("[OVERLOAD]system busy, start flow control for a while")


def _settle(answer: Answer | Exception, command: RemotingCommand, connection: Connection) -> None:
    if isinstance(answer, Exception):
        answer = error_answer(command, answer, connection)
    try:
        send_answer(answer, command, connection)
    except Exception as error:  # the answer does not fit into a frame
        send_answer(error_answer(command, error, connection), command, connection)


def error_answer(command: RemotingCommand, error: Exception, connection: Connection) -> RemotingCommand:
    """Return the answer that reports `error` to the peer, and count it; log what no handler raises on purpose."""
    answer = _error_answer(command, error)
    connection.refusals[answer.code] += 1
    if isinstance(error, BrokerError) and error.limit:
        connection.tally.over_limit[error.limit] += 1
    return answer


def _error_answer(command: RemotingCommand, error: Exception) -> RemotingCommand:
    match error:
        case BrokerError():
            return response(command, error.code, _encodable(error.remark))
        case StoreError(retriable=True):
            return response(command, ResponseCode.SERVICE_NOT_AVAILABLE, _reason(error))
        case RemoteProtocolError():  # a bad header or body in a complete frame: the next frame can still be read
            return response(command, ResponseCode.SYSTEM_ERROR, _reason(error))
    logger.error("the handler of request code %d failed", command.code, exc_info=error)
    return response(command, ResponseCode.SYSTEM_ERROR, _reason(error))


async def _run(coroutine: Coroutine[Any, Any, Answer], command: RemotingCommand, connection: Connection) -> None:
    try:
        send_answer(await coroutine, command, connection)
    except Exception as error:
        send_answer(error_answer(command, error, connection), command, connection)
    finally:
        connection.running -= 1


def send_answer(answer: Answer, command: RemotingCommand, connection: Connection) -> None:
    """Queue the answer to a request; nothing if there is none, or none is wanted."""
    if answer is None or command.flag & ONEWAY_FLAG:
        return
    if isinstance(answer, bytes):
        connection.send(answer)
    else:
        connection.send_answer(answer)


def refusals_by_cause(refusals: Mapping[int, int]) -> dict[str, int]:
    """Return counts of refused requests by the name of the response code, for people."""
    known = {code.value: code.name for code in ResponseCode}
    return {known.get(code, str(code)): count for code, count in sorted(refusals.items())}


def _refuse(command: RemotingCommand, connection: Connection) -> Answer:
    raise ServiceNotAvailable("the server is stopping")


def _reason(error: Exception) -> str:
    """Return class and message on one short line, without file names of this machine."""
    text = error.strerror if isinstance(error, OSError) else str(error)
    return _encodable(" ".join(f"{type(error).__name__}: {text}".split())[:MAX_REASON])


def _encodable(text: str) -> str:
    """Return `text` without lone surrogates, which it may quote from a peer."""
    return text.encode(errors="replace").decode()


async def _wait_or_cancel(tasks: set[asyncio.Task[None]], clock: Clock, timeout: float) -> None:
    finished = asyncio.gather(*tasks, return_exceptions=True)
    try:
        await wait_for(clock, asyncio.shield(finished), timeout)
    except TimeoutError:
        logger.warning("cancelled %d requests that did not finish within %g s", len(tasks), timeout)
        for task in tasks:
            task.cancel()
        await finished
