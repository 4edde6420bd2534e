"""Crash images: every write and flush of a store is recorded; what a crash may leave at any point is recovered.

    python -m tests.faults.crash_images --images 20000

The store sees sends, flushes, checkpoints, rolls, deleted topics, retention, saved tables, their journals and restarts.
Queue entries wait in memory, as in a broker, and some are written now and then; in some lives they are written at once.
The real recovery opens each image. Then every acknowledged and durable message is there at its offset, with its bytes
and keys. Nothing is there that was not sent, or was deleted. Offsets are dense, and nothing counts as damage. New
messages are stored and read, and another restart has nothing left to do.
"""

from __future__ import annotations

import argparse
import logging
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Struct, field

from pyromq.protocol.messages.message import MessageExt
from pyromq.protocol.messages.properties import encode_properties
from pyromq.protocol.messages.record import Record, decode_messages
from pyromq.store.config import StoreConfig
from pyromq.store.message_store import GetStatus, MessageStore
from pyromq.store.small_files.json_file import JsonFile
from pyromq.store.small_files.table_file import TableFile, read_table
from pyromq.store.small_files.table_formats import OFFSETS
from pyromq.store.small_files.table_journal import JournalRecord
from pyromq.store.write.queue_tails import LIMIT
from tests.faults.disk_model import Disk, Event, Recorder, Remark, Tree, build
from tests.store.helpers import HOST, FakeTime, QuickFiles, small_config

TOPICS: Final = ("orders", "payments", "%RETRY%billing")
QUEUES: Final = 2
FLUSH_TYPES: Final = ("SYNC_FLUSH", "ASYNC_FLUSH")
TABLE: Final = "config/changedSettings.json"
OFFSET_KEY: Final = "orders@billing"

Place = tuple[str, int, int]


class Sent(Struct, frozen=True):
    """A message that was given to the store."""

    place: Place
    body: bytes
    physical_offset: int

    @property
    def key(self) -> str:
        """The key to find it by."""
        return self.body[:12].decode()


class Acknowledged(Struct, frozen=True):
    """Messages that were acknowledged."""

    messages: list[Sent]


class Durable(Struct, frozen=True):
    """Everything acknowledged before is flushed."""


class Deleting(Struct, frozen=True):
    """A topic is being deleted, with all its messages."""

    topic: str


class Deleted(Struct, frozen=True):
    """From now on it must not come back."""

    topic: str


class Expiring(Struct, frozen=True):
    """Log files before an offset may be deleted."""

    before: int


class Saved(Struct, frozen=True):
    """A table was saved, and contains how often."""

    version: int


class Committed(Struct, frozen=True):
    """An offset was saved, in the journal of its table or with the table."""

    offset: int


class History(Struct):
    """What is known at one moment."""

    sent: dict[Place, set[bytes]] = field(default_factory=dict)
    acknowledged: dict[Place, Sent] = field(default_factory=dict)
    durable: dict[Place, Sent] = field(default_factory=dict)
    deleted: set[bytes] = field(default_factory=set)
    expired_before: int = 0
    version: int = 0
    offset: int = 0

    def learn(self, remark: object) -> None:
        """Apply the next event."""
        match remark:
            case Sent(place, body):
                self.sent.setdefault(place, set()).add(body)
            case Acknowledged(messages):
                self.acknowledged.update({message.place: message for message in messages})
            case Durable():
                self.durable = dict(self.acknowledged)
            case Deleting(topic):
                self.acknowledged = _without(self.acknowledged, topic)
                self.durable = _without(self.durable, topic)
            case Deleted(topic):
                places = [place for place in self.sent if place[0] == topic]
                self.deleted.update(*(self.sent.pop(place) for place in places))
            case Expiring(before):
                self.expired_before = before
            case Saved(version):
                self.version = version
            case Committed(offset):
                self.offset = offset


def _without(messages: dict[Place, Sent], topic: str) -> dict[Place, Sent]:
    return {place: message for place, message in messages.items() if place[0] != topic}


# --- the life that is recorded


class Life:
    """A store that is used in every way while its disk is recorded."""

    def __init__(self, root: Path, flush: str, seed: int) -> None:
        self._chance = random.Random(seed)
        self.files = Recorder(root)
        self._is_sync = flush == "SYNC_FLUSH"
        self._config = config_of(root, flush_disk_type=flush, max_store_bytes=6 * 4096)
        self._time = FakeTime()
        self._number = self._version = self._offset = 0

    def live(self, restarts: int, steps: int) -> None:
        """Do this many random things between two restarts."""
        for _ in range(restarts):
            self._offsets = TableFile(self._config.root / "config" / OFFSETS.name, OFFSETS, self.files)
            self._offsets.load()
            with MessageStore(self._config, self._time, self.files) as store:
                store.tails.limit = self._chance.choice([0, LIMIT, LIMIT])
                for _ in range(steps):
                    self._step(store)
                self.files.remark(Acknowledged([]))
            self.files.remark(Durable())

    def _step(self, store: MessageStore) -> None:
        works = (
            *(self._send, self._flush, self._checkpoint, self._note_position, self._delete, self._clean, self._save),
            *(self._commit_offset, self._write_tails),
        )
        self._chance.choices(works, (60, 6, 5, 4, 2, 4, 2, 8, 12))[0](store)

    def _send(self, store: MessageStore) -> None:
        messages = [self._put(store) for _ in range(self._chance.choice([1, 1, 2, 5]))]
        store.commit()
        self.files.remark(Acknowledged(messages))
        if self._is_sync:
            self.files.remark(Durable())

    def _put(self, store: MessageStore) -> Sent:
        self._number += 1
        topic, queue_id = self._chance.choice(TOPICS), self._chance.randrange(QUEUES)
        body = b"%012d" % self._number + bytes([97 + self._number % 26]) * self._chance.choice([0, 20, 300, 900, 1500])
        place = store.put(message(topic, queue_id, body))
        sent = Sent((topic, queue_id, place.queue_offset), body, place.physical_offset)
        self.files.remark(sent)
        return sent

    def _flush(self, store: MessageStore) -> None:
        store.flusher.flush()
        self.files.remark(Durable())

    def _checkpoint(self, store: MessageStore) -> None:
        store.flusher.checkpoint()
        self.files.remark(Durable())

    def _write_tails(self, store: MessageStore) -> None:
        store.tails.write_some(self._chance.choice([1, 2, 64]))

    def _note_position(self, store: MessageStore) -> None:
        store.flusher.note_position()

    def _delete(self, store: MessageStore) -> None:
        topic = self._chance.choice(TOPICS)
        self.files.remark(Deleting(topic))
        store.cleaner.delete_topic(topic)
        store.cleaner.save_deletions()
        store.cleaner.close()
        self.files.remark(Deleted(topic))

    def _clean(self, store: MessageStore) -> None:
        self.files.remark(Expiring(store.flushed_offset // 4096 * 4096))
        store.cleaner.run()
        while store.cleaner.go_on():
            pass
        store.cleaner.close()

    def _save(self, store: MessageStore) -> None:
        self._version += 1
        JsonFile(self._config.root / TABLE, self.files).save(b'{"version":%d}' % self._version)
        self.files.remark(Saved(self._version))

    def _commit_offset(self, store: MessageStore) -> None:
        """Save an offset as a broker does: mostly in the journal, sometimes by writing the whole table."""
        self._offset += 1
        file, number = self._offsets, self._offsets.number + 1
        if file.needs_whole or self._chance.random() < 0.3:
            file.save(OFFSETS.print([(OFFSET_KEY, {0: self._offset})]), number)
            self.files.remark(Committed(self._offset))
            file.cut(number)
            file.number = number
        else:
            record = JournalRecord(number=number, rows={OFFSET_KEY: {0: self._offset}})
            file.append([(number, msgspec.json.encode(record))])
            self.files.remark(Committed(self._offset))


def config_of(root: Path, **changes: Any) -> StoreConfig:
    """Return the settings of a store with files of a few messages."""
    return small_config(root, max_hash_slots=8, max_index_entries=40, **changes)


def message(topic: str, queue_id: int, body: bytes) -> Record:
    """Return a message whose first bytes are its key."""
    properties = encode_properties({"KEYS": body[:12].decode()}).encode()
    return Record(topic=topic, body=body, queue_id=queue_id, properties=properties, store_host=HOST)


# --- what is checked


class Problem(Exception):
    """A violation of a promise."""


class Check:
    """One image, opened and checked."""

    def __init__(self, root: Path, history: History, required: dict[Place, Sent]) -> None:
        self._root = root
        self._history = history
        self._required = required

    def run(self) -> None:
        """Raise Problem, or the store's error, if something is wrong."""
        self._check_table()
        store = self._open()
        self._check_messages(store)
        self._go_on(store)
        seen = self._read_all(store)
        store.close()
        store = self._open()
        self._expect(self._read_all(store) == seen, "another restart changed what is there")
        store.close()

    def _open(self) -> MessageStore:
        store = MessageStore(config_of(self._root), FakeTime(1_800_000_000_000), QuickFiles())
        store.open()
        return store

    def _check_table(self) -> None:
        found = JsonFile(self._root / TABLE).load(lambda text: int(text.split(b":")[1].split(b"}")[0]))
        self._expect((found or 0) >= self._history.version, f"the table is of version {found}")
        table = read_table(self._root / "config", OFFSETS)
        offset = table.offset_table[OFFSET_KEY][0] if table else 0
        self._expect(offset in (self._history.offset, self._history.offset + 1), f"the committed offset is {offset}")

    def _check_messages(self, store: MessageStore) -> None:
        self._expect(not store.fences, f"taken for damage: {store.fences.ranges()}")
        found = self._read_all(store)
        for place, body in found.items():
            self._expect(body not in self._history.deleted, f"{place} was deleted and is back")
            self._expect(body in self._history.sent.get(place, ()), f"{place} has what was never sent: {body[:20]!r}")
        for place, sent in self._required.items():
            if sent.physical_offset >= self._history.expired_before:
                self._expect(found.get(place) == sent.body, f"{place} is lost: {sent.body[:12]!r}")
                self._expect(self._is_found(store, sent), f"{place} is not found by its key")

    def _is_found(self, store: MessageStore, sent: Sent) -> bool:
        records = store.query(sent.place[0], sent.key, 32).records
        return sent.body in [one.body for one in decode_messages(b"".join(records))]

    def _read_all(self, store: MessageStore) -> dict[Place, bytes]:
        return {
            (topic, queue_id, one.queue_offset): one.body
            for topic in store.topics
            for queue_id in store.queue_ids(topic)
            for one in self._read_queue(store, topic, queue_id)
        }

    def _read_queue(self, store: MessageStore, topic: str, queue_id: int) -> Iterator[MessageExt]:
        offset, end = store.min_offset(topic, queue_id), store.max_offset(topic, queue_id)
        while offset < end:
            result = store.get(topic, queue_id, offset, 32)
            self._expect(result.status is GetStatus.FOUND, f"{topic} {queue_id} {offset}: {result.status}")
            for one in decode_messages(b"".join(result.views)):
                self._expect(one.queue_offset == offset, f"{topic} {queue_id}: {one.queue_offset}, not {offset}")
                self._expect((one.topic, one.queue_id) == (topic, queue_id), f"another's message in {topic} {queue_id}")
                offset += 1
                yield one

    def _go_on(self, store: MessageStore) -> None:
        before = self._read_all(store)
        places = {}
        for number, topic in enumerate((*TOPICS, "new")):
            body = b"%012d" % (9_000_000 + number) + b"n" * 700
            place = store.put(message(topic, 0, body))
            places[topic, 0, place.queue_offset] = body
        store.commit()
        self._expect(self._read_all(store) == before | places, "what was sent after the restart is not there")

    def _expect(self, condition: bool, problem: str) -> None:
        if not condition:
            raise Problem(problem)


# --- images


class Image(NamedTuple):
    """The files after a crash."""

    event: int
    tree: Tree
    killed: bool
    """True if only the process died: then everything acknowledged is there."""


def images(events: list[Event], history: History, chance: random.Random, each: int, share: float) -> Iterator[Image]:
    """Yield what crashes may leave after a fraction of the events, several trees for each; the history follows."""
    disk = Disk()
    for number, event in enumerate(events):
        if isinstance(event, Remark):
            history.learn(event.value)
            continue
        disk.apply(event)
        if chance.random() < share:
            yield Image(number, disk.nothing(), killed=False)
            for _ in range(each):
                yield Image(number, disk.something(chance), killed=False)
            yield Image(number, disk.everything(), killed=True)


class Report(Struct):
    """The result of a campaign."""

    images: int = 0
    required: int = 0
    problems: list[str] = field(default_factory=list)


def campaign(
    count: int, seed: int, scratch: Path, *, restarts: int = 3, steps: int = 25, each: int = 2, share: float = 1.0
) -> Report:
    """Check this many images, from as many stores as necessary."""
    report = Report()
    chance = random.Random(seed)
    while report.images < count:
        flush = FLUSH_TYPES[chance.randrange(2)]
        life_seed = chance.randrange(1 << 30)
        root = scratch / f"life-{life_seed}"
        life = Life(root, flush, life_seed)
        life.live(restarts, steps)
        shutil.rmtree(root)
        history = History()
        for image in islice(images(life.files.events, history, chance, each, share), count - report.images):
            name = f"{flush} life {life_seed} event {image.event} {'kill' if image.killed else 'power cut'}"
            _check_image(report, scratch / "image", image, history, name)
    return report


def _check_image(report: Report, root: Path, image: Image, history: History, name: str) -> None:
    shutil.rmtree(root, ignore_errors=True)
    build(image.tree, root)
    required = history.acknowledged if image.killed else history.durable
    report.images += 1
    report.required += len(required)
    try:
        Check(root, history, required).run()
    except Exception as error:
        report.problems.append(f"{name}: {type(error).__name__}: {error}")


def scratch_directory() -> tempfile.TemporaryDirectory[str]:
    """Return a directory in memory if there is one, because thousands of stores are created."""
    memory = Path("/dev/shm")
    return tempfile.TemporaryDirectory(prefix="pyromq-crash-", dir=memory if memory.is_dir() else None)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--each", type=int, default=2, help="random images at each point")
    options = parser.parse_args()
    logging.disable()
    began = time.monotonic()
    with scratch_directory() as scratch:
        report = campaign(options.images, options.seed, scratch=Path(scratch), each=options.each)
    seconds = time.monotonic() - began
    figures = f"{report.images} crash images in {seconds:.0f} s, {report.required} times a message that must be there"
    print(f"seed {options.seed}: {figures}, {len(report.problems)} problems")
    for problem in report.problems[:20]:
        print(problem)
    return 1 if report.problems else 0


if __name__ == "__main__":
    sys.exit(main())
