"""Pulls at random, signed or not, and a queue, a log and a buffer to serve them from: the same for both lanes."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from random import Random

from pyromq.lane.callers import Caller, SignedPull, signed_pull
from pyromq.lane.pull_answers import packed_codes
from pyromq.lane.pull_serving import (
    CHUNK_ENTRIES,
    ENTRY_SIZE,
    NUMBERS,
    Chunk,
    KnownPull,
    LogPlace,
    PulledQueue,
    ServePulls,
)
from pyromq.lane.pull_shapes import plain_shape
from pyromq.protocol.acl import ACCESS_KEY, CODE, NONCE, SIGNATURE, TIME, sign
from pyromq.protocol.messages.record import SMALLEST_RECORD
from tests.lane.log_pieces import START as LOG_START
from tests.lane.log_pieces import log_piece
from tests.lane.places import KEY, LAST, NOW_MS, SECRET, new_caller

ENTRY = struct.Struct(">qiq")
START = 4096
FILE = bytes(range(256)) * 16
END = START + len(FILE)
ODD_NUMBERS = (-(1 << 63), -1, 0, 1, START - 1, END, (1 << 62), (1 << 63) - 1)
ODD_BYTES = (b'"', b"\\", b":", b"{", b"}", b"0", b"-", b" ", b'"opaque":1,', b"\0")


NUMBERING = {CODE: "11", NONCE: f"c0ffee.{LAST + 1}", TIME: str(NOW_MS)}
"""What our clients add to a signed request; the next of its connection."""


def pull_frame(
    topic: str, offset: int, commit_offset: int, opaque: int, more: Mapping[str, str] | None = None
) -> bytes:
    """Return a pull without the length of the frame."""
    fields = {"topic": topic, "queueOffset": str(offset), "commitOffset": str(commit_offset), **(more or {})}
    header = json.dumps(
        {"code": 11, "extFields": fields, "opaque": opaque}, separators=(",", ":"), ensure_ascii=False
    ).encode()
    return struct.pack(">I", len(header)) + header


def signature_of(
    topic: str, offset: int, commit_offset: int, more: Mapping[str, str], secret: str = SECRET
) -> dict[str, str]:
    """Return the fields that sign a pull with these."""
    fields = {"topic": topic, "queueOffset": str(offset), "commitOffset": str(commit_offset), ACCESS_KEY: KEY, **more}
    return {ACCESS_KEY: KEY, **more, SIGNATURE: sign(fields, b"", secret)}


def signed_pull_frame(topic: str, offset: int, commit_offset: int, opaque: int, more: Mapping[str, str]) -> bytes:
    """Return a signed pull with more fields, such as NUMBERING."""
    return pull_frame(topic, offset, commit_offset, opaque, signature_of(topic, offset, commit_offset, more))


def what_is_signed(caller: Caller, topic: str, more: Mapping[str, str]) -> SignedPull:
    """Return what pulls of a shape sign."""
    numbers = {"topic": topic, "queueOffset": "0", "commitOffset": "0"}
    found = signed_pull(caller, numbers | signature_of(topic, 0, 0, more))
    assert found is not None
    return found


class Queue:
    """A queue with entries, not all of them sound, of which some were read before."""

    def __init__(self, chance: Random) -> None:
        self.first = chance.choice((0, 3, 490, 1000))
        self.entries = b"".join(
            _entry(chance, index) for index in range(chance.choice((0, 80, 80, chance.randint(1, 80))))
        )
        self.per_file = chance.choice((7, 16, 50, 1000))
        end = self.first + len(self.entries) // ENTRY_SIZE
        self.min_offset = self.first + chance.choice((0, 0, 0, 5))
        self.max_offset = end - chance.choice((0, 0, 0, 1))
        self.checked_offset = chance.choice((0, 0, 0, self.first + 2))
        self.topic_name, self.queue_id = b"orders", 0
        self.is_removed = chance.random() < 0.03
        known = self.read(chance.randint(self.first, end), chance.choice((0, 1, 20, 64)))
        self.chunks = None if known is None else {known[0] // CHUNK_ENTRIES: known}

    def read(self, offset: int, count: int) -> Chunk | None:
        """Return entries from an offset on, to the end of their file."""
        count = min(count, self.max_offset - offset, self.per_file - offset % self.per_file)
        at = (offset - self.first) * ENTRY_SIZE
        return (offset, self.entries[at : at + count * ENTRY_SIZE]) if count > 0 else None


def _entry(chance: Random, index: int) -> bytes:
    at = START + index * 45 if chance.random() < 0.97 else chance.randint(START, END - SMALLEST_RECORD)
    size = chance.randint(SMALLEST_RECORD, 300)
    tag = chance.choice((0, 7, -7, 1 << 31, -(1 << 33)))
    if chance.random() < 0.002:
        at = chance.choice(ODD_NUMBERS)
    if chance.random() < 0.002:
        size = chance.choice((-(1 << 31), -1, 0, SMALLEST_RECORD - 1, (1 << 31) - 1))
    return ENTRY.pack(at, min(size, END - at) if START <= at < END and size > 0 else size, tag)


class Desk:
    """Where one lane serves some pulls; `seed` says which. What was asked and noted meanwhile is in `seen`."""

    def __init__(self, seed: int) -> None:
        chance = Random(seed)
        self.seen: list[object] = []
        self.queue = Queue(chance)
        self._chunk_size = chance.choice((1, 20, 64, 64))
        self._is_cold = chance.random() < 0.1
        self._bounds = (START, chance.choice((START, START, START + 500)), chance.choice((END, END, END - 500)))
        self._place = None if chance.random() < 0.5 else self._new_place()
        self._scratch = memoryview(bytearray(chance.choice((0, 2000, 100_000, 100_000, 100_000))))
        self.caller = chance.choice((None, new_caller()))
        self._number = LAST
        self._more = {
            topic: chance.choice(({}, {"größe": "é"}, {"z": "1"}, NUMBERING, NUMBERING | {"pyromqP": "x", "p": "y"}))
            for topic in ("orders", "bills", "unknown")
        }
        self._known = dict(self._learned(chance, topic) for topic in ("orders", "bills"))
        self._frames = [self._frame(chance) for _ in range(chance.randint(1, 6))]
        self._start, self._most = chance.choice((0, 0, 0, 1)), chance.randint(1, 7)

    def _learned(self, chance: Random, topic: str) -> tuple[bytes, KnownPull]:
        codes = chance.choice((None, None, None, packed_codes(frozenset({7})), packed_codes(frozenset({0, 7, -7}))))
        most = chance.choice((1, 3, 32))
        count, looked_at = (most, most) if codes is None else (2 * most, 800)
        most_bytes = chance.choice((0, 300, 1000, 1 << 18))
        numbers = NUMBERS.pack(most, most_bytes, count, looked_at, chance.choice((0, 1)), self.queue.per_file)

        def note(*numbers: int) -> bool:
            self.seen.append((topic, numbers))
            return numbers[0] % 13 != 0

        if self.caller is None:
            found = plain_shape(pull_frame(topic, 0, 0, 0, self._more[topic]))
            signed = None
        else:
            found = plain_shape(signed_pull_frame(topic, 0, 0, 0, self._more[topic]))
            caller = self.caller if chance.random() < 0.95 else new_caller()
            signed = what_is_signed(caller, topic, self._more[topic]) if chance.random() < 0.97 else None
        assert found is not None
        return found.shape, KnownPull(self.queue, codes, numbers, note, signed)

    def _fields(self, chance: Random, topic: str, offset: int, commit_offset: int) -> dict[str, str]:
        """Return what a pull has besides its numbers."""
        more = dict(self._more[topic])
        if NONCE in more and self.caller is not None:
            self._number += chance.choice((1, 1, 1, 1, 1, 0, 7))
            more[NONCE] = f"c0ffee.{self._number}"
            if chance.random() < 0.1:
                more[NONCE] = chance.choice(("c0ffee.", "other.9", "9", ".9", "c0ffee.x", "c0ffee.1" + "0" * 18, "é.1"))
            if chance.random() < 0.1:
                more[TIME] = str(chance.choice(("", "x", "-1", NOW_MS - 300_000, NOW_MS + 300_001, NOW_MS - 300_001)))
        if self.caller is None:
            return more
        secret = SECRET if chance.random() < 0.95 else "other"
        fields = signature_of(topic, offset, commit_offset, more, secret)
        if chance.random() < 0.05:
            fields[SIGNATURE] = chance.choice(("", "=", fields[SIGNATURE][:-1], fields[SIGNATURE] + "A", "é" * 14))
        return fields

    def _frame(self, chance: Random) -> bytes | memoryview:
        topic = chance.choice(("orders", "orders", "bills", "bills", "bills", "unknown"))
        near = chance.randint(self.queue.first - 1, max(self.queue.max_offset, self.queue.first) + 1)
        offset = chance.choice((near, near, near, self.queue.min_offset, (1 << 59)))
        commit_offset, opaque = chance.randint(-1, 1 << 40), chance.getrandbits(31)
        fields = self._fields(chance, topic, offset, commit_offset)
        frame = bytearray(pull_frame(topic, offset, commit_offset, opaque, fields))
        if chance.random() < 0.05:
            at = chance.randrange(len(frame))
            frame[at : at + chance.randint(0, 3)] = chance.choice(ODD_BYTES)
        return chance.choice((bytes, memoryview))(frame)

    def serve(self, lane: ServePulls) -> tuple[int, bytes, bool]:
        """Return what a lane answers."""
        answered, answers, more = lane(
            self._frames, self._start, self._most, self._known, self._place, self, self._scratch, self.caller, NOW_MS
        )
        self.seen.append(self.caller and list(self.caller.numbers.items()))
        return answered, bytes(answers), more

    # --- where the lane reads

    def chunk(self, queue: PulledQueue, offset: int, count: int, /) -> Chunk | None:
        self.seen.append(("chunk", offset, count))
        found = None if self._is_cold else self.queue.read(offset, self._chunk_size)
        self.queue.chunks = None if found is None else {offset // CHUNK_ENTRIES: found}
        return found

    def place(self, first: int, last: int, /) -> LogPlace | None:
        self.seen.append(("place", first, last))
        return self._new_place() if START <= first < last <= END else None

    def _new_place(self) -> LogPlace:
        low, hot, high = self._bounds
        return LogPlace(low, hot, high, START, FILE)


def difference(seed: int, one: ServePulls, other: ServePulls) -> str:
    """Say what two lanes do differently with the same pulls; nothing if they agree."""
    desks = Desk(seed), Desk(seed)
    found = desks[0].serve(one), desks[1].serve(other)
    if found[0] != found[1]:
        return f"{found[0]!r} and {found[1]!r}"
    return "" if desks[0].seen == desks[1].seen else f"{desks[0].seen} and {desks[1].seen}"


class OldDesk:
    """Where one lane serves a pull of records that were written before the last start, not all of them sound."""

    def __init__(self, seed: int) -> None:
        chance = Random(seed)
        self.seen: list[object] = []
        self._log = log_piece(chance)
        queue_id = chance.choice((0, 1, 2, 7))
        places = [(at, size, offset) for at, size, owner, offset in _records(self._log) if owner == queue_id]
        self._entries = b"".join(ENTRY.pack(LOG_START + at, size, 0) for at, size, _ in places)
        self.queue = queue = Queue(Random(0))
        queue.topic_name, queue.queue_id = chance.choice((b"orders", b"orders", b"bills")), queue_id
        queue.min_offset = places[0][2] if places and 0 <= places[0][2] < 1 << 40 else 0
        queue.max_offset = queue.min_offset + len(places)
        queue.checked_offset, queue.is_removed, queue.chunks = 1 << 50, False, None
        numbers = NUMBERS.pack(32, 1 << 20, 32, 32, 0, 1 << 60)
        found = plain_shape(pull_frame("orders", 0, 0, 0))
        assert found is not None
        self._known = {found.shape: KnownPull(queue, None, numbers, self._note)}
        self._frames: list[bytes | memoryview] = [pull_frame("orders", queue.min_offset, 0, 1)]

    def _note(self, *numbers: int) -> bool:
        self.seen.append(numbers)
        return True

    def serve(self, lane: ServePulls) -> tuple[int, bytes]:
        """Return what a lane answers."""
        answered, answers, _ = lane(
            self._frames, 0, 1, self._known, None, self, memoryview(bytearray(1 << 20)), None, 0
        )
        return answered, bytes(answers)

    def chunk(self, queue: PulledQueue, offset: int, count: int, /) -> Chunk | None:
        return (offset, self._entries) if self._entries else None

    def place(self, first: int, last: int, /) -> LogPlace | None:
        return LogPlace(LOG_START, LOG_START, LOG_START + len(self._log), LOG_START, self._log)


def _records(log: bytes) -> Iterator[tuple[int, int, int, int]]:
    """Yield what may be records: place, size, queue and offset there."""
    at = 0
    while at + SMALLEST_RECORD <= len(log):
        size, queue_id, offset = struct.unpack_from(">i8xi4xq", log, at)
        if not SMALLEST_RECORD <= size <= len(log) - at:
            return
        yield at, size, queue_id, offset
        at += size


def old_difference(seed: int, one: ServePulls, other: ServePulls) -> str:
    """Say what two lanes do differently with old records; nothing if they agree."""
    desks = OldDesk(seed), OldDesk(seed)
    found = desks[0].serve(one), desks[1].serve(other)
    if found[0] != found[1]:
        return f"{found[0]!r} and {found[1]!r}"
    return "" if desks[0].seen == desks[1].seen else f"{desks[0].seen} and {desks[1].seen}"
