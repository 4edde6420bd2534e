"""A slave that does just what a test wants: it connects, reports, and keeps what it is sent."""

from __future__ import annotations

import asyncio

from pyromq.broker.server import Broker
from pyromq.protocol.ha import Transfer, TransferDecoder, encode_report
from pyromq.testing import eventually


class FakeSlave:
    """A connection to a broker's replication port."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.transfers: list[Transfer] = []
        self.is_cut_off = False
        self._decoder = TransferDecoder()
        self._writer = writer
        self._task = asyncio.create_task(self._read(reader))

    @classmethod
    async def connect(cls, broker: Broker) -> FakeSlave:
        return cls(*await asyncio.open_connection("127.0.0.1", broker._ha.port))

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            while data := await reader.read(1 << 20):
                self.transfers += self._decoder.feed(data)
        except ConnectionError:
            pass
        self.is_cut_off = True

    def report(self, offset: int) -> None:
        self._writer.write(encode_report(offset))

    def send(self, data: bytes) -> None:
        self._writer.write(data)

    @property
    def received(self) -> bytes:
        return b"".join(transfer.body for transfer in self.transfers)

    async def has(self, count: int) -> None:
        """Wait until so many bytes of the log have arrived."""
        await eventually(lambda: len(self.received) >= count)

    async def cut_off(self) -> None:
        """Wait until the master has ended the connection."""
        await eventually(lambda: self.is_cut_off)

    async def close(self) -> None:
        self._writer.close()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
