"""SlaveLink: one connection at the replication port. It sends the log and believes only reports that can be true.

Apache's slaves send bare reports; our own introduce themselves first. A report is true if it lies within what the slave
was sent. At the first one that does not the connection ends, and nothing of it counts: neither a scanner nor a liar
changes what other slaves have confirmed. What is near the log's end is sent at the end of each round, straight from the
map. A slave that is far behind is served from the disk, by a thread and, if wished, at a stated pace.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable
from concurrent.futures import Executor
from typing import Final, Protocol, cast

from msgspec import Struct

from pyromq.access.address_patterns import any_matcher
from pyromq.broker.replication.introductions import (
    Confirmed,
    Hello,
    Proof,
    Welcome,
    decode_slave_note,
    encode,
    is_proven,
)
from pyromq.clock import Clock
from pyromq.errors import RemoteProtocolError, StoreError
from pyromq.protocol.ha import ReportDecoder, encode_transfer
from pyromq.remoting.round import about
from pyromq.store.read.copied_log import CopiedLog

logger = logging.getLogger(__name__)

_NEAR: Final = 8 << 20
"""Bytes behind the log's end that are sent at once: they are in memory."""
_BLOCK: Final = 256 << 10
"""What our own slaves get in one piece while they catch up."""
_IN_FLIGHT: Final = 1 << 20
"""Bytes that wait in the socket; then the slave's reading sets the pace."""


_NO_PROOF: Final = (
    "with aclEnable=true a slave needs haSecret on both sides, a TLS certificate, or its address in pyromqHaAllow"
)


class LinkRules(Struct, frozen=True, kw_only=True):
    """What a master asks of its slaves, and gives them."""

    name: str
    """The broker's name; a slave has the same."""
    batch_size: int = 32 * 1024
    """The most bytes in one transfer to Apache's slaves (`haTransferBatchSize`)."""
    heartbeat: float = 5.0
    """After which time without a transfer a heartbeat is sent (`haSendHeartbeatInterval`)."""
    patience: float = 20.0
    """After which time without a report the connection ends (`haHousekeepingInterval`)."""
    secret: str = ""
    """What our own slaves have to know (`haSecret`); others get nothing then."""
    needs_proof: bool = False
    """Whether a slave gets nothing even where no secret is set (`aclEnable`)."""
    allowed: tuple[str, ...] = ()
    """Addresses of slaves that need to know no secret (`pyromqHaAllow`)."""
    catch_up_rate: int = 0
    """Bytes that a slave far behind gets in a second (`pyromqHaCatchUpBytes`); 0: as many as it takes."""

    def is_open_to(self, host: str) -> bool:
        """Return True if slaves at an address need not know the secret."""
        return not (self.secret or self.needs_proof) or any_matcher(list(self.allowed))(host)


class Pace:
    """How fast a slave that is far behind gets the log.

    It gets twice what is written meanwhile and some bytes a second on top: so it does catch up, however much is
    written, and leaves room on a narrow network.
    """

    def __init__(self, rate: int, now: float, end: int) -> None:
        """Begin at `now`, where the log ends at `end`; a `rate` of 0 is no limit."""
        self._rate = rate
        self._began = now
        self._end = end
        self._sent = 0

    def pause(self, size: int, now: float, end: int) -> float:
        """Return how long to wait once `size` bytes more were sent; the first second's worth is free."""
        self._sent += size
        if not self._rate:
            return 0.0
        due = self._began - 1.0 + (self._sent - 2 * (end - self._end)) / self._rate
        return max(due - now, 0.0)


class LinkOwner(Protocol):
    """Whom a link tells; the HaServer."""

    @property
    def epoch_id(self) -> str:
        """The epoch in which this broker is master; empty while it is none."""

    def joined(self, link: SlaveLink) -> None: ...

    def started(self, link: SlaveLink) -> None:
        """Hear of a slave that is accepted, before it is sent anything."""

    def reported(self, link: SlaveLink) -> None: ...

    def left(self, link: SlaveLink) -> None: ...

    def may_continue(self, link: SlaveLink, report: int) -> Awaitable[str]:
        """Return why a slave that introduces itself not may not be sent what follows its report; empty if it may."""


class SlaveLink(asyncio.Protocol):
    """A slave, from its connection to its end."""

    def __init__(self, log: CopiedLog, rules: LinkRules, owner: LinkOwner, executor: Executor, clock: Clock) -> None:
        self.hello: Hello | None = None
        """Who it is; None if it did not say, as Apache's."""
        self.peer = ""
        self.position: int | None = None
        """Where the next transfer begins; None before the first report."""
        self.acknowledged = 0
        """Up to where the slave has the log."""
        self.has_caught_up = False
        """Whether it has had the whole log once."""
        self._log = log
        self._rules = rules
        self._owner = owner
        self._executor = executor
        self._clock = clock
        self._decoder = ReportDecoder()
        self._told_end = -1
        self._challenge = ""
        self._has_certificate = False
        self._claimed: Hello | None = None
        self._transport: asyncio.Transport | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._task: asyncio.Task[None] | None = None
        self._heard = self._wrote = clock.monotonic()

    def __str__(self) -> str:
        return f"{self.hello.name}/{self.hello.broker_id} at {self.peer}" if self.hello else self.peer

    # --- called by the loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=_IN_FLIGHT)
        peer = transport.get_extra_info("peername")
        self.peer = f"{peer[0]}:{peer[1]}" if peer else "unknown"
        self._has_certificate = bool(transport.get_extra_info("peercert"))  # only one that was checked is there
        self._owner.joined(self)
        if not self._owner.epoch_id:
            self.close()

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._writable.set()
        if self._task is not None:
            self._task.cancel()
        self._owner.left(self)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()
        self.pump()

    def data_received(self, data: bytes) -> None:
        try:
            for found in self._decoder.feed(data):
                if isinstance(found, bytes):
                    self._introduce(found)
                else:
                    self._report(found)
        except RemoteProtocolError as error:
            self.refuse(str(error))

    # --- introductions

    def _introduce(self, data: bytes) -> None:
        note = decode_slave_note(data)
        if self.position is not None or self.hello is not None:
            raise RemoteProtocolError("a slave introduces itself twice")
        if isinstance(note, Proof):
            self._check_proof(note)
        elif self._is_open:
            self._accept(note)
        elif self._rules.secret:
            self._claimed, self._challenge = note, secrets.token_hex(16)
            self._write(encode(Welcome(challenge=self._challenge)))
        else:
            self._turn_away(_NO_PROOF)

    @property
    def _is_open(self) -> bool:
        return self._has_certificate or self._rules.is_open_to(self.peer.rpartition(":")[0].strip("[]"))

    def _check_proof(self, given: Proof) -> None:
        claimed, self._claimed = self._claimed, None
        if claimed is None or not is_proven(given, self._rules.secret, self._challenge, claimed):
            self._turn_away("it does not know haSecret")
        else:
            self._accept(claimed)

    def _accept(self, hello: Hello) -> None:
        if hello.name != self._rules.name:
            self._turn_away(f"it belongs to broker {hello.name}, this is {self._rules.name}")
        elif hello.file_size != self._log.file_size:
            self._turn_away(
                f"mappedFileSizeCommitLog is {hello.file_size} there and {self._log.file_size} here:"
                " it must be the same"
            )
        elif hello.epoch != self._owner.epoch_id:
            self._turn_away("another epoch has begun")
        else:
            self.hello = hello
            self._write(encode(Welcome()))

    def _turn_away(self, reason: str) -> None:
        self._write(encode(Welcome(refusal=reason)))
        self.refuse(reason)

    # --- reports

    def _report(self, report: int) -> None:
        self._heard = self._clock.monotonic()
        if self.position is None:
            if self._task is None:
                self._begin(report)
            return
        if not self.acknowledged <= report <= self.position:
            raise RemoteProtocolError(f"a slave reports {report}, but it was sent what ends at {self.position}")
        self.acknowledged = report
        self._note_caught_up()
        self._owner.reported(self)
        self.pump()

    def _begin(self, report: int) -> None:
        if self.hello is None and not self._is_open:
            raise RemoteProtocolError(_NO_PROOF if not self._rules.secret else "a slave without haSecret wants the log")
        first, end = self._log.start, self._log.end
        if report and not first <= report <= end:
            raise RemoteProtocolError(f"a slave reports {report}, but the log here is from {first} to {end}")
        if report and self.hello is None:
            self._task = asyncio.get_running_loop().create_task(self._ask(report))
        else:
            self._start(report)

    async def _ask(self, report: int) -> None:
        problem = await self._owner.may_continue(self, report)
        self._task = None
        if problem:
            self.refuse(problem)
        else:
            self._start(report)

    def _start(self, report: int) -> None:
        self.position = report or self._log.start  # an empty slave gets the whole log
        self.acknowledged = report
        logger.info("a slave follows slave=%s from=%d", self, self.position, extra=about(self.peer))
        self._owner.started(self)
        self._write(encode_transfer(self.position))
        self._note_caught_up()
        self._owner.reported(self)
        self.pump()

    def _note_caught_up(self) -> None:
        self.has_caught_up = self.has_caught_up or self.acknowledged >= self._log.end

    # --- sending

    def pump(self) -> None:
        """Send what the slave does not have yet, as far as it is near the end and the socket takes it."""
        if self.position is None or not self._writable.is_set() or self._transport is None or self._task is not None:
            return
        end = self._log.end
        if end - self.position > _NEAR:
            self._task = asyncio.get_running_loop().create_task(self._catch_up())
            return
        while self.position < end and self._writable.is_set() and self._transport is not None:
            self._send(self._log.read(self.position, min(self._piece, end - self.position)))

    def tell(self, visible_end: int) -> None:
        """Say up to where messages may be seen, if that has changed; only our own slaves understand it."""
        if self.hello is not None and self.position is not None and visible_end != self._told_end:
            self._told_end = visible_end
            self._write(encode(Confirmed(visible_end)))

    @property
    def _piece(self) -> int:
        return self._rules.batch_size if self.hello is None else _BLOCK

    async def _catch_up(self) -> None:
        loop = asyncio.get_running_loop()
        reader = self._log.reader()
        pace = Pace(self._rules.catch_up_rate, self._clock.monotonic(), self._log.end)
        try:
            while self.position is not None and self._log.end - self.position > _NEAR // 2:
                block = await loop.run_in_executor(self._executor, reader.read, self.position, _BLOCK)
                for start in range(0, len(block), self._piece):
                    self._send(block[start : start + self._piece])
                await self._writable.wait()
                pause = pace.pause(len(block), self._clock.monotonic(), self._log.end)
                if pause:
                    await self._clock.sleep(pause)
        except StoreError as error:
            self.refuse(str(error))
        finally:
            self._task = None
            self._executor.submit(reader.close)
        self.pump()

    def _send(self, data: bytes) -> None:
        if not data:
            self.refuse(f"the log from {self.position} on is gone")
        elif self.position is not None:
            self._write(encode_transfer(self.position, data))
            self.position += len(data)

    def _write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)
            self._wrote = self._clock.monotonic()

    # --- time, and the end

    def tick(self) -> None:
        """Send a heartbeat if one is due; end a connection that is silent for too long."""
        now = self._clock.monotonic()
        if now - self._heard > self._rules.patience:
            self.refuse(f"no report for {self._rules.patience:g} s")
        elif self.position is not None and now - self._wrote > self._rules.heartbeat:
            self._write(encode_transfer(self.position))

    def refuse(self, reason: str) -> None:
        """End the connection because of what the slave did."""
        if self._transport is not None:
            logger.warning(
                "cut off a connection at the replication port slave=%s: %s", self, reason, extra=about(self.peer)
            )
            self.close()

    def close(self) -> None:
        """End the connection; what was written still leaves."""
        if self._transport is not None:
            self._transport.close()
