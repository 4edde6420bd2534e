"""One socket that carries requests and answers in both directions.

A read passes its frames to `serve`, as many as are its share of a round. Answers leave when the round ends.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from time import perf_counter
from typing import TypeAlias, cast

from pyromq.clock import Clock, wait_for
from pyromq.errors import ConnectionLost, RemoteProtocolError, RequestTimeout
from pyromq.protocol.acl import Credentials, name_account, nonces, signed
from pyromq.protocol.codes import ONEWAY_FLAG, RESPONSE_FLAG, ResponseCode
from pyromq.protocol.command import TLS_HANDSHAKE, FrameDecoder, RemotingCommand, decode, other_protocol
from pyromq.remoting.held_bytes import LARGE, SLOW, HeldBytes, Share
from pyromq.remoting.limits import Limits, Tally
from pyromq.remoting.loop import writer_of
from pyromq.remoting.outstanding import AnswerWaiter, Deadlines, Outstanding
from pyromq.remoting.round import ANSWER_BYTES, ANSWER_SHARE, PlainLane, QuickDesk, Round, Serving, about, address_text

logger = logging.getLogger(__name__)

CLOSE_TIMEOUT = 3.0
_SYSTEM_ERROR = int(ResponseCode.SYSTEM_ERROR)
_RECENT_TICKS = 2
SHARE = 256  # requests of one connection that a round serves
LANE_SHARE = 64  # requests that the lane takes before the clock is looked at again
JOIN_LIMIT = 256 * 1024  # above this, joining the answers costs more than writing them one by one

Frames: TypeAlias = list[bytes | memoryview]


class Connection(asyncio.Protocol):
    """Send requests and answers to one peer, and pass its requests to `serve`.

    `address` is what a client connected to; `peer` and `local` are the two ends (`ip:port`). `attributes` belongs to
    the upper layers. `received_ms` is when what `serve` sees was taken up, or the latest part of a frame was read;
    `queued`, the bytes that wait to be written. With `credentials` requests are signed, except for frames that the
    caller encoded. With `throttles` nothing is read from a peer that does not read its answers: for servers, as two
    that throttle could wait for each other for ever. With `drops_silent` a request that times out closes a connection
    on which nothing was read since: the peer may be gone.
    """

    __slots__ = (  # in a dict of so many names each use of one would be slower
        "__dict__", "__weakref__", "_aborted", "_ahead", "_answer_share", "_backlog", "_can_write", "_clock",
        "_credentials", "_decoder", "_desk", "_drops_silent", "_find_lane", "_first_byte", "_held", "_loop",
        "_lost", "_max_header", "_nonces", "_on_open", "_outstanding", "_parts", "_paused", "_pending_before",
        "_reason", "_round", "_sent", "_sent_before", "_serve", "_serve_again", "_serve_first", "_stuck_ticks",
        "_throttles", "_transport", "_typed", "_unsent", "_waiting_bytes", "_write", "_write_high",
        "_write_limit", "_written", "address", "attributes", "closed", "cut_off_at", "frame_ticks", "is_encrypted",
        "is_proven", "limits", "local", "on_close", "peer", "queued", "received_ms", "refusals", "running",
        "silent_ticks", "tally", "unproven_ticks",
    )  # fmt: skip

    def __init__(
        self,
        *,
        round: Round,
        clock: Clock,
        deadlines: Deadlines,
        serve: Callable[[RemotingCommand, Connection], None],
        on_open: Callable[[Connection], None],
        limits: Limits,
        throttles: bool,
        address: str = "",
        credentials: Credentials | None = None,
        drops_silent: bool = False,
        held: HeldBytes | None = None,
        unsent: HeldBytes | None = None,
        refusals: Counter[int] | None = None,
        tally: Tally | None = None,
        serve_again: Callable[[RemotingCommand, Connection], None] | None = None,
        serve_first: Callable[[Frames, Connection], Frames] | None = None,
        desk: QuickDesk | None = None,
        find_lane: Callable[[], PlainLane | None] = lambda: None,
    ) -> None:
        """With `serve_again`, `serve` asks a guard first, which sees all ext fields of every request.

        `serve_first` may answer the first frames of a read by `send_ahead`; it returns the others. `desk` may answer
        whole reads. `find_lane` returns what takes plain messages before `serve` sees them. `held` adds up what all
        peers have sent and is not answered, `unsent` the answers that they have not read.
        """
        self.address = address
        self.refusals: Counter[int] = Counter() if refusals is None else refusals
        """How often requests were refused, by response code; shared by the connections of a server."""
        self.tally = tally or Tally()
        """What was refused because of a limit; shared likewise."""
        self.is_proven = False
        """Whether the peer has sent a request; where there is a guard, one that was let in."""
        self.peer = self.local = ""
        self.is_encrypted = self.closed = False
        self.attributes: dict[str, object] = {}
        self.on_close: list[Callable[[Connection], None]] = []
        self.received_ms = self.running = self.silent_ticks = self.frame_ticks = self.unproven_ticks = 0
        self.limits, self._round, self._clock = limits, round, clock
        self._serve, self._serve_again, self._typed = serve, serve_again or serve, serve_again is None
        self._serve_first, self._desk, self._find_lane = serve_first, desk, find_lane
        self._held, self._unsent = Share(held), Share(unsent)
        self._on_open, self._throttles, self._drops_silent = on_open, throttles, drops_silent
        self._credentials, self._nonces = credentials, None if credentials is None else nonces()
        self._decoder = FrameDecoder(limits.max_frame)
        self._max_header, self._answer_share = limits.max_header, min(limits.write_high, ANSWER_SHARE)
        self._write_high = self._write_limit = limits.write_high
        self._outstanding = Outstanding(deadlines, limits.max_outstanding, self._drop_silent if drops_silent else None)
        self._loop = asyncio.get_running_loop()
        self._lost: asyncio.Future[None] = self._loop.create_future()
        self._can_write = asyncio.Event()
        self._can_write.set()
        self._parts: Frames = []
        self._ahead: bytes | memoryview = b""
        self.queued = self._written = self._sent = self._stuck_ticks = 0
        self._paused, self._aborted, self.cut_off_at, self._first_byte, self._reason = False, False, 0.0, -1, ""
        self._backlog: Frames = []
        self._pending_before = self._waiting_bytes = self._sent_before = 0

    # --- called by the loop -----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's has the methods but not the base class
        self.peer = address_text(transport.get_extra_info("peername"))
        self.local = address_text(transport.get_extra_info("sockname"))
        self.is_encrypted = transport.get_extra_info("ssl_object") is not None
        self.address = self._outstanding.address = self.address or self.peer
        self._transport.set_write_buffer_limits(high=self._write_high)
        self._write = writer_of(self._transport)
        self._on_open(self)

    def data_received(self, data: bytes) -> None:
        self.silent_ticks = 0
        desk, take_read = self._desk, self._round.take_read
        if desk is not None and not data.startswith(desk.prefix, 8):
            desk = None
        if desk is not None or take_read is not None:
            # Only if nothing of what was read or answered before is left to be done.
            is_idle = not (self._decoder.partial or self._backlog or self._parts or self._ahead or self._paused)
            if is_idle and self.is_proven and not (self._held.size or self._unsent.size):
                if desk is not None:
                    data = desk.answer(data, self)
                elif take_read is not None:
                    data = data[take_read(data, self) :]
                if not data:
                    return
        if self._drops_silent:
            self._outstanding.heard = self._outstanding.opaque
        if self._first_byte < 0:
            self._first_byte = data[0]
            if self._first_byte == TLS_HANDSHAKE:
                self.abort(other_protocol(TLS_HANDSHAKE), cause="not_rocketmq")
                return
        try:
            frames = self._decoder.feed(data)
        except RemoteProtocolError as error:
            what = other_protocol(self._first_byte)
            self.abort(what or str(error), cause="not_rocketmq" if what else "bad_frame")
            return
        if frames:
            self.frame_ticks = 0
            if self._typed:
                self.is_proven = True  # else the guard decides
            if self._backlog:
                self._backlog += frames  # read before the pause took effect
            else:
                self._take(frames)
        if self._decoder.partial or self._held.size:
            self._wait_for_rest(len(data))

    def _wait_for_rest(self, size: int) -> None:
        """Account for an unfinished frame, of which `size` bytes came just now."""
        self.received_ms = self._clock.now_ms()
        if self._decoder.pending > LARGE or self._held.size:
            self.note_held()
        if self._backlog or self._paused or self.closed or not self._throttles or size < LARGE:
            return
        if self._decoder.pending > LARGE and self._held.must_wait(self):
            self._hold([])
        elif self._round.has_read(size):
            self.serve_later([])

    def go_on(self) -> None:
        """Read the rest of a large frame: others have made room for it."""
        if not self.closed:
            self._round.wait_turn(self)

    def pause_writing(self) -> None:
        self._paused = True
        self._can_write.clear()
        if self._throttles:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        self._paused = False
        self._can_write.set()
        if self._write_limit != self._write_high:
            self._write_limit = self._write_high
            self._transport.set_write_buffer_limits(high=self._write_high)
        if self._throttles:
            self._round.wait_turn(self)

    def connection_lost(self, error: Exception | None) -> None:
        self.closed, self._ahead = True, b""
        self._parts.clear()
        self._backlog.clear()
        self._reason = self._reason or (str(error) if error else "closed by the peer")
        self._held.forget(self)
        self._unsent.forget(self)
        self._outstanding.fail(self._lost_text())
        self._can_write.set()
        self._lost.set_result(None)
        Serving.peer = self.peer
        for callback in self.on_close:
            try:
                callback(self)
            except Exception:
                logger.exception("a callback for the closed connection %s failed", self.peer)
        Serving.peer = ""

    # --- sending ---------------------------------------------------------------------------------------------------

    def send(self, frame: bytes | memoryview) -> None:
        """Queue a frame or a part of one; it is written when the round ends. A closed connection drops it."""
        if self.closed:
            return
        if not self._parts:
            self._round.add(self)
        self._parts.append(frame)
        size = len(frame)
        self.queued += size
        if size > LARGE:
            self._round.answer_bytes += size

    def send_at_once(self, frames: bytes) -> None:
        """Write whole frames without waiting for the end of the round, unless something is queued before them."""
        if self._parts or self._ahead or self._backlog or self.closed:
            self.send(frames)
        elif not self._transport.is_closing():
            self._write_out(frames)

    def send_answer(self, answer: RemotingCommand) -> None:
        """Queue an answer, without copying a large body; raise LocalProtocolError if it does not fit into a frame."""
        if len(answer.body) <= JOIN_LIMIT:
            self.send(answer.encode())
        else:
            self.send(answer.encode_head())
            self.send(answer.body)

    def send_ahead(self, frames: bytes | memoryview) -> None:
        """Have whole frames written before all that is queued from now on: by `write_ahead`, or when the round ends."""
        if self._ahead:
            self.write_ahead()
        self._ahead = frames

    def write_ahead(self) -> None:
        """Write what `send_ahead` was given, unless that has happened."""
        frames, self._ahead = self._ahead, b""
        if frames and not self._transport.is_closing():
            self._written += len(frames)  # as _write_out does, but for a call
            if not self._write(frames) or self._unsent.size:
                self._note_unsent()

    def _write_out(self, data: bytes | memoryview) -> None:
        self.silent_ticks = 0
        self._written += len(data)
        if not self._write(data) or self._unsent.size:
            self._note_unsent()

    def flush(self) -> None:
        """Write what is queued at once; called by the round."""
        self.write_ahead()
        parts, self._parts = self._parts, []
        size, self.queued = self.queued, 0
        if not parts or self._transport.is_closing():
            return
        for data in [b"".join(parts)] if size <= JOIN_LIMIT else parts:
            self._write_out(data)
        if not self._paused:
            self._can_write.set()
            if self._backlog:
                self._round.wait_turn(self)

    def serve_again(self, command: RemotingCommand) -> None:
        """Pass a request of the peer to its handler once more: it could not be answered when it came."""
        self._serve_again(command, self)

    async def request(self, command: RemotingCommand, timeout: float) -> RemotingCommand:
        """Send a request and return its answer, whatever its code; raise RequestTimeout or ConnectionLost."""
        if not self.writable:
            timeout = await self._wait_for_room(timeout)
        return await self.request_future(command, timeout)

    def request_future(self, command: RemotingCommand, timeout: float) -> asyncio.Future[RemotingCommand]:
        """Send a request and return the future of its answer; cancel it to stop waiting.

        Raises the same errors as `open_request`.
        """
        future: asyncio.Future[RemotingCommand] = self._loop.create_future()
        command.opaque = self.open_request(future, command.code, timeout)
        try:
            frame = self._encode(command)
        except BaseException:
            self._outstanding.forget(command.opaque)
            raise
        self.send(frame)
        return future

    def open_request(self, waiter: AnswerWaiter, code: int, timeout: float) -> int:
        """Return the opaque of a request for the caller to send; raise ConnectionLost, for too many RemotingError."""
        if self.closed:
            raise ConnectionLost(self._lost_text())
        return self._outstanding.open(waiter, code, timeout)

    def oneway(self, command: RemotingCommand) -> None:
        """Send a request without an answer; raise ConnectionLost if the connection is closed."""
        if self.closed:
            raise ConnectionLost(self._lost_text())
        command.flag |= ONEWAY_FLAG
        command.opaque = self._outstanding.next_opaque()
        self.send(self._encode(command))

    def _encode(self, request: RemotingCommand) -> bytes:
        if self._credentials is None:
            return request.encode()
        return signed(request, self._credentials, self.next_nonce(), self._clock.now_ms()).encode()

    def next_nonce(self) -> str:
        """Return what no other signed request has; empty if requests are not signed. Send them in this order."""
        return "" if self._nonces is None else next(self._nonces)

    @property
    def writable(self) -> bool:
        """Whether unsent bytes and outstanding requests are below their limits, so that more may be sent."""
        return not (self._paused or self._outstanding.full or self.queued > self._write_high)

    async def drain(self) -> None:
        """Wait until `writable`; raise ConnectionLost if the connection closes meanwhile."""
        while not (self.writable or self.closed):
            if self.queued > self._write_high:
                self._can_write.clear()  # flush sets it again
            await self._can_write.wait()
            await self._outstanding.has_room.wait()
        if self.closed:
            raise ConnectionLost(self._lost_text())

    async def _wait_for_room(self, timeout: float) -> float:
        """Wait until `writable`, even after all others that waited; return the rest of `timeout`."""
        deadline = self._clock.monotonic() + timeout
        started = self._outstanding.next_opaque()
        while not self.writable:
            try:
                await wait_for(self._clock, self.drain(), deadline - self._clock.monotonic())
            except TimeoutError:
                full = self._outstanding.full  # then the time-outs of those requests decide
                if self._drops_silent and not full and self._outstanding.silent_since(started):
                    self._drop_silent(f"it took no request within {timeout:g} s, and nothing arrived")
                raise RequestTimeout(f"{self.address} took no request within {timeout:g} s") from None
        return min(deadline - self._clock.monotonic(), timeout)

    # --- closing ---------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Send what is queued, close, and wait until the socket is gone. A peer that does not read is cut off."""
        if not self.closed:
            self._reason = "closed on this side"
            self.flush()
            self.closed = True
            self._transport.close()
        try:
            await wait_for(self._clock, asyncio.shield(self._lost), CLOSE_TIMEOUT)
        except TimeoutError:
            self._transport.abort()
            await self._lost

    def abort(self, reason: str, level: int = logging.WARNING, *, cause: str = "") -> None:
        """Drop the connection and what is unsent, with one line in the log; a `cause` is counted."""
        if not (self._aborted or self._lost.done()):
            if cause:
                self.tally.closed[cause] += 1
            logger.log(level, "closed the connection of %s: %s", self.peer, reason, extra=about(self.peer))
            self._reason = self._reason or reason
            self._aborted = self.closed = True
            self._transport.abort()

    def age(self) -> None:
        """Count a tick without traffic, and a tick within an unfinished frame; called by the idle watch."""
        sent = self._written - self._transport.get_write_buffer_size()
        if sent != self._sent:  # the peer still reads, however slowly
            self._sent = sent
            self.silent_ticks = self._stuck_ticks = 0
        self.silent_ticks += 1
        self._stuck_ticks += 1
        self.frame_ticks = self.frame_ticks + 1 if self._decoder.pending and self._transport.is_reading() else 0
        self.unproven_ticks += not self.is_proven
        self.note_held()
        self._note_unsent()
        self._look_for_progress(sent)

    def _look_for_progress(self, sent: int) -> None:
        """Where all peers together hold too much, close this one if next to nothing moved since the last tick."""
        grown = self._decoder.pending - self._pending_before
        moved = sent - self._sent_before
        self._pending_before, self._sent_before = self._decoder.pending, sent
        held, unsent = self._held, self._unsent
        if held.size and held.is_crowded and self.frame_ticks > 1 and grown < SLOW:
            self.abort("it does not finish a large frame, and memory is short", cause="stalled_frame")
        elif unsent.size and unsent.is_crowded and moved < SLOW and self._stuck_ticks > 1:
            self.abort("it does not read its answers, and memory is short", cause="unread_answers")

    def note_held(self, waiting: int = 0) -> None:
        """Note how many bytes of its requests are held, and `waiting` more, or fewer, of requests that wait."""
        self._waiting_bytes += waiting
        self._held.note(self, self._decoder.pending + self._waiting_bytes + sum(map(len, self._backlog)))

    def _note_unsent(self) -> None:
        """Note how many bytes of answers the peer has not read; where memory is short, it gets no more before."""
        size = self._transport.get_write_buffer_size()
        self._unsent.note(self, size)
        if size > LARGE and not self._paused and self._unsent.is_crowded:
            self._write_limit = LARGE  # above so many unsent bytes it is not served
            self._transport.set_write_buffer_limits(high=LARGE)

    def _drop_silent(self, reason: str) -> None:
        unsent = self._transport.get_write_buffer_size()
        moved = self._written - unsent != self._sent or self._stuck_ticks <= _RECENT_TICKS
        if not (unsent and moved):  # else it is reading a large request, slowly
            self.abort(reason)

    def _lost_text(self) -> str:
        return f"connection to {self.address} lost: {self._reason}"

    # --- receiving -------------------------------------------------------------------------------------------------

    def _take(self, frames: Frames, at_least: int = 0) -> None:
        if self._serve_first is not None and not (self._parts or self._paused or self._unsent.size):
            frames = self._serve_first(frames, self)
            if not frames:
                return
        elif self._desk is not None:
            self._desk.end_pass()
        self.received_ms = self._clock.now_ms()
        index, throttles, until, share, typed = 0, self._throttles, 0.0, self._answer_share, self._typed
        if throttles:
            self._round.schedule()
            Serving.peer = self.peer  # until the round ends
            until = self._round.serves_until
            if self._unsent.is_crowded:
                share = LARGE
        while index < len(frames):
            if throttles:
                if self.queued > share:
                    # A few bytes of request can ask for megabytes: the rest is served once these are written.
                    self._hold(frames[index:])
                    return
                is_over = perf_counter() >= until or self._round.answer_bytes > ANSWER_BYTES
                if (is_over and index >= at_least) or index >= SHARE:
                    self.serve_later(frames[index:], is_new=not index)
                    return
            lane = self._find_lane()  # each time: what was served just now may have changed it
            taken = 0 if lane is None else lane.take(frames, index, min(SHARE - index, LANE_SHARE), self)
            index += taken or 1
            self._round.take_read = lane.take_read if lane is not None and taken else None
            if taken:
                continue
            try:
                command = decode(frames[index - 1], typed=typed, max_header=self._max_header)
            except RemoteProtocolError as error:
                self.abort(str(error), cause="bad_frame")
                return
            if command.flag & RESPONSE_FLAG:
                if command.code == _SYSTEM_ERROR:
                    name_account(command, self._credentials)
                self._outstanding.settle(command)
            else:
                self._serve(command, self)

    def _hold(self, frames: Frames) -> None:
        self._backlog = frames
        self._transport.pause_reading()

    def serve_later(self, frames: Frames, *, is_new: bool = False) -> None:
        """Serve the rest of a read, or all of it (`is_new`), in a later round, and read nothing before."""
        self._hold(frames)
        self._round.wait_turn(self, is_new=is_new)

    def take_turn(self) -> None:
        """Serve the next share of what was held back; called by the round."""
        if self.closed or self._paused:
            return
        frames, self._backlog = self._backlog, []
        self._take(frames, at_least=1)  # however slow the machine, a turn gets on
        if self._held.size:
            self.note_held()  # others may wait for the memory of what was served
        if not (self._backlog or self._paused or self._transport.is_closing()):
            self._transport.resume_reading()
