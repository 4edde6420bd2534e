"""Measures the Producer: one connection, many sends in flight, each in its own coroutine. Prints one JSON line.

    python bench/producer.py NAMESRV [--in-flight 256] [--seconds 2] [--size 1024] [--general] [--traced] [--signed]

`--general` sends everything the general way, as with hooks, to compare it with the fast path in one run.
`--traced` switches message traces on. `--signed` signs every request with an account.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time

from pyromq import Credentials, Message, Producer, SendHook
from pyromq.remoting.loop import run


async def measure(options: argparse.Namespace) -> dict[str, float]:
    """Send for some seconds; return the rate and this process's CPU time per message."""
    body = b"x" * options.size
    sent = 0

    async def keep_sending(producer: Producer, until: float) -> None:
        nonlocal sent
        while time.perf_counter() < until:
            await producer.send(Message(topic=options.topic, body=body, tags="bench"))
            sent += 1

    hooks = [SendHook()] if options.general else []
    account = Credentials("bench-account", "bench-secret") if options.signed else None
    async with Producer(
        "bench",
        options.namesrv,
        max_in_flight=options.in_flight,
        hooks=hooks,
        trace=options.traced,
        credentials=account,
    ) as producer:
        for seconds in (0.5, options.seconds):  # the first to warm up
            sent = 0
            began, cpu = time.perf_counter(), time.process_time()
            await asyncio.gather(*[keep_sending(producer, began + seconds) for _ in range(options.in_flight)])
            elapsed, spent = time.perf_counter() - began, time.process_time() - cpu
    return {"in_flight": options.in_flight, "messages": sent, "rate": sent / elapsed, "cpu_us": spent / sent * 1e6}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("namesrv")
    parser.add_argument("--topic", default="pyromq-bench")
    parser.add_argument("--in-flight", type=int, default=256)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--general", action="store_true")
    parser.add_argument("--traced", action="store_true")
    parser.add_argument("--signed", action="store_true")
    print(json.dumps(run(measure(parser.parse_args()))))


if __name__ == "__main__":
    main()
