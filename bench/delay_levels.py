"""Measures how late delayed messages are: each second as many are due as are sent, and ten times as many wait.

    python bench/delay_levels.py [--rate 1000] [--seconds 10] [--level 3] [--sync]

Broker and producer share a process, so the figures are those of a busy broker. Lateness is the time from when a message
was due until it was stored in its own topic. Prints one JSON line.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time

from pyromq import Message, Producer
from pyromq.broker.config.broker_config import broker_config
from pyromq.broker.server import Broker
from pyromq.clock import SystemClock
from pyromq.namesrv.server import NameServer
from pyromq.protocol.messages.message import MessageExt
from pyromq.protocol.messages.record import decode_messages
from pyromq.protocol.names import SCHEDULE_TOPIC
from pyromq.remoting.loop import run
from pyromq.store.message_store import MessageStore

TOPIC = "pyromq-bench"


async def measure(options: argparse.Namespace) -> dict[str, float]:
    """Send for some seconds, wait for all deliveries, and return how late they were."""
    clock = SystemClock()
    with tempfile.TemporaryDirectory(prefix="pyromq-bench-") as directory:
        async with NameServer(host="127.0.0.1", port=0, clock=clock, data_dir=None) as names:
            settings = {"storePathRootDir": directory, "listenPort": "0", "namesrvAddr": names.address}
            if options.sync:
                settings["flushDiskType"] = "SYNC_FLUSH"
            async with Broker(broker_config(settings), clock) as broker:
                return await _measure(options, broker, names.address)


async def _measure(options: argparse.Namespace, broker: Broker, namesrv: str) -> dict[str, float]:
    cpu = time.process_time()
    async with Producer("bench", namesrv) as producer:
        most = await _send(options, broker, producer)
    while broker.http_info()["delayed_messages_waiting"]:  # noqa: ASYNC110 (polling is enough)
        await asyncio.sleep(0.05)
    cpu = time.process_time() - cpu
    late = sorted(lateness(broker.store, options.level, broker.config.store.delay_levels_ms[options.level - 1]))
    return {
        "messages": len(late), "most_waiting": most, "cpu_us_each": round(cpu / len(late) * 1e6),
        "p50_ms": late[len(late) // 2], "p99_ms": late[len(late) * 99 // 100], "max_ms": late[-1], "min_ms": late[0],
    }  # fmt: skip


async def _send(options: argparse.Namespace, broker: Broker, producer: Producer) -> int:
    message = Message(topic=TOPIC, body=b"x" * 1024)
    most = 0
    began = time.perf_counter()
    for number in range(int(options.rate * options.seconds)):
        await asyncio.sleep(max(0.0, began + number / options.rate - time.perf_counter()))
        await producer.send(message, level=options.level)
        if number % 100 == 0:
            most = max(most, broker.http_info()["delayed_messages_waiting"])
    return most


def lateness(store: MessageStore, level: int, delay_ms: int) -> list[int]:
    """Return the lateness of each message in milliseconds."""
    scheduled = {message.message_id: message.store_timestamp_ms for message in _read(store, SCHEDULE_TOPIC, level - 1)}
    delivered = [message for queue_id in store.queue_ids(TOPIC) for message in _read(store, TOPIC, queue_id)]
    assert len(delivered) == len(scheduled), f"{len(scheduled)} scheduled, {len(delivered)} delivered"
    return [message.store_timestamp_ms - scheduled[message.message_id] - delay_ms for message in delivered]


def _read(store: MessageStore, topic: str, queue_id: int) -> list[MessageExt]:
    found: list[MessageExt] = []
    while views := store.get(topic, queue_id, len(found), 1000, max_bytes=1 << 20).views:
        found += decode_messages(b"".join(views))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=float, default=1000)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--level", type=int, default=3)
    parser.add_argument("--sync", action="store_true")
    print(json.dumps(run(measure(parser.parse_args()))))


if __name__ == "__main__":
    main()
