"""A process that sends and consumes numbered messages at a pace.

    python -m tests.faults.soak.load NAMESRV SECONDS RATE

With a rate of 0 it sends as fast as it can. At the end it prints one line of JSON.
"""

from __future__ import annotations

import asyncio
import json
import logging
import struct
import sys
import time

from msgspec import Struct, field, structs

from pyromq import Message, MessageExt, Producer, PushConsumer, PyroMQError

TOPIC = "soak"
IN_FLIGHT = 64
TICK = 0.02
DRAINED_WITHIN = 90
_NUMBER = struct.Struct(">QQ")
_ACKNOWLEDGED, _SEEN = 1, 2


class Counts(Struct):
    """What became of the messages."""

    sent: int = 0
    failed: int = 0
    repeated: int = 0
    missing: int = 0
    invented: int = 0
    seconds: float = 0.0
    errors: list[str] = field(default_factory=list)


class Load:
    """One run; `ledger` has a byte for each number."""

    def __init__(self, namesrv: str, rate: float) -> None:
        self._namesrv = namesrv
        self._rate = rate
        self._run = time.monotonic_ns()
        self._ledger = bytearray()
        self.counts = Counts()

    async def run(self, seconds: float) -> Counts:
        """Send for so long, wait until all is consumed, and count."""
        listening = PushConsumer(
            "soak", self._namesrv, {TOPIC: "*"}, self._listen, concurrency=IN_FLIGHT, start_from="earliest"
        )
        async with Producer(group="soak", namesrv=self._namesrv, send_timeout=5.0, retries=5) as producer, listening:
            began = time.monotonic()
            limit = asyncio.Semaphore(IN_FLIGHT)
            sends: set[asyncio.Task[None]] = set()
            while time.monotonic() - began < seconds:
                await self._wait_for_pace(began)
                await limit.acquire()
                task = asyncio.ensure_future(self._send(producer, limit))
                sends.add(task)
                task.add_done_callback(sends.discard)
            self.counts.seconds = round(time.monotonic() - began, 1)
            await asyncio.gather(*sends)
            await self._drain()
        self.counts.missing = self._ledger.count(_ACKNOWLEDGED)
        return self.counts

    async def _wait_for_pace(self, began: float) -> None:
        if self._rate and len(self._ledger) > (time.monotonic() - began) * self._rate:
            await asyncio.sleep(TICK)

    async def _send(self, producer: Producer, limit: asyncio.Semaphore) -> None:
        number = len(self._ledger)
        self._ledger.append(0)
        try:
            await producer.send(Message(topic=TOPIC, body=_NUMBER.pack(self._run, number) + bytes(184)))
        except PyroMQError as error:
            self.counts.failed += 1
            if len(self.counts.errors) < 5:
                self.counts.errors.append(str(error)[:200])
        else:
            self.counts.sent += 1
            self._ledger[number] |= _ACKNOWLEDGED
        finally:
            limit.release()

    async def _listen(self, message: MessageExt) -> None:
        run, number = _NUMBER.unpack_from(message.body)
        if run != self._run:
            return  # of a load before this one
        if number >= len(self._ledger):
            self.counts.invented += 1
        else:
            self.counts.repeated += bool(self._ledger[number] & _SEEN)
            self._ledger[number] |= _SEEN

    async def _drain(self) -> None:
        for _ in range(2 * DRAINED_WITHIN):
            if not self._ledger.count(_ACKNOWLEDGED):
                return
            await asyncio.sleep(0.5)


def main() -> None:
    """Run the load that the command line says."""
    namesrv, seconds, rate = sys.argv[1:]
    logging.basicConfig(level=logging.ERROR)
    counts = asyncio.run(Load(namesrv, float(rate)).run(float(seconds)))
    print(json.dumps(structs.asdict(counts)), flush=True)


if __name__ == "__main__":
    main()
