"""The messages of the comparison: created in a PyroMQ store, served by a broker, and copied into Kafka."""

from __future__ import annotations

import json
import random
import shutil
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

from interop.servers import Server
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from pyromq.protocol.bodies import TopicConfig, TopicConfigSerializeWrapper
from pyromq.protocol.bodies.fastjson import dumps_pretty
from pyromq.protocol.messages.properties import encode_properties
from pyromq.protocol.messages.record import Record, encode_host
from pyromq.protocol.tag_filter import tag_code
from pyromq.store.config import StoreConfig
from pyromq.store.message_store import MessageStore

QUEUES = 8
_PREFIX = "peers-"
_GROUP = 1000
_NUMBER = 16
_HOST = encode_host("127.0.0.1", 10911)
_TAG = "paid"
_TAGS_CODE = tag_code(_TAG)
_PROPERTIES = encode_properties({"TAGS": _TAG, "KEYS": "k%d", "UNIQ_KEY": "7F0000010001%020X", "CLUSTER": "c"}).encode()
_FOR_YEARS = "fileReservedTime=876000"


class Topic(NamedTuple):
    """A number of messages with bodies of one size; the topic's name has both, so a directory can hold several."""

    rows: int
    body_size: int

    @property
    def name(self) -> str:
        return f"{_PREFIX}{self.rows}-{self.body_size}"


class Digest(NamedTuple):
    """What both sides must agree on. All bodies differ, so a swapped or repeated one is noticed."""

    rows: int
    bytes: int
    checksum: int


# --- PyroMQ


def fill(store_root: Path, topics: list[Topic]) -> None:
    """Make sure that a store has all messages of the topics, and that a broker knows them."""
    with MessageStore(StoreConfig(root=store_root), lambda: time.time_ns() // 1_000_000) as store:
        for topic in topics:
            stored = sum(store.max_offset(topic.name, queue_id) for queue_id in range(QUEUES))
            _append(store, topic, stored)
        names = [name for name in store.topics if name.startswith(_PREFIX)]
    table = {name: TopicConfig(topic_name=name, read_queue_nums=QUEUES, write_queue_nums=QUEUES) for name in names}
    path = store_root / "config" / "topics.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(dumps_pretty(TopicConfigSerializeWrapper(topic_config_table=table)))


def _append(store: MessageStore, topic: Topic, first: int) -> None:
    stock = random.Random(1).randbytes(2 * topic.body_size)
    for start in range(first, topic.rows, _GROUP):
        for number in range(start, min(start + _GROUP, topic.rows)):
            store.put(_record(topic, number, stock))
        store.commit()


def _record(topic: Topic, number: int, stock: bytes) -> Record:
    place = number % topic.body_size
    return Record(
        topic=topic.name, body=b"%0*d" % (_NUMBER, number) + stock[place : place + topic.body_size - _NUMBER],
        queue_id=number % QUEUES, properties=_PROPERTIES % (number, number), tags_code=_TAGS_CODE,
        born_timestamp_ms=1_700_000_000_000 + number, born_host=_HOST, store_host=_HOST,
    )  # fmt: skip


class PyroMQ(Server):
    """Name server and broker on the store, in one separate process."""

    def __init__(self, directory: Path) -> None:
        ports = ["--namesrv-port", "0", "--port", "0", "--console-port", "0"]
        command = [sys.executable, "-m", "pyromq.cli.main", "up", "--data", str(directory), "--set", _FOR_YEARS, *ports]
        super().__init__(command, directory / "up.log", r"ready: namesrv \S+ broker")
        self.namesrv = self.said().partition("ready: namesrv ")[2].split()[0]


# --- Kafka


class Copies:
    """The topics that a Kafka directory has in full; a partial copy looks like a full one, so it is not kept."""

    def __init__(self, directory: Path) -> None:
        self._list, self._begun = directory / "copied.json", directory / "copying"
        if self._begun.exists():
            shutil.rmtree(directory)

    def missing(self, topics: list[Topic]) -> list[Topic]:
        """Return the topics that are not copied yet."""
        return [topic for topic in topics if topic.name not in self._copied()]

    def copy(self, topic: Topic, source: DataFrame, address: str) -> None:
        """Send all messages of a topic to Kafka, each to the partition with its queue's number."""
        self._begun.touch()
        rows = source.selectExpr("topic", "queue_id AS partition", "keys[0] AS key", "body AS value")
        rows.write.format("kafka").option("kafka.bootstrap.servers", address).option("topic", topic.name).save()
        self._list.write_text(json.dumps([*self._copied(), topic.name]))
        self._begun.unlink()

    def _copied(self) -> list[str]:
        copied: list[str] = json.loads(self._list.read_text()) if self._list.exists() else []
        return copied


def digest(frame: DataFrame, body: str) -> Digest:
    """Read everything and return what can be compared."""
    sums: dict[str, Any] = frame.select(
        f.count("*").alias("rows"), f.sum(f.length(body)).alias("bytes"), f.sum(f.crc32(body)).alias("checksum")
    ).first().asDict()  # type: ignore[union-attr]  # an aggregate has a row  # fmt: skip
    return Digest(**{name: value or 0 for name, value in sums.items()})
