"""One client at work, in a process of its own: prints the rate and its CPU time per message as one JSON line.

    python bench/peers/client_load.py NAMESRV send|linger|linger-soon|soon|push|push32 [--seconds 2] [--size 1024] …

`send` is the async producer on one connection with 256 sends in flight, `linger` the same with batches and 2,048 in
flight (`--in-flight` for others), each message with a coroutine that waits for it. `linger-soon` is `send_soon` of that
producer, from one task that looks at each result later. `soon` is `send_soon` with batches from a thread. `push`
consumes what the topic has, from its beginning, one message a call and CRC checked; `push32` up to 32. `clients.py`
runs it for variants in turn.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
import uuid
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from pyromq import Message, MessageExt, Producer, PushConsumer, SendStatus, blocking
from pyromq.remoting.loop import run

if TYPE_CHECKING:
    from pyromq import PendingResult  # what an older checkout does not have

LINGER = 0.002


class Meter:
    """Counts messages between two moments."""

    def __init__(self) -> None:
        self.count = 0
        self.begin()

    def begin(self) -> None:
        """Begin anew."""
        self.count = 0
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def figures(self) -> dict[str, float]:
        """Return messages a second and CPU microseconds per message since the beginning."""
        wall, cpu = time.perf_counter() - self._wall, time.process_time() - self._cpu
        return {"messages": self.count, "rate": self.count / wall, "cpu_us": cpu / max(self.count, 1) * 1e6}


async def send(options: argparse.Namespace, in_flight: int, linger: float | None) -> dict[str, float]:
    """Send from so many coroutines, each of which waits for its result."""
    body, meter = b"x" * options.size, Meter()

    async def keep_sending(producer: Producer, until: float) -> None:
        while time.perf_counter() < until:
            await producer.send(Message(topic=options.topic, body=body, tags="bench", keys=options.keys))
            meter.count += 1

    async with Producer("bench", options.namesrv, max_in_flight=in_flight, linger=linger) as producer:
        for seconds in (0.5, options.seconds):  # the first to warm up
            meter.begin()
            until = time.perf_counter() + seconds
            await asyncio.gather(*[keep_sending(producer, until) for _ in range(in_flight)])
    return meter.figures()


async def linger_soon(options: argparse.Namespace, in_flight: int) -> dict[str, float]:
    """Send from one task, as one thread does with Kafka's producer and a callback: each result is looked at."""
    body, meter = b"x" * options.size, Meter()
    async with Producer("bench", options.namesrv, max_in_flight=in_flight, linger=LINGER) as producer:
        for seconds in (0.5, options.seconds):
            meter.begin()
            until = time.perf_counter() + seconds
            before: list[PendingResult] = []
            while time.perf_counter() < until:
                sent: list[PendingResult] = []
                while len(sent) < 2 * in_flight and time.perf_counter() < until:
                    message = Message(topic=options.topic, body=body, tags="bench", keys=options.keys)
                    sent.append(await producer.send_soon(message))
                await look_at(before, meter)
                before = sent
            await producer.flush()
            await look_at(before, meter)
    return meter.figures()


async def look_at(sent: Iterable[PendingResult], meter: Meter) -> None:
    """Count the messages that were stored; raises if one was not."""
    for pending in sent:
        result = pending.result() if pending.done() else await pending
        if result.status is SendStatus.SEND_OK:
            meter.count += 1


def send_soon(options: argparse.Namespace) -> dict[str, float]:
    """Send from one thread, which looks at no result."""
    body, meter = b"x" * options.size, Meter()
    with blocking.Producer("bench", options.namesrv, linger=LINGER) as producer:
        for seconds in (0.5, options.seconds):
            meter.begin()
            until = time.perf_counter() + seconds
            while time.perf_counter() < until:
                producer.send_soon(Message(topic=options.topic, body=body, tags="bench", keys=options.keys))
                meter.count += 1
            producer.flush()
    return meter.figures()


async def push(options: argparse.Namespace, batch_size: int) -> dict[str, float]:
    """Consume a backlog; the first tenth warms up."""
    done, meter, begun = asyncio.Event(), Meter(), False
    first, last = options.messages // 10, options.messages

    def count(messages: int) -> None:
        nonlocal begun
        meter.count += messages
        if not begun and meter.count >= first:
            begun = True
            meter.begin()
        if begun and meter.count >= last - first:
            done.set()

    async def one(message: MessageExt) -> None:
        count(1)

    async def many(messages: list[MessageExt]) -> None:
        count(len(messages))

    listener: Callable[..., object] = one if batch_size == 1 else many
    async with PushConsumer(
        f"bench-{uuid.uuid4().hex}",
        options.namesrv,
        {options.topic: "*"},
        listener,
        start_from="earliest",
        batch_size=batch_size,
    ):
        await done.wait()
        return meter.figures()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("namesrv")
    parser.add_argument("work", choices=["send", "linger", "linger-soon", "soon", "push", "push32"])
    parser.add_argument("--topic", default="bench-client")
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--in-flight", type=int, default=0, help="sends at a time, for send and linger")
    parser.add_argument("--keys", nargs="*", default=(), help="of each message")
    parser.add_argument("--messages", type=int, default=100_000, help="that the topic has, for push")
    options = parser.parse_args()
    if options.work == "linger-soon":
        figures = run(linger_soon(options, options.in_flight or 2048))
    elif options.work == "soon":
        figures = send_soon(options)
    elif options.work in ("push", "push32"):
        figures = run(push(options, 1 if options.work == "push" else 32))
    else:
        in_flight, linger = (256, None) if options.work == "send" else (2048, LINGER)
        figures = run(send(options, options.in_flight or in_flight, linger))
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
