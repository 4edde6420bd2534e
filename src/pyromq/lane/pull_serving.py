"""Pulls of known shapes, answered one after the other: the plain form of `serve` in `c/_pulls.c`.

Whoever knows shapes (broker/pulls/quick_pulls.py) has looked at everything that pulls of a shape have in common, and
forgets a shape when that may have changed. What is left to do for each pull is here: where it begins, the entries of
its queue, the records, the answer. The first pull that is not plain ends it; the ordinary path serves that one.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, Protocol, TypeAlias, cast

from pyromq.lane import native
from pyromq.lane.callers import Caller, SignedPull, next_number, note_number
from pyromq.lane.pull_answers import FoundFrame, Owner, are_plain_records, plain_answer
from pyromq.lane.pull_shapes import PullShape, plain_shape

ENTRY_SIZE: Final = 20
NUMBERS: Final = struct.Struct("=6q")
"""What `KnownPull.numbers` holds: most messages, most bytes, entries to read, entries that the ordinary path would look
at, the broker to suggest, and entries of a file of the queue."""
_PLACE: Final = struct.Struct(">qi8x")
_HIGHEST: Final = (1 << 63) - (1 << 31)  # of a position: a record behind it would not fit into a log

CHUNK_ENTRIES: Final = 512
"""Entries of a chunk; there are some more behind them, for a pull that begins with the last."""
Chunk: TypeAlias = tuple[int, bytes | bytearray]
"""Entries of a queue that were read, and the offset of the first."""
Note: TypeAlias = Callable[[int, int, int, int], bool]
"""Called with commit offset, end of the queue, messages and bytes before a pull is answered; False: it cannot be."""


class PulledQueue(Protocol):
    """A queue, as far as a pull looks at it."""

    min_offset: int
    max_offset: int
    checked_offset: int
    """From here on records were written in this life of the store; those before are looked at."""
    topic_name: bytes
    queue_id: int
    is_removed: bool
    chunks: dict[int, Chunk] | None
    """What was read, by the offset at which pulls begin that find it there, divided by CHUNK_ENTRIES."""


class KnownPull(NamedTuple):
    """What pulls of a shape have in common."""

    queue: PulledQueue
    codes: bytes | None
    numbers: bytes
    note: Note
    signed: SignedPull | None = None
    """What they sign; None where nobody looks at that."""
    quick_note: tuple[object, ...] | None = None
    """A QuickNote (pull_passes.py): `note`, but for a PullPass. None if there is no such pass."""


class LogPlace(NamedTuple):
    """A stretch of the log that is in memory, from `low` up to `high`, hot from `hot` on.

    `whole` is the file that holds it and begins at `start`.
    """

    low: int
    hot: int
    high: int
    start: int
    whole: bytes | memoryview


class PullSource(Protocol):
    """Where pulls read from. Neither method waits for the disk: None if it would have to be read."""

    def chunk(self, queue: PulledQueue, offset: int, count: int, /) -> Chunk | None:
        """Return entries of a queue from an offset on, so many or more; they may be among its `chunks` then."""

    def place(self, first: int, last: int, /) -> LogPlace | None:
        """Return the stretch that holds bytes from one position up to another."""


class ServePulls(Protocol):
    """Answers pulls of known shapes."""

    def __call__(
        self,
        frames: list[bytes | memoryview],
        index: int,
        most: int,
        known: Mapping[bytes, KnownPull],
        place: LogPlace | None,
        source: PullSource,
        scratch: memoryview,
        caller: Caller | None,
        now_ms: int,
        /,
    ) -> tuple[int, bytes | memoryview, bool]:
        """Answer frames from an index on, `most` at most; return how many, and their answers as one run of bytes.

        With a `caller` only its own, signed.

        The last value is True if another call may answer more: `most` was reached, or `scratch` has no room for the
        next answer. The bytes may be those of `scratch`, and are good until the next call.
        """


def serve_pulls() -> ServePulls:
    """Return the native form if there is one."""
    module = native("pulls")
    return plain_serve if module is None else cast(ServePulls, module.serve)


def plain_serve(
    frames: list[bytes | memoryview],
    index: int,
    most: int,
    known: Mapping[bytes, KnownPull],
    place: LogPlace | None,
    source: PullSource,
    scratch: memoryview,
    caller: Caller | None,
    now_ms: int,
    /,
) -> tuple[int, bytes | memoryview, bool]:
    """Answer pulls; see ServePulls."""
    answers: list[bytes] = []
    room = len(scratch)
    more = False
    for frame in frames[index:]:
        if len(answers) >= most:
            more = True
            break
        shape = plain_shape(frame)
        pull = None if shape is None else known.get(shape.shape)
        if shape is None or pull is None or not _is_callers(pull.signed, shape, caller, now_ms):
            break
        found, entries, place = _answer(pull, shape, place, source)
        if found is None or place is None:
            break
        if len(found.frame) > room:
            more = True
            break
        if shape.offset < pull.queue.checked_offset and not _are_sound(pull, shape.offset, found, entries, place):
            break
        if not pull.note(shape.commit_offset, pull.queue.max_offset, found.messages, found.size):
            break
        if pull.signed is not None and pull.signed.is_numbered:
            connection, _, number = shape.nonce.decode().partition(".")
            note_number(pull.signed.caller, connection, int(number))
        answers.append(found.frame)
        room -= len(found.frame)
    return len(answers), answers[0] if len(answers) == 1 else b"".join(answers), more


def _is_callers(signed: SignedPull | None, shape: PullShape, caller: Caller | None, now_ms: int) -> bool:
    """Return True if a pull is the caller's, was not changed, and not sent before."""
    if signed is None or caller is None:
        return signed is None and caller is None
    own = str(shape.commit_offset).encode(), shape.nonce, shape.signed_at, str(shape.offset).encode()
    text = b"".join(part for pair in zip(signed.texts, (*own, b""), strict=True) for part in pair)
    try:
        is_right = caller.is_signature(shape.signature.decode(), text.decode(), b"")
        nonce, signed_at = shape.nonce.decode(), shape.signed_at.decode()
    except UnicodeDecodeError:
        return False
    if signed.caller is not caller or not is_right:
        return False
    return not signed.is_numbered or next_number(caller, nonce, signed_at, now_ms) is not None


def _answer(
    pull: KnownPull, shape: PullShape, place: LogPlace | None, source: PullSource
) -> tuple[FoundFrame | None, bytes | bytearray, LogPlace | None]:
    """Return the answer to a pull, None if it is not plain; its entries; and where in the log the last one was read."""
    queue, numbers, offset = pull.queue, pull.numbers, shape.offset
    low, high = queue.min_offset, queue.max_offset
    if not low <= offset < high or queue.is_removed:
        return None, b"", place
    most, most_bytes, count, looked_at, suggest, per_file = NUMBERS.unpack(numbers)
    count, looked_at = min(count, high - offset), min(looked_at, high - offset)
    entries = _entries(queue, offset, count, per_file, source)
    if not entries:
        return None, b"", place
    first = _PLACE.unpack_from(entries)[0]
    last_at, last_size = _PLACE.unpack_from(entries, len(entries) - ENTRY_SIZE)
    last = last_at + last_size
    if not 0 <= last_at <= _HIGHEST:
        return None, b"", place
    if place is None or not place.low <= first < last <= place.high:
        place = source.place(first, last)
        if place is None or not place.low <= first < last <= place.high:
            return None, b"", place
    must_fill = count < looked_at and len(entries) == count * ENTRY_SIZE
    found = plain_answer(
        entries, pull.codes, place.whole, place.start, place.hot, place.high, most, most_bytes, must_fill,
        offset, low, high, suggest, shape.opaque,
    )  # fmt: skip
    return found, entries, place


def _are_sound(pull: KnownPull, offset: int, found: FoundFrame, entries: bytes | bytearray, place: LogPlace) -> bool:
    """Tell whether the records of an answer are whole and those of their queue."""
    owner = Owner(pull.queue.topic_name, pull.queue.queue_id, offset)
    return are_plain_records(entries, pull.codes, found.messages, place.whole, place.start, owner)


def _entries(queue: PulledQueue, offset: int, count: int, per_file: int, source: PullSource) -> bytes | bytearray:
    """Return entries from an offset on, to the end of their file at most; nothing if they are not in memory."""
    chunk = None if queue.chunks is None else queue.chunks.get(offset // CHUNK_ENTRIES)
    if chunk is None or not _has(chunk, offset, count, per_file):
        chunk = source.chunk(queue, offset, count)
    if chunk is None or not _has(chunk, offset, count, per_file):
        return b""
    first, entries = chunk
    return entries[(offset - first) * ENTRY_SIZE : (offset - first + count) * ENTRY_SIZE]


def _has(chunk: Chunk, offset: int, count: int, per_file: int) -> bool:
    first, end = chunk[0], chunk[0] + len(chunk[1]) // ENTRY_SIZE
    return first <= offset < end and (offset + count <= end or end % per_file == 0)
