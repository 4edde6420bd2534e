"""Measures the cost per message in a small and a large store: append, read at the end, read anywhere, find by key.

    python bench/store_scale.py --directory DIR --messages 10000000

The large store is that of bench/restart.py: created once and kept. Both stores are used in turns, in one process. The
fastest round shows what the code costs, the median what a busy machine makes of it. A ratio of 1.0 means that the size
of the store makes no difference. All pages are in memory, so the disk is not measured. The log of the small store
starts at 10 GiB, as if earlier messages had expired, because Python is a tenth slower with numbers above 2**30. Old
messages are those of an earlier run of the store, which are checked when read. A search by key reads every index file,
and a full one has four entries per slot.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from big_store import QUEUES, TOPICS, append, count, fill, open_store

from pyromq.store.config import StoreConfig
from pyromq.store.message_store import GetStatus, MessageStore

SMALL: Final = 1_000
LOG_START: Final = 10 << 30
AT_A_TIME: Final = 1_000
IN_A_GROUP: Final = 50
A_READ: Final = 10
READ_BYTES: Final = 256 * 1024


def append_some(store: MessageStore, first: int) -> None:
    """Append messages as a busy broker does, in groups of some tens."""
    append(store, first, AT_A_TIME, IN_A_GROUP)


def read(store: MessageStore, places: list[tuple[str, int, int]]) -> int:
    """Read some messages at each position; return how many."""
    found = 0
    for topic, queue_id, offset in places:
        result = store.get(topic, queue_id, offset, A_READ, max_bytes=READ_BYTES)
        assert result.status is GetStatus.FOUND, result.status
        assert len(b"".join(result.views)) == result.size  # as for an answer
        found += result.count
    return found


def last_places(store: MessageStore) -> list[tuple[str, int, int]]:
    """Return the ends of the queues."""
    queues = [(topic, queue_id) for topic in TOPICS for queue_id in range(QUEUES)]
    return [(topic, queue_id, max(store.max_offset(topic, queue_id) - A_READ, 0)) for topic, queue_id in queues]


def old_places(ends: list[tuple[str, int, int]], part: float) -> list[tuple[str, int, int]]:
    """Return a position in each queue, all of one age and so close in the log, as for a consumer that is behind."""
    return [(topic, queue_id, int(offset * part)) for topic, queue_id, offset in ends]


def find(store: MessageStore, keys: list[str]) -> int:
    """Search messages by key; return how many were found."""
    return sum(len(store.find(TOPICS[int(key[1:]) % len(TOPICS)], key, 1)) for key in keys)


def timed(work: Callable[[], int | None], of: int | None = None) -> float:
    """Return the microseconds per message."""
    began = time.perf_counter()
    done = work()
    return (time.perf_counter() - began) / (of or done or 1) * 1e6


def round_of(
    store: MessageStore, old_ends: list[tuple[str, int, int]], stored: int, chance: random.Random
) -> dict[str, float]:
    """Measure a store once, after reading the same messages so that their pages are in memory."""
    old = old_places(old_ends, chance.random())
    keys = [f"k{chance.randrange(stored)}" for _ in range(200)]
    read(store, old)
    find(store, keys)
    return {
        "append": timed(lambda: append_some(store, stored), AT_A_TIME),
        "read at the end": timed(lambda: read(store, last_places(store))),
        "read old ones": timed(lambda: read(store, old)),
        "find by key": timed(lambda: find(store, keys)),
    }


def begin_log(root: Path) -> None:
    """Create the first file of a log whose earlier files have expired."""
    log = StoreConfig(root=root).commit_log_path
    log.mkdir()
    with (log / f"{LOG_START:020d}").open("wb") as file:
        file.truncate(StoreConfig(root=root).commit_log_file_size)


def small_round(chance: random.Random) -> dict[str, float]:
    """Measure a store of a thousand messages, reopened before use like the large one."""
    with tempfile.TemporaryDirectory(prefix="pyromq-small-") as directory:
        begin_log(Path(directory))
        with open_store(Path(directory)) as store:
            append(store, 0, SMALL)
        with open_store(Path(directory)) as store:
            ends = last_places(store)
            round_of(store, ends, SMALL, chance)  # opens lazily opened files, as in the large store
            return round_of(store, ends, SMALL + AT_A_TIME, chance)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--directory", type=Path, help="where the large store is, or will be")
    parser.add_argument("--messages", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    chance = random.Random(1)
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pyromq-scale-")))
        root = (options.directory or scratch) / "store"
        fill(root, options.messages)
        large = stack.enter_context(open_store(root))
        ends = last_places(large)
        rounds = [(small_round(chance), round_of(large, ends, count(large), chance)) for _ in range(options.rounds)]
        print(f"µs a message in a store of {SMALL:,} | of {count(large):,} | ratio, {options.rounds} rounds")
    for how, choose in (("median", statistics.median), ("fastest", min)):
        for what in rounds[0][0]:
            small, big = (choose([found[side][what] for found in rounds]) for side in (0, 1))
            print(f"{how:<8} {what:<16} {small:8.2f} | {big:8.2f} | {big / small:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
