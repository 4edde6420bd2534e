"""A small store with two topics, and readers of it."""

from __future__ import annotations

import random
from collections import defaultdict
from pathlib import Path
from typing import Any

from pyromq.protocol.messages.message import MessageExt
from pyromq.protocol.messages.properties import encode_properties
from pyromq.protocol.messages.record import Record
from pyromq.protocol.tag_filter import tag_code
from pyromq.spark.options.read_options import read_options
from pyromq.spark.read.store_readers import StoreBatchReader
from pyromq.store.message_store import MessageStore
from pyromq.store.read.reader import StoreReader
from pyromq.testing import wait_until
from tests.store.helpers import HOST, LOG_FILE_SIZE, read_queue

COUNT, QUEUES = 200, 3


PLACES = "topic,queue_id,queue_offset"


def sample_record(number: int, topic: str = "orders", **changes: Any) -> Record:
    chooser = random.Random(number)
    tag = ("created", "paid", None)[number % 3]
    properties = {"number": str(number), **({"TAGS": tag} if tag else {}), **({"KEYS": "a b"} if number % 2 else {})}
    fields: dict[str, Any] = {
        "body": chooser.randbytes(chooser.choice((1, 50, 600))),
        "queue_id": number % QUEUES,
        "properties": encode_properties(properties).encode(),
        "tags_code": tag_code(tag),
        "born_timestamp_ms": 1_600_000_000_000 + number,
        "born_host": HOST,
        "store_host": HOST,
    }
    return Record(topic=topic, **(fields | changes))


def wait_for_entries(root: Path, topic: str, count: int) -> None:
    """Wait until a running broker has written the queue entries of so many messages."""

    def are_written() -> bool:
        with StoreReader(root) as reader:
            return sum(reader.max_offset(topic, queue_id) for queue_id in reader.queue_ids(topic)) >= count

    wait_until(are_written)


def put_records(store: MessageStore, *records: Record) -> None:
    for record in records:
        store.put(record)
    store.commit()


def store_reader(root: Path, **options: str) -> StoreBatchReader:
    given = {"store": str(root), "subscribe": "orders", "columns": PLACES}
    return StoreBatchReader(read_options(given | options, streaming=False))


def rows_of(reader: StoreBatchReader) -> list[dict[str, Any]]:
    return [row for partition in reader.partitions() for batch in reader.read(partition) for row in batch.to_pylist()]


def read_rows(root: Path, **options: str) -> list[dict[str, Any]]:
    return rows_of(store_reader(root, **options))


def offsets_of(rows: list[dict[str, Any]]) -> dict[int, list[int]]:
    """Return the offsets of each queue in the order in which they came."""
    offsets = defaultdict(list)
    for row in rows:
        offsets[row["queue_id"]].append(row["queue_offset"])
    return dict(offsets)


def plain_messages(root: Path, topic: str = "orders") -> dict[tuple[int, int], MessageExt]:
    """Read every message as a broker would."""
    with StoreReader(root) as reader:
        queues = [read_queue(reader, topic, queue_id) for queue_id in reader.queue_ids(topic)]
    return {(message.queue_id, message.queue_offset): message for queue in queues for message in queue}


def overwrite_log(root: Path, position: int, data: bytes) -> None:
    """Change bytes of the log."""
    base = position // LOG_FILE_SIZE * LOG_FILE_SIZE
    with (root / "commitlog" / f"{base:020}").open("r+b") as file:
        file.seek(position - base)
        file.write(data)
