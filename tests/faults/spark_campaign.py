"""Shared by the Spark campaigns: a steady producer, drivers that can be killed, and reading back their output."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

import msgspec
import pyarrow.parquet as pq
from msgspec import Struct, field

from pyromq import Message, Producer, PyroMQError
from pyromq.testing import waiting
from tests.faults.spark_driver import Job

KEYS = 50
EXECUTOR = b"CoarseGrainedExecutorBackend"
"""Occurs only in the command line of an executor."""
_ROOT = Path(__file__).parent.parent.parent


class Row(NamedTuple):
    """One message as it was read back."""

    queue_id: int
    queue_offset: int
    body: bytes
    message_id: str


# --- the producer ----------------------------------------------------------------------------------------------------


class Sent(Struct):
    """Bodies by the outcome of their sends; a body is `key number`, and the numbers of a key rise."""

    acknowledged: set[bytes] = field(default_factory=set)
    unknown: set[bytes] = field(default_factory=set)


async def produce(namesrv: str, topic: str, rate: float, sent: Sent, stop: asyncio.Event) -> None:
    """Send at a steady rate until stopped, the messages of each key one after the other."""
    async with Producer(group="steady", namesrv=namesrv, retries=0) as producer:
        await asyncio.gather(*(_send_key(producer, topic, key, KEYS / rate, sent, stop) for key in range(KEYS)))


async def _send_key(producer: Producer, topic: str, key: int, interval: float, sent: Sent, stop: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    due, number = loop.time() + interval * key / KEYS, 0
    while not stop.is_set():
        body = b"%d %d" % (key, number)
        number += 1
        try:
            await producer.send(Message(topic=topic, body=body), order_key=str(key))
            sent.acknowledged.add(body)
        except PyroMQError:
            sent.unknown.add(body)  # may be there or not
        due = max(due + interval, loop.time() - interval)  # does not catch up in a burst after a restart
        await asyncio.sleep(due - loop.time())


# --- the driver ------------------------------------------------------------------------------------------------------


class Driver:
    """A Spark driver with all its processes; killed at the end of a `with` block."""

    def __init__(self, job: Job) -> None:
        self._directory = Path(job.directory)
        self._directory.mkdir(parents=True, exist_ok=True)
        self._log = self._directory / "driver.log"
        self._arguments = [sys.executable, "-m", "tests.faults.spark_driver", msgspec.json.encode(job).decode()]
        self.starts = 0

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def last_words(self) -> str:
        """Return the last output of the drivers so far."""
        return self._log.read_text()[-4000:]

    def start(self) -> None:
        """Start it from its checkpoint."""
        self.starts += 1
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._arguments, stdout=log, stderr=log, cwd=_ROOT, start_new_session=True)

    def kill(self) -> None:
        """Kill Python, its JVM and the executors; their Python workers end when they notice."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def ended(self) -> bool:
        """Return True if it ended by itself: the loss of its executors may be too much for it."""
        return self._process.poll() is not None

    def executors(self) -> list[int]:
        """Return the process ids of the running executors."""
        return [pid for pid in session_members(self._process.pid) if EXECUTOR in command_line(pid)]

    # --- how far it is ---------------------------------------------------------------------------------------------

    def batches(self, kind: str) -> int:
        """Return how many micro-batches were begun (`offsets`) or are done (`commits`)."""
        numbers = [int(path.name) for path in (self._directory / "checkpoint" / kind).glob("[0-9]*")]
        return max(numbers, default=-1) + 1

    def offsets(self, topic: str) -> dict[int, int]:
        """Return, for each queue of the topic, the offset up to which everything is done."""
        done = self.batches("commits")
        if not done:
            return {}
        text = (self._directory / "checkpoint" / "offsets" / str(done - 1)).read_text()
        brokers = json.loads(text.splitlines()[-1]).get(topic, {})
        return {int(queue): offset for queues in brokers.values() for queue, offset in queues.items()}


def session_members(leader: int) -> Iterator[int]:
    """Yield the process ids of a session."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            if int(fields[3]) == leader:  # field 6 of stat: the session
                yield int(path.parent.name)


def command_line(pid: int) -> bytes:
    """Return the command line of a process, an empty text if it has ended."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


PATIENCE = 900.0
"""Seconds: the start of a driver takes ten, and much longer on a busy machine."""


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Wait for a condition with the patience that a Spark driver needs."""
    waiting.wait_until(condition, what, seconds=PATIENCE, pause=0.05)


# --- what was written ------------------------------------------------------------------------------------------------


def read_parquet(rows: Path) -> Iterator[Row]:
    """Yield the rows of a stream's directory as Spark does: from the files in its log, not from orphans."""
    for uri in listed_files(rows / "_spark_metadata"):
        table = pq.read_table(rows / Path(uri).name, columns=list(Row._fields), partitioning=None)
        yield from map(Row._make, zip(*(column.to_pylist() for column in table.columns), strict=True))


def listed_files(log: Path) -> list[str]:
    """Return the files of a sink's log as URIs; the newest compacted entry holds all earlier ones."""
    entries = [path for path in log.iterdir() if path.name.split(".")[0].isdigit()]
    entries.sort(key=lambda path: int(path.name.split(".")[0]))
    compacted = [index for index, path in enumerate(entries) if path.suffix == ".compact"]
    entries = entries[compacted[-1] :] if compacted else entries
    lines = [line for path in entries for line in path.read_text().splitlines() if line.startswith("{")]
    return [entry["path"] for entry in map(json.loads, lines) if entry["action"] == "add"]


def disordered(rows: list[Row]) -> int:
    """Count messages that are stored, in one queue, after a later one of their key."""
    last: dict[tuple[int, bytes], int] = {}
    count = 0
    for row in sorted(rows):
        key, _, number = row.body.partition(b" ")
        place = row.queue_id, key
        count += int(number) <= last.get(place, -1)
        last[place] = max(int(number), last.get(place, -1))
    return count
