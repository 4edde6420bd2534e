"""Round: one pass of the event loop.

Answers made within a pass leave together at the end of the round. The broker's store commits its group there,
so requests of 64 connections cost one file write and 64 socket writes, not 64 of each. See docs/architecture.md.

A round takes a bounded time and a bounded number of bytes. Connections whose requests do not fit wait for their turn in
one of the next rounds, so a few peers that send without a pause cannot starve the others. Turns are short and take half
of a round; the other half is for what is read then. Those who have just come are served before those who were served
and want more: however many peers ask for much, one that asks for little waits for about a round. Servers that share a
loop, as in `pyromq up`, share this bound: their rounds are parts of one pass.

Some reads have a shorter way. A QuickPass answers whole reads in one call each, as long as nothing else is served in a
pass. A PlainLane takes plain messages in the place of a handler.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable
from time import perf_counter
from typing import Any, NamedTuple, Protocol, TypeAlias
from weakref import WeakKeyDictionary

logger = logging.getLogger(__name__)

SERVING_TIME = 0.006
"""Seconds of a round in which requests are served. The hooks come after that, and commit what was served."""

TURN_TIME = 0.001
"""Seconds of a turn: fifty peers that have just come and want much delay the next by so much each, once."""

_WANTS_MUCH = 1.0  # seconds for which a peer is known as one who wanted more than its share

READ_BYTES = 4 << 20
"""Bytes of large reads in a round, of all connections together. uvloop would read 8 MB from each in one pass."""


ANSWER_BYTES = 2 << 20
"""Bytes of large answers in a round, of all connections together: only at its end is it known who reads them."""

ANSWER_SHARE = 512 * 1024
"""Bytes of answers of one connection in a round, after which the rest of its requests waits. The answers of a round are
written together: uvloop keeps all of them until the last byte is sent, and counts only what is unsent."""

QUICK_BYTES = 8 << 20
"""Bytes of answers that are written without waiting for the end of a round, of all connections together. Each counts
as some kilobytes at least: its work does."""

_QUICK_WORK = 16 << 10


class Serving:
    """The peer that is being served, `ip:port`; empty while it is nobody. The log wants to know who makes it write.

    A plain variable: it is set a hundred thousand times a second. What is logged about a peer at another time names it
    with `extra=about(peer)`.
    """

    peer = ""


def about(peer: str) -> dict[str, str]:
    """Return the `extra` of a log record that a peer has caused."""
    return {"peer": peer}


def host_of(peer: str) -> str:
    """Return the address of a peer, without its port."""
    return peer.rpartition(":")[0]


def address_text(address: tuple[Any, ...] | None) -> str:
    """Return the address of an end of a socket as `ip:port`."""
    if not address:
        return "unknown"
    host, port = address[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class QuickPass(Protocol):
    """Answers reads of one pass; lane/pull_passes.py has one for pulls."""

    def feed(self, data: bytes, /) -> tuple[int, memoryview]:
        """Answer the first frames of a read; return how many of its bytes they are, and the answers."""

    def end(self) -> tuple[int, int]:
        """Answer no more; return how many frames were answered, and with how many bytes of the buffer."""


BeginPass: TypeAlias = Callable[[memoryview, int], QuickPass | None]
"""Begins a pass with a buffer, and so many bytes that it may answer; None if there is nothing that could."""


class QuickDesk(Protocol):
    """What answers reads of a server's connections in such passes: QuickAnswers (dispatch.py)."""

    prefix: bytes
    """How the header of a request begins that it may answer."""

    def answer(self, data: bytes, connection: Any, /) -> bytes:
        """Answer the first frames of a read, by `send_ahead`; return the rest, which is to be served as usual, now."""

    def end_pass(self) -> None:
        """End the pass: something else is served."""


class PlainLane(NamedTuple):
    """Takes plain messages of connections before they are decoded (lane/sends.py)."""

    take: Callable[[list[bytes | memoryview], int, int, Any], int]
    """Takes messages from one of the frames on, at most so many; returns how many it has taken."""
    take_read: Callable[[bytes, Any], int] | None = None
    """Takes the first frames of a read, and returns how many bytes they are. For a round in which `take` has just taken
    something, and nothing else was served since."""


class Flushable(Protocol):
    """Something that holds bytes until its round ends."""

    def flush(self) -> None:
        """Write the held bytes now."""


class TurnTaker(Protocol):
    """Something with more requests than fit into its share of a round."""

    cut_off_at: float
    """When it last got a part of what it wanted, by perf_counter(); set by the round."""

    def take_turn(self) -> None:
        """Serve the next share; ask for another turn if requests are left."""


class Pass:
    """What has begun in this pass of a loop, of all rounds on it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.began = 0.0
        """When the first of its requests was served, by perf_counter()."""
        self.read_bytes = 0
        """Bytes of large reads."""
        self._loop = loop
        self._is_on = False

    def begin(self) -> None:
        """Begin a pass, unless another round has."""
        if not self._is_on:
            self._is_on = True
            self.began = perf_counter()
            self.read_bytes = 0
            self._loop.call_soon(self._end)

    def _end(self) -> None:
        self._is_on = False


_passes: WeakKeyDictionary[asyncio.AbstractEventLoop, Pass] = WeakKeyDictionary()


class Round:
    """Run the hooks once at the end of each pass of the loop, then flush all members."""

    def __init__(self, loop: asyncio.AbstractEventLoop, serving_time: float = SERVING_TIME) -> None:
        self._hooks: list[Callable[[], None]] = []
        self.began = 0.0
        """When the round that is ending began, by perf_counter(); for hooks."""
        self.serves_until = 0.0
        """When no more requests are served in this round, by perf_counter()."""
        self.answer_bytes = 0
        """Bytes of large answers that wait for the end of this round."""
        self.quick_bytes = QUICK_BYTES
        """How much may still be answered without waiting for the end of this round."""
        self.take_read: Callable[[bytes, Any], int] | None = None
        """That of a PlainLane which has just taken something; gone when something else is served."""
        self._scheduled_at = 0.0
        self._pass = _passes.get(loop) or _passes.setdefault(loop, Pass(loop))
        self._loop = loop
        self._serving_time = serving_time
        self._members: list[Flushable] = []
        self._new: OrderedDict[TurnTaker, None] = OrderedDict()
        self._waiting: OrderedDict[TurnTaker, None] = OrderedDict()
        self._scheduled = False
        self._turns_scheduled = False
        self._in_hooks = False

    def at_end(self, hook: Callable[[], None]) -> Callable[[], None]:
        """Run `hook` at the end of each pass from now on; call what is returned to end that."""
        self._hooks.append(hook)
        return lambda: self._hooks.remove(hook)

    def schedule(self) -> None:
        """Request an end of round; within a hook, another one."""
        if not self._scheduled:
            self._scheduled = True
            self._scheduled_at = perf_counter()
            self._pass.begin()
            self.serves_until = self._pass.began + self._serving_time
            self.answer_bytes = 0
            self._loop.call_soon(self.finish)

    def answered(self, count: int, size: int) -> None:
        """Count answers that were written without waiting; before they are too many, there is a round."""
        self.quick_bytes -= size + count * _QUICK_WORK
        if self.quick_bytes < QUICK_BYTES // 2:
            self.schedule()

    def add(self, member: Flushable) -> None:
        """Flush `member` when the round ends; a member added by a hook is flushed in the same round."""
        self._members.append(member)
        if not self._in_hooks:
            self.schedule()

    def has_read(self, size: int) -> bool:
        """Count bytes of a large read; return True if the rest of what its peer sends must wait for its turn."""
        self.schedule()
        self._pass.read_bytes += size
        return self._pass.read_bytes >= READ_BYTES

    def wait_turn(self, taker: TurnTaker, *, is_new: bool = False) -> None:
        """Have `taker` take its turn in a later round, after those that wait already; once, if it waits already.

        One that is new, and was not cut off a moment ago, comes before those that were served and want more.
        """
        if taker in self._new or taker in self._waiting:
            return  # it comes by itself, and must not count as one that was served
        if is_new and self.serves_until - taker.cut_off_at > _WANTS_MUCH:
            self._new[taker] = None
        else:
            if not is_new:
                taker.cut_off_at = self.serves_until
            self._waiting[taker] = None
        self._schedule_turns()

    def _schedule_turns(self) -> None:
        if not self._turns_scheduled:
            self._turns_scheduled = True
            self._loop.call_soon(self._give_turns)

    def finish(self) -> None:
        """End the round now."""
        Serving.peer = ""
        self.take_read = None
        self._scheduled = False
        self.quick_bytes = QUICK_BYTES
        self.began = self._scheduled_at  # a hook may ask for the next round
        self._run_hooks()
        members, self._members = self._members, []
        for member in members:
            try:
                member.flush()
            except Exception:
                logger.exception("could not write the answers of a round")

    def _give_turns(self) -> None:
        """Begin a round with those that wait for their turn."""
        self.schedule()
        round_ends, turns_end = self.serves_until, self._pass.began + self._serving_time / 2
        for _ in range(len(self._new) + len(self._waiting)):
            taker, _ = (self._new or self._waiting).popitem(last=False)
            self.serves_until = min(perf_counter() + TURN_TIME, turns_end)
            try:
                taker.take_turn()
            except Exception:
                logger.exception("could not serve a connection in its turn")
            if perf_counter() >= turns_end or self.answer_bytes > ANSWER_BYTES:
                break
        self.serves_until = round_ends
        self._turns_scheduled = False
        if self._new or self._waiting:
            self._schedule_turns()

    def _run_hooks(self) -> None:
        self._in_hooks = True
        for hook in tuple(self._hooks):
            try:
                hook()
            except Exception:
                logger.exception("a hook at the end of the round failed")
        self._in_hooks = False
