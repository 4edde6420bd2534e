"""Writes the store of a broker that has many small messages: log, queues and checkpoint, as a clean stop leaves them.

All records have the same size, so numpy fills in what differs: queue, queue offset, place in the log. A hundred million
take about two minutes and 14 GiB. The messages have a tag but no key, so there is no index.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from pyromq.protocol.messages.properties import encode_properties
from pyromq.protocol.messages.record import Record, blank_record, encode_host, encode_record
from pyromq.protocol.tag_filter import tag_code
from pyromq.store.files import OsFiles
from pyromq.store.index.index_checkpoint import IndexCheckpoint, IndexCheckpointFile
from pyromq.store.index.index_file import Geometry
from pyromq.store.small_files.checkpoint import Checkpoint, CheckpointFiles, Position
from pyromq.store.small_files.queue_ends import QueueEnds

TOPIC: Final = "backlog"
QUEUES: Final = 4
LOG_FILE: Final = 1 << 30
QUEUE_FILE: Final = 300_000 * 20
_TAG = "bench"
_HOST = encode_host("127.0.0.1", 10911)
_CHUNK = QUEUES * 50_000
_ENTRY = np.dtype([("place", ">i8"), ("size", ">i4"), ("code", ">i8")])


class Layout(NamedTuple):
    """One record as a template, and where its numbers are."""

    template: bytes
    fields: np.dtype[np.void]

    @classmethod
    def make(cls, now_ms: int, topic: str) -> Layout:
        """Return the layout of a small message."""
        record = Record(
            topic=topic, body=b"0123456789abcdef", properties=encode_properties({"TAGS": _TAG}).encode(),
            tags_code=tag_code(_TAG), born_timestamp_ms=now_ms, born_host=_HOST, store_host=_HOST,
        )  # fmt: skip
        template = encode_record(record, topic.encode(), 0, 0, now_ms)
        offsets = {"queue": (">i4", 12), "offset": (">i8", 20), "place": (">i8", 28)}
        fields = np.dtype(
            {
                "names": list(offsets), "formats": [kind for kind, _ in offsets.values()],
                "offsets": [at for _, at in offsets.values()], "itemsize": len(template),
            }
        )  # fmt: skip
        return cls(template, fields)

    @property
    def size(self) -> int:
        return len(self.template)

    @property
    def in_a_file(self) -> int:
        """How many records fit into a log file, with the eight bytes that end it."""
        return (LOG_FILE - 8) // self.size


def write_backlog(store: Path, messages: int, topic: str = TOPIC) -> None:
    """Write a store with so many messages into an empty directory."""
    now_ms = time.time_ns() // 1_000_000
    layout = Layout.make(now_ms, topic)
    (store / "commitlog").mkdir(parents=True)
    queues = [store / "consumequeue" / topic / str(queue) for queue in range(QUEUES)]
    for directory in queues:
        directory.mkdir(parents=True)
    for first in range(0, messages, layout.in_a_file):
        _write_log_file(store / "commitlog", layout, first, min(layout.in_a_file, messages - first), queues)
    for directory in queues:
        for path in directory.iterdir():
            _lengthen(path, QUEUE_FILE)
    files, (whole, rest) = OsFiles(), divmod(messages, layout.in_a_file)
    end = whole * LOG_FILE + rest * layout.size
    QueueEnds(store, files).write({topic: {queue: len(range(queue, messages, QUEUES)) for queue in range(QUEUES)}})
    IndexCheckpointFile(store, files).write(IndexCheckpoint(end, 0, 1), Geometry())
    CheckpointFiles(store, files).write(Checkpoint(now_ms, now_ms, now_ms), Position(end, end))
    write_topics(store, {topic: QUEUES})


def _write_log_file(directory: Path, layout: Layout, first: int, count: int, queues: list[Path]) -> None:
    start = first // layout.in_a_file * LOG_FILE
    path = directory / f"{start:020d}"
    with path.open("wb") as file:
        for at in range(first, first + count, _CHUNK):
            numbers = np.arange(at, min(at + _CHUNK, first + count), dtype=np.int64)
            records = np.frombuffer(bytearray(layout.template * len(numbers)), layout.fields)
            places = start + (numbers - first) * layout.size
            records["queue"], records["offset"] = numbers % QUEUES, numbers // QUEUES
            records["place"] = places
            file.write(records.tobytes())
            for queue, target in enumerate(queues):
                mine = numbers % QUEUES == queue
                _append_entries(target, numbers[mine] // QUEUES, places[mine], layout.size)
        if count == layout.in_a_file:
            file.write(blank_record(LOG_FILE - count * layout.size))
    _lengthen(path, LOG_FILE)


def _append_entries(
    directory: Path, offsets: np.ndarray[tuple[int], np.dtype[np.int64]],
    places: np.ndarray[tuple[int], np.dtype[np.int64]], size: int,
) -> None:  # fmt: skip
    entries = np.zeros(len(offsets), _ENTRY)
    entries["place"], entries["size"], entries["code"] = places, size, tag_code(_TAG)
    files = offsets * _ENTRY.itemsize // QUEUE_FILE
    for number in np.unique(files):
        with (directory / f"{int(number) * QUEUE_FILE:020d}").open("ab") as file:
            file.write(entries[files == number].tobytes())


def _lengthen(path: Path, size: int) -> None:
    with path.open("r+b") as file:
        file.truncate(size)


def write_topics(store: Path, topics: Mapping[str, int]) -> None:
    """Write the table of topics that a broker reads when it starts, each with its number of queues."""
    rows = {
        topic: {
            "order": False, "perm": 6, "readQueueNums": queues, "writeQueueNums": queues, "topicName": topic,
            "topicFilterType": "SINGLE_TAG", "topicSysFlag": 0,
        }
        for topic, queues in topics.items()
    }  # fmt: skip
    (store / "config").mkdir(parents=True, exist_ok=True)
    table = {"topicConfigTable": rows, "dataVersion": {"timestamp": 1, "counter": 1}}
    (store / "config" / "topics.json").write_text(json.dumps(table))
