"""Keys for the index, of odd messages into odd files: both lanes have to make the same of them."""

from __future__ import annotations

import random
from types import ModuleType

import numpy as np

from pyromq.lane.keys import LinkKeys
from pyromq.store.files import OsFiles
from pyromq.store.index.index_file import Geometry
from pyromq.store.index.index_writer import IndexWriter
from pyromq.store.index.key_batch import KeyBatch, plain_hash_keys
from pyromq.store.index.key_hash import StoredKeys
from tests.lane.places import NOW_MS

_TOPICS = ["orders"] * 6 + ["%RETRY%g", "bills", "", "größe"]
_NAMES = ["UNIQ_KEY", "KEYS"] * 5 + ["TAGS", "MYKEYS", "UNIQ_KEYS", "KEY", ""]
_VALUES = ["7F0000010001", "o-1", "a b", " a  b ", "", " ", "\x01", "x\x01y", "abydncvw", "k" * 300, "é", "订 1"]


def odd_messages(chance: random.Random) -> StoredKeys:
    """Return some messages, as the index is told of them."""
    messages: StoredKeys = []
    values = _VALUES if chance.random() < 0.2 else _VALUES[:-2]
    topics = _TOPICS if chance.random() < 0.2 else _TOPICS[:-1]
    for number in range(chance.choice((0, 1, 3, 40, 700))):
        parts = [_property(chance, values) for _ in range(chance.choice((0, 1, 2, 2, 3, 6)))]
        text = chance.choice(("", "", "\x02")) + "\x02".join(parts)
        messages += chance.choice(topics), text.encode(), number * 91, NOW_MS + chance.randrange(-9, 9_000_000)
    return messages


def _property(chance: random.Random, values: list[str]) -> str:
    if chance.random() < 0.05:
        return chance.choice(("", "KEYS", "UNIQ_KEY", "\x01", "KEYSx\x01a"))
    return f"{chance.choice(_NAMES)}\x01{chance.choice(values)}"


def hash_difference(module: ModuleType, messages: StoredKeys) -> str:
    """Say in what the native hashes differ from the plain ones; empty if in nothing."""
    found, expected = module.hash_keys(messages), plain_hash_keys(messages)
    if found is None:
        texts = [part if isinstance(part, bytes) else str(part).encode() for part in messages]
        return "" if any(not text.isascii() for text in texts) else "left to the plain lane without a reason"
    columns = [column.tobytes() for column in expected]
    return "" if [*found] == columns else f"{[*found]} instead of {columns}"


class MemoryFiles(OsFiles):
    """One file of bytes in memory; writes may fail."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.is_broken = False

    def open(self, path: str, *, create: bool = False) -> int:
        return 0

    def close(self, descriptor: int) -> None:
        pass

    def ftruncate(self, descriptor: int, length: int) -> None:
        self.data = self.data[:length].ljust(length, b"\0")

    def pwrite(self, descriptor: int, data: bytes | memoryview, position: int) -> int:
        if self.is_broken:
            raise OSError(5, "broken")
        self.data[position : position + len(data)] = data
        return len(data)


class Desk:
    """An index file with a lane of its own."""

    def __init__(self, geometry: Geometry, link: LinkKeys | None) -> None:
        self.files = MemoryFiles()
        self.writer = IndexWriter("", 1, geometry, self.files, create=True)
        self.writer._link = link

    def put(self, batch: KeyBatch, *, fails: bool) -> None:
        """Put keys; the disk fails if told."""
        self.files.is_broken = fails
        try:
            self.writer.put(batch)
        except OSError:
            assert fails
        self.files.is_broken = False

    @property
    def state(self) -> tuple[object, ...]:
        """All that counts: header, file, and slots; numbers that are none of an entry count as 0."""
        writer = self.writer
        slots = writer._newest(np.arange(writer.geometry.slots))
        return writer.header, bytes(self.files.data), slots.tolist()

    @property
    def changed(self) -> set[int]:
        """The pages that have to be written."""
        return set(np.flatnonzero(self.writer._changed).tolist())


def link_difference(link: LinkKeys, number: int) -> str:
    """Put random keys into two files, one by each lane; say in what they differ, empty if in nothing."""
    chance = random.Random(number)
    geometry = Geometry(chance.choice((1, 2, 7, 50, 3000)), chance.choice((8, 100, 2000)))
    native, plain = Desk(geometry, link), Desk(geometry, None)
    damaged = chance.choices(range(geometry.slots), k=chance.choice((0, 0, 3)))
    for slot in damaged:
        native.writer._slots[slot] = plain.writer._slots[slot] = chance.choice((-1, 1, 2, 5, 2**31 - 1))
    while (room := native.writer.room) and chance.random() < 0.9:
        count = chance.randint(1, min(room, chance.choice((1, 5, 700))))
        top = chance.choice((3, geometry.slots * 2, 2**31 - 1))
        hashes = np.array([chance.randint(0, top) for _ in range(count)], np.int32)
        offsets = np.sort(np.array([chance.randrange(2**50) for _ in range(count)], np.int64))
        times = np.array([chance.choice((0, -1, NOW_MS, NOW_MS + chance.randrange(10**7))) for _ in range(count)])
        fails = not damaged and chance.random() < 0.2  # a slot that is put back is put right
        for desk in (native, plain):
            desk.put(KeyBatch(hashes, offsets, times.astype(np.int64)), fails=fails)
        if native.state != plain.state:
            return f"{native.state} instead of {plain.state}"
        if not plain.changed <= native.changed:
            return f"pages {native.changed} instead of {plain.changed}"
    return ""
