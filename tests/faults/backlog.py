"""A backlog of numbered messages, and its comparison with the output of a pipeline.

The backlog has 4 queues and 10,000 keys, each key in one queue; the number of a message is its flag.
"""

from __future__ import annotations

import time
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec import Struct

from pyromq.protocol.bodies import TopicConfig, TopicConfigSerializeWrapper
from pyromq.protocol.bodies.fastjson import dumps_pretty
from pyromq.protocol.messages.properties import encode_properties
from pyromq.protocol.messages.record import Record, encode_host
from pyromq.protocol.tag_filter import java_hash, tag_code
from pyromq.spark.options.read_options import read_options
from pyromq.spark.read.store_readers import StoreBatchReader
from pyromq.store.config import StoreConfig
from pyromq.store.message_store import MessageStore
from tests.faults.spark_campaign import listed_files

QUEUES = 4
TOPICS = {"backlog": QUEUES, "backlog-again": 8}
_KEYS = 10_000
_GROUP = 1000
_HOST = encode_host("127.0.0.1", 10911)
_COLUMNS = "flag,queue_id,queue_offset,keys,tags,body,properties"


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
    (root / "config" / "topics.json").write_bytes(dumps_pretty(TopicConfigSerializeWrapper(topic_config_table=table)))


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
    """Return a topic's messages, read from the store."""
    given = {"store": str(store), "subscribe": topic, "columns": _COLUMNS}
    reader = StoreBatchReader(read_options(given, streaming=False))
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    return _plain(pa.Table.from_batches(batches))


def read_archive(directory: Path) -> pa.Table:
    """Return an archive's messages, from the files that are in the log of Spark's sink."""
    columns = _COLUMNS.split(",")
    paths = [urlsplit(uri).path for uri in listed_files(directory / "_spark_metadata")]
    return _plain(pa.concat_tables([pq.ParquetFile(path).read(columns=columns) for path in paths]))


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
    """Compare messages and, if they are `in_queues` of a topic, their order."""
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
    """Return the number of messages out of order within their key, and the number of keys in several queues."""
    keys = messages["key"].combine_chunks().dictionary_encode().indices.to_numpy()
    queues, offsets = messages["queue_id"].to_numpy(), messages["queue_offset"].to_numpy()
    by_key = np.lexsort((offsets, queues, keys))
    keys, queues, numbers = keys[by_key], queues[by_key], messages["flag"].to_numpy()[by_key]
    same_key = keys[1:] == keys[:-1]
    return int((same_key & (numbers[1:] <= numbers[:-1])).sum()), int((same_key & (queues[1:] != queues[:-1])).sum())
