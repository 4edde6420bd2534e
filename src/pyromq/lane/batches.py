"""The lane for batches: from the body of a batch to its records, entries, keys and ids.

A batch is plain if all of it can be read, no message of it is delayed or part of a transaction, and every record fits.
Whatever is not plain is left to the broker's ordinary path, which knows what to answer. Who calls makes room in the log
between the two steps: `measure` says how much, `lay_out` fills it.

The functions here say what is right; `c/_batches.c` does the same in C, and may leave more to the ordinary path.
`tests/lane/` compares the two.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, TypeVar
from zlib import crc32

from pyromq.errors import MalformedHeader
from pyromq.lane import native
from pyromq.protocol.frame_templates import with_body_length
from pyromq.protocol.messages.batch import decode_batch, encode_batch
from pyromq.protocol.messages.properties import MAX_PROPERTIES_LENGTH, TAGS, find_property, join_properties
from pyromq.protocol.messages.record import HEAD_SIZE, MESSAGE_MAGIC, V4_HEAD
from pyromq.protocol.tag_filter import tag_code

T = TypeVar("T")

Element = tuple[int, bytes, bytes]
"""A message that will be in a batch: its flag, its body, and its properties up to its id, which comes last."""


class Encode(Protocol):
    """Writes messages as the body of a batch: their ids have a text in common, and count from a number on."""

    def __call__(self, elements: list[Element], stem: str, first: int, frame: bytes = b"", /) -> bytes:
        """Return the body; with a frame that has none, return that frame with it."""


Spread: TypeAlias = Callable[[Callable[..., T], object, str, object, int, str, int, int], list[T]]
"""Makes the results of the messages of a batch from the answer to it, see `spread`."""

Run = tuple[bytes, list[bytes], list[str | bytes | int], str]
"""Records end to end, their entries, what the index needs of them, and their ids with commas between."""

_ENTRY: Final = struct.Struct(">qiq")
_SHORT: Final = struct.Struct(">h")
_FEW: Final = 500  # what plain Python stores in about 5 ms
_MANY: Final = 2000


class Measure(Protocol):
    """Tells how many messages a batch has, and how large their records are."""

    def __call__(
        self, batch: bytes, name: bytes, suffix: bytes, max_record: int, most: int, /
    ) -> tuple[int, int] | None:
        """Return both; None if the batch is not plain or has more than `most` messages."""


class LayOut(Protocol):
    """Writes a batch as records."""

    def __call__(
        self,
        batch: bytes,
        head: bytes,
        name: bytes,
        suffix: bytes,
        id_prefix: bytes,
        topic: str | None,
        position: int,
        queue_offset: int,
        now_ms: int,
        /,
    ) -> Run:
        """Return the records of a batch for a place in the log; without a topic the index needs nothing."""


class BatchLane(NamedTuple):
    """What stores batches."""

    measure: Measure
    lay_out: LayOut
    most: int
    """Messages of a batch that are stored at once: more of them would stop the loop for too long."""


def batch_lane() -> BatchLane:
    """Return the lane that this process uses."""
    module = native("batches")
    return BatchLane(measure, lay_out, _FEW) if module is None else BatchLane(module.measure, module.lay_out, _MANY)


class ProducerLane(NamedTuple):
    """What producers need to send batches."""

    encode: Encode
    spread: Spread[Any]


def producer_lane() -> ProducerLane:
    """Return the lane that this process uses."""
    module = native("batches")
    return ProducerLane(encode, spread) if module is None else ProducerLane(module.encode, module.spread)


def shared_head(
    queue_id: int, sys_flag: int, born_ms: int, born_host: bytes, now_ms: int, store_host: bytes, reconsume_times: int
) -> bytes:
    """Return the head of all records of a batch, with zeros where they differ; raise struct.error if it has no room."""
    times = reconsume_times, 0, 0
    return V4_HEAD.pack(
        0, MESSAGE_MAGIC, 0, queue_id, 0, 0, 0, sys_flag, born_ms, born_host, now_ms, store_host, *times
    )


def measure(batch: bytes, name: bytes, suffix: bytes, max_record: int, most: int, /) -> tuple[int, int] | None:
    """Return how many messages a batch has, and the bytes of their records; None if it is not plain."""
    try:
        elements = decode_batch(batch)
    except MalformedHeader:
        return None
    if len(elements) > most:
        return None
    total = 0
    for _, body, properties in elements:
        if b"DEL" in properties or b"TRAN_MSG" in properties:  # perhaps DELAY, TIMER_DELAY_SEC, __STARTDELIVERTIME …
            return None
        stored = len(join_properties(properties, suffix))
        size = HEAD_SIZE + 3 + len(body) + len(name) + stored
        if stored > MAX_PROPERTIES_LENGTH or size > max_record:
            return None
        total += size
    return len(elements), total


def lay_out(
    batch: bytes,
    head: bytes,
    name: bytes,
    suffix: bytes,
    id_prefix: bytes,
    topic: str | None,
    position: int,
    queue_offset: int,
    now_ms: int,
    /,
) -> Run:
    """Return the records of a batch for a place in the log, their entries, what the index needs, and their ids."""
    fields = list(V4_HEAD.unpack(head))
    named = bytes((len(name),)) + name
    parts: list[bytes] = []
    entries: list[bytes] = []
    keys: list[str | bytes | int] = []
    ids: list[str] = []
    prefix = id_prefix.decode()
    for number, (flag, body, sent) in enumerate(decode_batch(batch)):
        properties = join_properties(sent, suffix)
        size = HEAD_SIZE + 2 + len(body) + len(named) + len(properties)
        fields[0], fields[2], fields[4:7] = size, crc32(body) & 0x7FFFFFFF, (flag, queue_offset + number, position)
        fields[-1] = len(body)
        parts += V4_HEAD.pack(*fields), body, named, _SHORT.pack(len(properties)), properties
        entries.append(_ENTRY.pack(position, size, tag_code(find_property(sent, TAGS))))
        if topic is not None:
            keys += topic, properties, position, now_ms
        ids.append(f"{prefix}{position:016X}")
        position += size
    return b"".join(parts), entries, keys, ",".join(ids)


def encode(elements: list[Element], stem: str, first: int, frame: bytes = b"", /) -> bytes:
    """Return messages as the body of a batch, each with its id: the stem and a number of four hex digits.

    With a frame that has no body, return it with this one: a copy less of all messages.
    """
    stems = stem.encode()
    batch = encode_batch(
        (flag, body, b"%b%b%04X" % (properties, stems, number))
        for number, (flag, body, properties) in enumerate(elements, first)
    )
    return with_body_length(frame, len(batch)) + batch if frame else batch


def spread(
    make: Callable[..., T],
    status: object,
    places: str,
    queue: object,
    queue_offset: int,
    stem: str,
    first: int,
    count: int,
    /,
) -> list[T]:
    """Return a result for each message of a batch: brokers store them one behind the other.

    `places` is what the broker says about their places, with commas between; `make` is called with the status, a
    message's id, its place, its queue and its offset there.
    """
    found = places.split(",")
    found += [""] * (count - len(found))
    return [
        make(status, f"{stem}{first + number:04X}", found[number], queue, queue_offset + number)
        for number in range(count)
    ]
