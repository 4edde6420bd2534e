"""A name server and a broker in a process of their own, on a loop that reports what holds it up.

    python -m tests.faults.measured_server DIRECTORY [--uvloop] [--set key=value]… [--descriptors 2000]

It prints `ready NAMESRV BROKER HA`, then a line of JSON for each callback (on asyncio) or pass (on uvloop) that took
more than LIMIT of CPU time, and at SIGTERM its figures. CPU time says what the server itself did: on a busy machine
anything may take long. On uvloop, which cannot be looked into, the lag is printed too.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvloop

from pyromq.broker.config.broker_config import broker_config
from pyromq.broker.server import Broker
from pyromq.broker.sides.late_imports import import_readers
from pyromq.cli.server_logs import start_logging
from pyromq.clock import SystemClock
from pyromq.namesrv.server import NameServer
from pyromq.protocol.command import RemotingCommand
from pyromq.remoting.collector import settle_memory
from pyromq.remoting.connection import Connection
from pyromq.remoting.dispatch import Dispatcher
from pyromq.remoting.limits import PROCESS_ROOM
from pyromq.remoting.slices import SliceQueue

LIMIT = 0.05
"""Seconds that nothing may hold the loop."""
TICK = 0.005


class Watch:
    """What the loop is doing, and the worst of it so far."""

    def __init__(self) -> None:
        self.served: list[str] = []
        self.worst = 0.0
        self.worst_lag = 0.0
        self.over = 0
        self.callbacks = 0
        self.began = 0.0
        self.stack: list[str] = []

    def note(self, seconds: float, what: str) -> None:
        """Take note of how long something took, and report it if that was too long."""
        self.callbacks += 1
        if seconds > self.worst:
            self.worst = seconds
        if seconds > LIMIT:
            self.over += 1
            say({"over_ms": round(seconds * 1000, 1), "in": what[:300], "at": self.stack, **self._requests()})
        self.served.clear()
        self.stack = []

    def _requests(self) -> dict[str, object]:
        return {"requests": len(self.served), "first": self.served[:1], "last": self.served[-1:]}

    def look(self) -> None:
        """Take note of where the loop is, from another thread, if it is there for long."""
        thread = threading.main_thread().ident
        while True:
            time.sleep(LIMIT / 5)
            began = self.began
            if began and time.monotonic() - began > LIMIT / 2:
                frames = traceback.extract_stack(sys._current_frames()[thread or 0])
                stack = [f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in frames[-6:]]
                if began == self.began:
                    self.stack = stack


watch = Watch()


def say(value: object) -> None:
    """Print a line of JSON."""
    print(json.dumps(value), flush=True)


def watch_requests() -> None:
    """Note which requests are served."""
    serve, advance = Dispatcher.serve, SliceQueue._advance

    def noted_serve(self: Dispatcher, command: RemotingCommand, connection: Connection) -> None:
        watch.served.append(f"{command.code} with {len(command.body)} bytes")
        serve(self, command, connection)

    def noted_advance(self: SliceQueue, job: Any, connection: Connection, end: float) -> bool:
        watch.served.append(f"{job.command.code} with {len(job.command.body)} bytes, a slice")
        return advance(self, job, connection, end)

    Dispatcher.serve = noted_serve  # type: ignore[method-assign]
    SliceQueue._advance = noted_advance  # type: ignore[method-assign]


def watch_callbacks() -> None:
    """Measure every callback of an asyncio loop."""
    run: Callable[[asyncio.Handle], None] = asyncio.Handle._run

    def measured(self: asyncio.Handle) -> None:
        watch.began = time.monotonic()
        before = time.thread_time()
        run(self)
        took = time.thread_time() - before
        watch.began = 0.0
        watch.note(took, repr(self) if took > LIMIT else "")

    asyncio.Handle._run = measured  # type: ignore[method-assign]


def watch_lag() -> None:
    """Measure the CPU time between two ticks of a loop, and how late they are."""
    loop = asyncio.get_running_loop()

    def tick(due: float, cpu: float) -> None:
        now, used = loop.time(), time.thread_time()
        watch.worst_lag = max(watch.worst_lag, now - due)
        watch.began = time.monotonic()
        watch.note(used - cpu - TICK, f"a pass; the tick was {(now - due) * 1000:.0f} ms late")
        loop.call_later(TICK, tick, now + TICK, used)

    loop.call_later(TICK, tick, loop.time() + TICK, time.thread_time())


async def serve(directory: Path, on_uvloop: bool, more: dict[str, str]) -> None:
    """Serve until SIGTERM."""
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    clock = SystemClock()
    async with NameServer(host="127.0.0.1", port=0, clock=clock, data_dir=directory / "namesrv") as namesrv:
        settings = {"listenPort": "0", "storePathRootDir": str(directory / "store"), "brokerIP1": "127.0.0.1"}
        settings |= {"namesrvAddr": namesrv.address, "enablePropertyFilter": "true", "brokerName": "broker-a"}
        async with Broker(broker_config(settings | more), clock) as broker:
            broker.use_descriptors(PROCESS_ROOM)
            import_readers()
            settle_memory()
            watch_requests()
            if on_uvloop:
                watch_lag()
            else:
                watch_callbacks()
            threading.Thread(target=watch.look, daemon=True).start()
            print("ready", namesrv.address, broker.address, broker.replication.state().ha_address, flush=True)
            await stopped.wait()
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
            say({"worst_ms": round(watch.worst * 1000, 1), "over": watch.over, "callbacks": watch.callbacks,
                 "worst_lag_ms": round(watch.worst_lag * 1000, 1), "most_memory_mb": memory})  # fmt: skip


def run() -> None:
    """Read the command line and serve."""
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=Path)
    parser.add_argument("--uvloop", action="store_true")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--descriptors", type=int)
    options = parser.parse_args()
    start_logging()
    if options.descriptors:
        resource.setrlimit(resource.RLIMIT_NOFILE, (options.descriptors, options.descriptors))
    settings = dict(setting.split("=", 1) for setting in options.set)
    factory = uvloop.new_event_loop if options.uvloop else asyncio.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(serve(options.directory, options.uvloop, settings))


if __name__ == "__main__":
    run()
