"""Runs a command of `pyromq` and watches its event loop from inside.

    python bench/loop_watch.py [--blame] broker --data DIR -n 127.0.0.1:9876 …

A timer of two milliseconds notes how late it is: what kept it waiting is a pass of the loop at least that long. For
each line on stdin one line is printed, `loop {…}`, with the figures since the last one. `wall_ms` is what a client
feels, and counts what other processes take on a busy machine; `cpu_ms` is the CPU time of the loop's thread between two
ticks. With `--blame` a profiling timer notes what runs, and the figures name the places of long passes.
"""

from __future__ import annotations

import asyncio
import gc
import json
import runpy
import signal
import sys
import threading
import traceback
from collections import Counter
from time import perf_counter, thread_time
from types import FrameType
from typing import Any

import pyromq.remoting.loop as remoting_loop

PERIOD = 0.002
LONG = 0.050
BLAME_PERIOD = 0.005
BLAME_FRAMES = 7


class LoopWatch:
    """Ticks on a loop and notes how late it is."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._due = 0.0
        self._cpu = 0.0
        self._collecting_since = 0.0
        self._seen: list[str] = []
        self._blamed: Counter[str] = Counter()
        self._reset()

    def _reset(self) -> None:
        self._longest = self._longest_cpu = 0.0
        self._longest_collection = (0.0, 0)
        self._long = self._long_cpu = self._ticks = 0
        self._blamed.clear()

    def new_loop(self) -> asyncio.AbstractEventLoop:
        """Make the loop of the server, with a timer on it."""
        self._loop = loop = _plain_new_loop()
        loop.call_soon(self._set)
        return loop

    def _set(self) -> None:
        assert self._loop is not None
        self._due = perf_counter() + PERIOD
        self._cpu = thread_time()
        self._loop.call_later(PERIOD, self._tick)

    def _tick(self) -> None:
        late, cpu = perf_counter() - self._due, thread_time() - self._cpu
        self._ticks += 1
        self._longest = max(self._longest, late)
        self._longest_cpu = max(self._longest_cpu, cpu)
        self._long += late > LONG
        self._long_cpu += cpu > LONG
        if max(late, cpu) > LONG:
            self._blamed.update(self._seen)
        self._seen.clear()
        self._set()

    def on_collection(self, phase: str, info: dict[str, int]) -> None:
        """Note how long the garbage collector takes; for gc.callbacks."""
        if phase == "start":
            self._collecting_since = thread_time()
        else:
            seconds = thread_time() - self._collecting_since
            self._longest_collection = max(self._longest_collection, (seconds, info["generation"]))

    def blame(self) -> None:
        """Note from now on what runs, so that long passes can be explained; for the main thread."""
        signal.signal(signal.SIGPROF, self._see)
        signal.setitimer(signal.ITIMER_PROF, BLAME_PERIOD, BLAME_PERIOD)

    def _see(self, _: int, frame: FrameType | None) -> None:
        stack = traceback.StackSummary.extract(traceback.walk_stack(frame), limit=BLAME_FRAMES, lookup_lines=False)
        self._seen.append(" < ".join(f"{_short(at.filename)}:{at.lineno} {at.name}" for at in stack))

    def answer(self) -> None:
        """Print the figures for each line on stdin; for a thread."""
        for _ in sys.stdin:
            print("loop " + json.dumps(self.take_figures()), flush=True)

    def take_figures(self) -> dict[str, Any]:
        """Return the figures since the last call."""
        found = {
            "wall_ms": round(self._longest * 1000, 1),
            "cpu_ms": round(self._longest_cpu * 1000, 1),
            "over_50_ms": self._long,
            "over_50_ms_cpu": self._long_cpu,
            "collection_cpu_ms": round(self._longest_collection[0] * 1000, 1),
            "collection_generation": self._longest_collection[1],
            "ticks": self._ticks,
            "blamed": self._blamed.most_common(12),
        }
        self._reset()
        return found


def _short(path: str) -> str:
    return path.rpartition("/pyromq/")[2]


_plain_new_loop = remoting_loop.new_loop


def main() -> None:
    arguments = sys.argv[1:]
    watch = LoopWatch()
    remoting_loop.new_loop = watch.new_loop
    gc.callbacks.append(watch.on_collection)
    if arguments[0] == "--blame":
        arguments = arguments[1:]
        watch.blame()
    threading.Thread(target=watch.answer, daemon=True).start()
    sys.argv = ["pyromq", *arguments]
    runpy.run_module("pyromq.cli.main", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
