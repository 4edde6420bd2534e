"""Measures how late delayed messages are, and what millions of waiting ones cost a broker.

    python bench/delays.py late [--rate 1000] [--seconds 20] [--waiting 10000]
    python bench/delays.py waiting [--messages 1000000] [--sent]

`late`: messages become due at a constant rate while others wait, once with a free delay and once with a delay level.
Lateness is the time from when a message was due until it was stored in its own topic.

`waiting`: messages wait for up to 40 days. With --sent they are sent to a running broker, and its memory is measured
before and after. Without it they are written into the broker's directory first, so that the broker has to build its
table. Then a restart is timed, after a stop and after a kill. The broker is a separate process, and every line is JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyromq import Message, Producer
from pyromq.admin import AdminClient
from pyromq.broker.delay.timer.timer_records import let_wait
from pyromq.client.send_result import SendResult
from pyromq.protocol.messages.message import MessageExt
from pyromq.protocol.messages.record import Record, decode_messages, encode_host
from pyromq.protocol.names import SCHEDULE_TOPIC
from pyromq.remoting.loop import run
from pyromq.store.config import StoreConfig
from pyromq.store.message_store import MessageStore
from pyromq.store.read.reader import StoreReader

TOPIC = "pyromq-bench"
LEVEL, LEVEL_SECONDS = 2, 5
LONGEST = 40 * 24 * 3600 - 3600
PORTS = ["--namesrv-port", "0", "--port", "0", "--console-port", "0"]
BODY = b"x" * 1024


class Server:
    """`pyromq up` in a process session of its own."""

    def __init__(self, data: Path) -> None:
        began = time.perf_counter()
        command = [sys.executable, "-m", "pyromq.cli.main", "up", "--data", str(data), *PORTS]
        with (data / "server.log").open("a") as log:
            self.process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True
            )
        assert self.process.stdout is not None
        found = re.search(r"namesrv (\S+)", self.process.stdout.readline())
        self.seconds = time.perf_counter() - began
        if found is None:
            raise SystemExit((data / "server.log").read_text()[-3000:])
        self.namesrv = found[1]

    def memory_mb(self) -> float:
        """Return the private memory of the process, without maps of the log, which are page cache."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.findall(r"RssAnon:\s+(\d+)", status)[0]) / 1024

    def end(self, number: int = signal.SIGTERM) -> None:
        """Send a signal and wait until the process has exited."""
        self.process.send_signal(number)
        self.process.wait(120)


def say(**values: Any) -> None:
    print(json.dumps(values), flush=True)


# --- how late


async def late(options: argparse.Namespace, kind: str) -> None:
    """Measure one kind of delay with a separate broker."""
    with tempfile.TemporaryDirectory(prefix="pyromq-bench-") as directory:
        server = Server(Path(directory))
        try:
            async with Producer("bench", server.namesrv) as producer:
                far = {"delay": 3600} if kind == "free" else {"level": 18}
                await _send_many(producer, options.waiting, lambda: far)
                await _send_at_a_rate(producer, options, {"delay": 5.0} if kind == "free" else {"level": LEVEL})
            await asyncio.sleep(LEVEL_SECONDS + 3)
        finally:
            server.end()
        with StoreReader(Path(directory) / "store") as reader:
            found = sorted(_lateness(reader, kind))
    expected = int(options.rate * options.seconds)
    if len(found) != expected:
        raise SystemExit(f"{expected} messages were sent and {len(found)} delivered")
    say(
        kind=kind, messages=len(found), waiting=options.waiting, rate=options.rate, p50_ms=found[len(found) // 2],
        p99_ms=found[len(found) * 99 // 100], max_ms=found[-1], min_ms=found[0],
    )  # fmt: skip


def _lateness(reader: StoreReader, kind: str) -> Iterator[int]:
    delivered = [message for queue_id in reader.queue_ids(TOPIC) for message in _read(reader, TOPIC, queue_id)]
    if kind == "free":
        yield from (message.store_timestamp_ms - int(message.properties["TIMER_OUT_MS"]) for message in delivered)
        return
    stored = {message.message_id: message.store_timestamp_ms for message in _read(reader, SCHEDULE_TOPIC, LEVEL - 1)}
    for message in delivered:
        yield message.store_timestamp_ms - stored[message.message_id] - 1000 * LEVEL_SECONDS


def _read(reader: StoreReader, topic: str, queue_id: int) -> list[MessageExt]:
    found: list[MessageExt] = []
    while views := reader.get(topic, queue_id, len(found), 1000, max_bytes=1 << 20).views:
        found += decode_messages(b"".join(views))
    return found


async def _send_at_a_rate(producer: Producer, options: argparse.Namespace, when: dict[str, Any]) -> None:
    sends: list[asyncio.Task[SendResult]] = []
    began = time.perf_counter()
    for number in range(int(options.rate * options.seconds)):
        await asyncio.sleep(max(0.0, began + number / options.rate - time.perf_counter()))
        sends.append(asyncio.create_task(producer.send(Message(topic=TOPIC, body=BODY), **when)))
    await asyncio.gather(*sends)


async def _send_many(producer: Producer, count: int, when: Any) -> None:
    left = count

    async def send_some() -> None:
        nonlocal left
        while left > 0:
            left -= 1
            await producer.send(Message(topic=TOPIC, body=BODY), **when())

    await asyncio.gather(*[send_some() for _ in range(256)])


# --- how many


async def waiting(options: argparse.Namespace) -> None:
    """Measure memory and restarts while messages wait."""
    with tempfile.TemporaryDirectory(prefix="pyromq-bench-", dir=options.directory) as directory:
        data = Path(directory)
        if not options.sent:
            fill(data / "store", options.messages)
        server = Server(data)
        try:
            server = await _watch(server, data, options)
        finally:
            server.end()


async def _watch(server: Server, data: Path, options: argparse.Namespace) -> Server:
    before = server.memory_mb()
    began = time.perf_counter()
    if options.sent:
        async with Producer("bench", server.namesrv) as producer:
            await _send_many(producer, 20_000, dict)  # undelayed: the store's index takes 30 MB at first use
            await asyncio.sleep(3)
            before = server.memory_mb()
            await _send_many(producer, options.messages, _any_delay)
    await _wait_for(server, options.messages)
    say(
        messages=options.messages, sent=options.sent, seconds=round(time.perf_counter() - began, 1),
        memory_before_mb=round(before, 1), memory_after_mb=round(server.memory_mb(), 1),
        table_mb=round(sum(path.stat().st_size for path in (data / "store" / "pyromq.timer").iterdir()) / 1e6, 1),
    )  # fmt: skip
    for number in (signal.SIGTERM, signal.SIGKILL):
        if number == signal.SIGKILL:
            async with Producer("bench", server.namesrv) as producer:
                await _send_many(producer, 10_000, lambda: {"delay": 3600})
            options.messages += 10_000
        server.end(number)
        server = Server(data)
        ready = server.seconds
        began = time.perf_counter()
        await _wait_for(server, options.messages)
        say(
            restart_after=signal.Signals(number).name, ready_seconds=round(ready, 2),
            timer_ready_seconds=round(ready + time.perf_counter() - began, 2),
            memory_mb=round(server.memory_mb(), 1),
        )  # fmt: skip
    return server


async def _wait_for(server: Server, count: int) -> None:
    """Wait until the broker counts `count` waiting messages and has them in its table."""
    async with AdminClient(server.namesrv) as admin:
        while await admin.timed_messages.count() != count:  # noqa: ASYNC110 (polling is enough)
            await asyncio.sleep(0.1)


def _any_delay() -> dict[str, float]:
    return {"delay": random.uniform(3600, LONGEST)}


def fill(root: Path, count: int) -> None:
    """Write waiting messages into a store's directory, without a broker and its table."""
    host = encode_host("127.0.0.1", 10911)
    now_ms = int(time.time() * 1000)
    with MessageStore(StoreConfig(root=root), lambda: int(time.time() * 1000)) as store:
        for number in range(count):
            record = Record(topic=TOPIC, body=BODY, born_timestamp_ms=now_ms, born_host=host, store_host=host)
            due_ms = now_ms + int(random.uniform(3600, LONGEST) * 1000)
            let_wait(record, {"UNIQ_KEY": f"{number:032X}"}, due_ms, 1 << 30)
            store.put(record)
            if number % 500 == 0:
                store.commit()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["late", "waiting"])
    parser.add_argument("--rate", type=float, default=1000)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--waiting", type=int, default=10_000)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--sent", action="store_true")
    parser.add_argument("--directory", default=None, help="where to put the store: ten million take 14 GB")
    options = parser.parse_args()
    say(cores=os.cpu_count(), load=os.getloadavg()[0])
    if options.what == "waiting":
        run(waiting(options))
    else:
        for kind in ("free", "level"):
            run(late(options, kind))


if __name__ == "__main__":
    main()
