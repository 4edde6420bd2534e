"""A store of millions of messages for benchmarks, created once through MessageStore and kept.

Every message has a key and a unique key, as clients send them, and a record of `RECORD_SIZE` bytes: ten million of them
take 10 GiB. If a directory already has some messages, only the rest is added.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

from pyromq.protocol.messages.properties import encode_properties
from pyromq.protocol.messages.record import Record, encode_host, record_size
from pyromq.protocol.tag_filter import tag_code
from pyromq.store.config import StoreConfig
from pyromq.store.message_store import MessageStore

TOPICS: Final = tuple(f"events-{number}" for number in range(10))
QUEUES: Final = 8
RECORD_SIZE: Final = 1074
GROUP: Final = 1000

_HOST: Final = encode_host("127.0.0.1", 10911)
_BODY: Final = os.urandom(RECORD_SIZE)
_TAG: Final = "bench"
_TAGS_CODE: Final = tag_code(_TAG)


def now_ms() -> int:
    """Return the current time in milliseconds, as the store expects it."""
    return time.time_ns() // 1_000_000


def open_store(root: Path) -> MessageStore:
    """Return a store with a broker's settings, not opened yet."""
    return MessageStore(StoreConfig(root=root), now_ms)


def record(number: int) -> Record:
    """Return a message by number; queues take turns."""
    unique_key = f"7F0000010001{number:020X}"
    properties = encode_properties({"TAGS": _TAG, "KEYS": f"k{number}", "UNIQ_KEY": unique_key, "WAIT": "true"})
    made = Record(
        topic=TOPICS[number % len(TOPICS)], body=b"", queue_id=number // len(TOPICS) % QUEUES,
        properties=properties.encode(), tags_code=_TAGS_CODE, born_host=_HOST, store_host=_HOST,
    )  # fmt: skip
    made.body = _BODY[: RECORD_SIZE - record_size(made, len(made.topic))]
    return made


def count(store: MessageStore) -> int:
    """Return the number of messages in a store."""
    return sum(
        store.max_offset(topic, queue_id) - store.min_offset(topic, queue_id)
        for topic in store.topics
        for queue_id in store.queue_ids(topic)
    )


def append(store: MessageStore, first: int, number: int, group: int = GROUP) -> None:
    """Append the messages of a range of numbers."""
    for start in range(first, first + number, group):
        for one in range(start, min(start + group, first + number)):
            store.put(record(one))
        store.commit()


def fill(root: Path, messages: int) -> None:
    """Make sure that a directory has `messages` messages, and print what was done."""
    with open_store(root) as store:
        before = count(store)
        began = time.perf_counter()
        append(store, before, messages - before)
        seconds = time.perf_counter() - began
        if messages > before:
            print(f"stored {messages - before:,} messages in {seconds:.0f} s, {(messages - before) / seconds:,.0f}/s")
        gib = (store.max_physical_offset - store.min_physical_offset) / (1 << 30)
        print(f"{root}: {count(store):,} messages, {gib:.2f} GiB of log", flush=True)
