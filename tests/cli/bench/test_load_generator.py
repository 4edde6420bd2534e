"""At a fixed rate, a request counts from when it is due, whatever keeps it waiting."""

from __future__ import annotations

import asyncio
import struct

from pyromq.cli.bench.load_generator import LoadCounts, drive, slot_groups
from pyromq.cli.bench.load_slots import SendSlot
from pyromq.protocol.command import FrameDecoder, decode, response

HELD = 0.2


class SlowServer(asyncio.Protocol):
    """Answers every request, the first one only after `HELD` seconds."""

    def __init__(self) -> None:
        self._frames = FrameDecoder()
        self._answered = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        for frame in self._frames.feed(data):
            answer = response(decode(frame)).encode()
            asyncio.get_running_loop().call_later(0 if self._answered else HELD, self._transport.write, answer)
            self._answered += 1


async def test_requests_that_wait_for_a_free_slot_count_from_when_they_were_due() -> None:
    counts, left = LoadCounts(), 10

    def budget() -> bool:
        nonlocal left
        left -= 1
        return left >= 0

    server = await asyncio.get_running_loop().create_server(SlowServer, "127.0.0.1", 0)
    async with server:
        address = server.sockets[0].getsockname()[:2]
        slots = slot_groups(1, 1, lambda number: SendSlot(number, "t", 0, b"x", "0" * 16, "g", ""))
        await drive([address], slots, counts, budget, rate=10_000)
    assert counts.messages == 10
    assert (counts.errors, counts.lost) == (0, 0)
    assert min(counts.latencies_us) > HELD * 1e6 / 2, "all of them were due within a millisecond"


async def test_a_server_that_leaves_ends_the_run() -> None:
    class Leaving(SlowServer):
        def data_received(self, data: bytes) -> None:
            assert struct.calcsize(">i") <= len(data)
            self._transport.abort()

    counts = LoadCounts()
    server = await asyncio.get_running_loop().create_server(Leaving, "127.0.0.1", 0)
    async with server:
        address = server.sockets[0].getsockname()[:2]
        slots = slot_groups(1, 4, lambda number: SendSlot(number, "t", 0, b"x", "0" * 16, "g", ""))
        await drive([address], slots, counts, lambda: True, rate=10_000)
    assert counts.messages == 0
    assert counts.lost >= 1
