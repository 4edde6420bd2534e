"""The load generator of `bench send` and `bench consume`: raw frames and callbacks.

A connection has a number of slots, each with one request in flight. An answer frees its slot, which sends its next
request at once: a closed loop. With a rate, requests are due at fixed times instead. One that finds no free slot waits
for it, and its time counts from when it was due, so a broker that stands still cannot hide behind fewer requests. All
answers of one read are handled before one write.
"""

from __future__ import annotations

import array
import asyncio
import secrets
import struct
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import cast

import msgspec

from pyromq.cli.bench.load_slots import FIRST_OPAQUE, AnswerHeader, Slot
from pyromq.remoting.tls.client_tls import environment_tls

_LENGTH = struct.Struct(">i")
_LENGTHS = struct.Struct(">iI")
_LONGEST_US = 2**32 - 1
_TICK = 0.001  # seconds between two looks for requests that are due

_decode = msgspec.json.Decoder(AnswerHeader).decode


class LoadCounts:
    """Totals of all connections: messages, bytes of answers, errors, latencies in microseconds."""

    def __init__(self) -> None:
        self.errors = 0
        self.lost = 0
        self.first_error = ""
        self.start_counting()

    def start_counting(self) -> None:
        """Reset the messages of the warm-up, but not its errors."""
        self.messages = 0
        self.answer_bytes = 0
        self.latencies_us = array.array("I")


class LoadConnection(asyncio.Protocol):
    """One connection with its slots."""

    def __init__(
        self, slots: Sequence[Slot], counts: LoadCounts, budget: Callable[[], bool], interval: float = 0.0
    ) -> None:
        """Keep all slots busy or, with an interval in seconds, send at that pace."""
        self._slots = slots
        self._counts = counts
        self._budget = budget
        self._interval_ns = int(interval * 1e9)
        self._free = list(range(len(slots))) if interval else []
        self._due: deque[int] = deque()
        self._sent_at = [0] * len(slots)
        self._outstanding = 0
        self._rest = b""
        self._is_over = not interval  # a closed loop is over when nothing is in flight
        self.finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transport does not inherit from it
        if self._interval_ns:
            self._next_due = time.perf_counter_ns() + secrets.randbelow(self._interval_ns)  # not all at once
            self._pace()
            return
        now = time.perf_counter_ns()
        self._write([self._frame(index, now) for index in range(len(self._slots)) if self._budget()])

    def _pace(self) -> None:
        """Send what is due by now."""
        if self.finished.done():
            return
        now, is_over = time.perf_counter_ns(), False
        while self._next_due <= now and not is_over:
            is_over = not self._budget()
            if not is_over:
                self._due.append(self._next_due)
                self._next_due += self._interval_ns
        if not is_over:
            asyncio.get_running_loop().call_later(_TICK, self._pace)
        self._is_over = is_over
        self._write(self._due_frames())

    def _due_frames(self) -> list[bytes]:
        count = min(len(self._due), len(self._free))
        return [self._frame(self._free.pop(), self._due.popleft()) for _ in range(count)]

    def data_received(self, data: bytes) -> None:
        now, start = time.perf_counter_ns(), 0
        data = self._rest + data if self._rest else data
        requests: list[bytes] = []
        while len(data) - start >= 8:
            end = start + 4 + _LENGTH.unpack_from(data, start)[0]
            if end > len(data):
                break
            body_start = start + 8 + (_LENGTHS.unpack_from(data, start)[1] & 0xFFFFFF)
            self._accept(_decode(data[start + 8 : body_start]), data[body_start:end], now, requests)
            start = end
        self._rest = data[start:]
        self._write(requests + self._due_frames() if self._interval_ns else requests)

    def _accept(self, answer: AnswerHeader, body: bytes, now: int, requests: list[bytes]) -> None:
        index = answer.opaque - FIRST_OPAQUE
        self._outstanding -= 1
        try:
            self._counts.messages += self._slots[index].accept(answer, body)
            self._counts.answer_bytes += len(body)
            self._counts.latencies_us.append(min((now - self._sent_at[index]) // 1000, _LONGEST_US))
        except ValueError as error:
            self._counts.errors += 1
            self._counts.first_error = self._counts.first_error or str(error)
        if self._interval_ns:
            self._free.append(index)
        elif self._budget():
            requests.append(self._frame(index, time.perf_counter_ns()))

    def _frame(self, index: int, counts_from: int) -> bytes:
        self._outstanding += 1
        self._sent_at[index] = counts_from
        return self._slots[index].next_request()

    def _write(self, requests: list[bytes]) -> None:
        if requests:
            self._transport.write(b"".join(requests))
        elif not self._outstanding and self._is_over and not self.finished.done():
            self.finished.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        self._counts.lost += self._outstanding
        if not self.finished.done():
            self.finished.set_result(None)

    def close(self) -> None:
        self._transport.close()


def slot_groups(connections: int, in_flight: int, make: Callable[[int], Slot]) -> Sequence[Sequence[Slot]]:
    """Make the slots of every connection. `make` gets a number over all connections."""
    groups = []
    for connection in range(connections):
        group = []
        for index in range(in_flight):
            slot = make(connection * in_flight + index)
            slot.renumber(index)
            group.append(slot)
        groups.append(group)
    return groups


async def drive(
    addresses: Sequence[tuple[str, int]],
    slots: Sequence[Sequence[Slot]],
    counts: LoadCounts,
    budget: Callable[[], bool],
    rate: float = 0.0,
) -> None:
    """Open a connection for each group of slots, to the addresses in turn, and run until the budget is spent.

    With a `rate`, all connections together send so many requests a second.
    """
    loop = asyncio.get_running_loop()
    tls = environment_tls()
    context = None if tls is None else tls.context()
    opened: list[LoadConnection] = []
    try:
        for number, own in enumerate(slots):
            host, port = addresses[number % len(addresses)]
            make = partial(LoadConnection, own, counts, budget, len(slots) / rate if rate else 0.0)
            _, connection = await loop.create_connection(make, host, port, ssl=context)
            opened.append(connection)
        await asyncio.gather(*(connection.finished for connection in opened))
    finally:
        for connection in opened:
            connection.close()
