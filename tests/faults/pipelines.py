"""Pipelines with their drivers and workers killed on the way: nothing lost, nothing twice, every key in order.

    python -m tests.faults.pipelines archive --messages 1000000 --kills 3
    python -m tests.faults.pipelines widen --messages 1000000 --kills 1 --worker-kills 2

A store is filled with a backlog of 4 queues, 10,000 keys, and a broker started on it. `archive` archives it, replays
the archive into another topic, and compares that with the backlog; `widen` widens it to 16 queues. The commands run in
processes of their own, which are killed (`kill -9` of the driver with its JVM, or of one of its Python workers) when
a part of the work is done, and started again.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec import Struct, json

from pyromq.broker.topics import encode_topics
from pyromq.protocol.bodies import TopicConfig, TopicConfigSerializeWrapper
from pyromq.protocol.filter import java_hash, tag_code
from pyromq.protocol.properties import encode_properties
from pyromq.protocol.record import Record, encode_host
from pyromq.spark.brokers import connect
from pyromq.spark.options import read_options
from pyromq.spark.store_source import StoreBatchReader
from pyromq.store.config import StoreConfig
from pyromq.store.message_store import MessageStore
from tests.faults.campaign import Server

QUEUES = 4
TOPICS = {"backlog": QUEUES, "backlog-again": 8}
WIDE = "backlog-wide"
_KEYS = 10_000
_GROUP = 1000
_HOST = encode_host("127.0.0.1", 10911)
_COLUMNS = "flag,queue_id,queue_offset,keys,tags,body,properties"
_PATIENCE = 900.0


class Verdict(Struct, kw_only=True):
    """What came out, compared with what went in."""

    messages: int
    missing: int
    doubled: int
    changed: int
    """Messages with another body, key, tag or property."""
    out_of_order: int
    torn_keys: int
    """Keys in more than one queue."""
    kills: int = 0
    seconds: float = 0.0

    @property
    def good(self) -> bool:
        return not (self.missing or self.doubled or self.changed or self.out_of_order or self.torn_keys)


# --- what goes in


def fill(root: Path, messages: int, size: int) -> None:
    """Write a store with a backlog: numbered messages of some keys, each key in one queue."""
    with MessageStore(StoreConfig(root=root), lambda: time.time_ns() // 1_000_000) as store:
        for start in range(0, messages, _GROUP):
            for number in range(start, min(start + _GROUP, messages)):
                store.put(_record(number, size))
            store.commit()
    table = {name: TopicConfig(topic_name=name, read_queue_nums=n, write_queue_nums=n) for name, n in TOPICS.items()}
    (root / "config").mkdir(parents=True, exist_ok=True)
    (root / "config" / "topics.json").write_bytes(encode_topics(TopicConfigSerializeWrapper(topic_config_table=table)))


def _record(number: int, size: int) -> Record:
    key = f"key-{number * 7919 % _KEYS}"
    properties = {"TAGS": f"t{number % 5}", "KEYS": f"{key} n{number}", "UNIQ_KEY": f"7F0000010001{number:020X}"}
    return Record(
        topic="backlog", body=(b'{"number": %d}' % number).ljust(size), queue_id=abs(java_hash(key)) % QUEUES,
        properties=encode_properties(properties | {"color": f"c{number % 3}"}).encode(), flag=number,
        tags_code=tag_code(properties["TAGS"]), born_timestamp_ms=time.time_ns() // 1_000_000,
        born_host=_HOST, store_host=_HOST,
    )  # fmt: skip


# --- what comes out


def read_topic(store: Path, topic: str) -> pa.Table:
    """Return a topic's messages, straight from the store."""
    given = {"store": str(store), "subscribe": topic, "columns": _COLUMNS}
    reader = StoreBatchReader(read_options(given, streaming=False))
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    return _plain(pa.Table.from_batches(batches))


def read_archive(directory: Path) -> pa.Table:
    """Return an archive's messages: those of the files that Spark's log of the sink lists."""
    columns = _COLUMNS.split(",")
    return _plain(pa.concat_tables([pq.ParquetFile(path).read(columns=columns) for path in _listed(directory)]))


def _listed(directory: Path) -> Iterator[str]:
    log = directory / "_spark_metadata"
    compacted = [int(path.name.split(".")[0]) for path in log.glob("*.compact")]
    first = max(compacted, default=-1)
    names = [f"{first}.compact"] if compacted else []
    names += [path.name for path in log.iterdir() if path.name.isdigit() and int(path.name) > first]
    for name in names:
        for line in (log / name).read_bytes().splitlines()[1:]:
            yield json.decode(line)["path"].removeprefix("file://")


def _plain(messages: pa.Table) -> pa.Table:
    key = pc.list_element(messages["keys"], 0)
    color = pc.map_lookup(
        messages["properties"].combine_chunks().cast(pa.map_(pa.string(), pa.string())), "color", "last"
    )
    return (
        messages.drop(["keys", "properties"])
        .append_column("key", key)
        .append_column("color", pa.chunked_array([color]))
    )


def compare(before: pa.Table, after: pa.Table, *, in_queues: bool) -> Verdict:
    """Compare messages, and where they are `in_queues` of a topic, their order."""
    numbers = after["flag"].to_numpy()
    unique = np.unique(numbers)
    first = before.sort_by("flag")
    second = after.take(np.unique(numbers, return_index=True)[1])
    same = np.ones(len(unique), bool)
    for name in ("key", "tags", "body", "color"):
        same &= pc.equal(first[name].take(unique), second[name]).fill_null(False).to_numpy()
    out_of_order, torn = order(after) if in_queues else (0, 0)
    return Verdict(
        messages=before.num_rows,
        missing=before.num_rows - len(unique),
        doubled=len(numbers) - len(unique),
        changed=int((~same).sum()),
        out_of_order=out_of_order,
        torn_keys=torn,
    )


def order(messages: pa.Table) -> tuple[int, int]:
    """Return how many messages come before an earlier one of their key, and how many keys are in several queues."""
    keys = messages["key"].combine_chunks().dictionary_encode().indices.to_numpy()
    queues, offsets = messages["queue_id"].to_numpy(), messages["queue_offset"].to_numpy()
    by_key = np.lexsort((offsets, queues, keys))
    keys, queues, numbers = keys[by_key], queues[by_key], messages["flag"].to_numpy()[by_key]
    same_key = keys[1:] == keys[:-1]
    return int((same_key & (numbers[1:] <= numbers[:-1])).sum()), int((same_key & (queues[1:] != queues[:-1])).sum())


# --- what happens in between


class Command:
    """`pyromq pipeline run …` in a process of its own."""

    def __init__(self, arguments: list[str], log: Path) -> None:
        with log.open("a") as errors:
            command = [sys.executable, "-m", "pyromq.cli.main", "pipeline", "run", *arguments, "--json"]
            self._process = subprocess.Popen(command, stdout=errors, stderr=errors, start_new_session=True)
        self._log = log

    def kill_driver(self) -> None:
        """End the driver and its JVM at once; its workers find out by themselves."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def kill_worker(self) -> bool:
        """End one of the Python workers at once; tell whether there was one."""
        workers = [pid for pid in _session(self._process.pid) if _is_worker(pid)]
        for pid in workers[:1]:
            os.kill(pid, signal.SIGKILL)
        return bool(workers)

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def finish(self) -> None:
        """Wait for a good end."""
        if self._process.wait(_PATIENCE):
            raise RuntimeError(f"the pipeline failed:\n{self._log.read_text()[-3000:]}")


def _session(leader: int) -> Iterator[int]:
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == leader:
            yield int(path.parent.name)


def _is_worker(pid: int) -> bool:
    """Tell whether a process is a worker: the daemon that forks them has another parent than a daemon."""

    def is_daemon(number: int) -> bool:
        return b"pyspark.daemon" in Path(f"/proc/{number}/cmdline").read_bytes()

    try:
        parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        return is_daemon(pid) and is_daemon(parent)
    except OSError:
        return False


def run_through_kills(
    arguments: list[str], log: Path, done: Callable[[], float], *, kills: int, worker_kills: int = 0, seed: int = 0
) -> int:
    """Run a command to its end, killing it so often, whenever a random part more is done; return the kills."""
    chance = random.Random(seed)
    victims = ["driver"] * kills + ["worker"] * worker_kills
    planned = sorted((chance.uniform(0.05, 0.9), victim) for victim in victims)
    command, count = Command(arguments, log), 0
    for share, victim in planned:
        while command.running and done() < share:
            time.sleep(0.2)
        if not command.running:
            break
        if victim == "worker":
            count += command.kill_worker()
            continue
        command.kill_driver()
        command, count = Command(arguments, log), count + 1
    command.finish()
    return count


def _arrived(namesrv: str, topic: str, messages: int) -> Callable[[], float]:
    def share() -> float:
        brokers = connect(namesrv)
        if topic not in brokers.topics([], f"{topic}"):
            return 0.0
        return sum(brokers.max_offsets(brokers.queues([topic])).values()) / messages

    return share


def archive(data: Path, messages: int, size: int, kills: int, seed: int) -> list[Verdict]:
    """Archive a backlog, replay the archive, and compare both with it."""
    fill(data / "store", messages, size)
    before = read_topic(data / "store", "backlog")
    server = Server(data, data / "server.log", flush="ASYNC_FLUSH")
    try:
        to, log = data / "archive", data / "driver.log"
        batch = max(1, messages // 10)

        def archived() -> float:
            return len([path for path in to.glob("_checkpoint/commits/*") if path.name.isdigit()]) / 11

        given = ["archive", "-n", server.namesrv, "--topics", "backlog", "--to", str(to), "--batch", str(batch)]
        began = time.monotonic()
        first_kills = run_through_kills(given, log, archived, kills=kills, seed=seed)
        first = compare(before, read_archive(to), in_queues=False)
        first.kills, first.seconds = first_kills, time.monotonic() - began
        given = ["replay", "-n", server.namesrv, "--archive", str(to), "--to", "backlog-again"]
        began = time.monotonic()
        arrived = _arrived(server.namesrv, "backlog-again", messages)
        second_kills = run_through_kills(given, log, arrived, kills=kills, seed=seed + 1)
        second = compare(before, read_topic(data / "store", "backlog-again"), in_queues=True)
        second.kills, second.seconds = second_kills, time.monotonic() - began
        return [first, second]
    finally:
        server.kill()


def widen(
    data: Path, messages: int, size: int, kills: int, worker_kills: int, seed: int, batches: int = 10
) -> list[Verdict]:
    """Widen a backlog and compare the wide topic with it."""
    fill(data / "store", messages, size)
    before = read_topic(data / "store", "backlog")
    server = Server(data, data / "server.log", flush="ASYNC_FLUSH")
    try:
        given = ["widen", "-n", server.namesrv, "--topic", "backlog", "--group", "behind", "--to", WIDE]
        given += ["--queues", "16", "--checkpoint", str(data / "checkpoint"), "--batch", str(messages // batches)]
        began = time.monotonic()
        arrived = _arrived(server.namesrv, WIDE, messages)
        count = run_through_kills(
            given, data / "driver.log", arrived, kills=kills, worker_kills=worker_kills, seed=seed
        )
        verdict = compare(before, read_topic(data / "store", WIDE), in_queues=True)
        verdict.kills, verdict.seconds = count, time.monotonic() - began
        return [verdict]
    finally:
        server.kill()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pipeline", choices=["archive", "widen"])
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--kills", type=int, default=1)
    parser.add_argument("--worker-kills", type=int, default=0)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="pyromq-pipelines-") as directory:
        data = Path(directory)
        if options.pipeline == "archive":
            verdicts = archive(data, options.messages, options.size, options.kills, options.seed)
        else:
            verdicts = widen(data, options.messages, options.size, options.kills, options.worker_kills, options.seed)
    for verdict in verdicts:
        print(verdict)
    return 0 if all(verdict.good for verdict in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
