"""Groups rows into batches for one queue each; delayed and very large messages are sent alone.

Batches are built by columns too: Arrow joins heads, bodies and properties row by row. An Arrow array keeps its values
one after another, so any run of them is already the body of a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from pyromq.errors import InvalidMessage
from pyromq.protocol.messages.batch import element_size
from pyromq.protocol.messages.message import MAX_BODY_SIZE, MessageQueue
from pyromq.protocol.tag_filter import java_hash
from pyromq.spark.arrow import Int64s, take
from pyromq.spark.write.message_rows import MessageRows

MOST_BYTES = 1 << 20
MOST_ROWS = 250  # takes a broker milliseconds, while others wait; larger batches are no faster

_BINARY = pa.binary()
_ANYWHERE = -1

FindQueues = Callable[[str], Sequence[MessageQueue]]
"""Returns the queues of a topic."""


class MessageBatch(Struct, frozen=True):
    """The messages of one send request."""

    topic: str
    queue: MessageQueue | None
    """None: any queue of the topic."""
    body: bytes
    count: int
    properties: str | None = None
    """The properties of a message sent alone; those of a batch are in its body."""
    flag: int = 0
    timed: bool = False


def make_batches(rows: MessageRows, find_queues: FindQueues, most_rows: int = MOST_ROWS) -> Iterator[MessageBatch]:
    """Yield the rows as batches; those for one queue stay in order."""
    topics, numbers = rows.topics
    for number, topic in enumerate(topics):
        mine = np.flatnonzero(numbers == number)
        queues = find_queues(topic)
        places = _places(rows, mine, queues)
        for place in np.unique(places):
            queue = None if place == _ANYWHERE else queues[place]
            yield from _batches_for_queue(rows, mine[places == place], topic, queue, most_rows)


def _places(rows: MessageRows, mine: Int64s, queues: Sequence[MessageQueue]) -> Int64s:
    """Return the index of the queue that each of these rows goes to."""
    places = np.full(len(mine), _ANYWHERE)
    keys = take(rows.order_keys, mine)
    if keys.null_count < len(keys):
        places[keys.is_valid().to_numpy(zero_copy_only=False)] = np.abs(java_hashes(keys.drop_null())) % len(queues)
    named = np.flatnonzero(rows.has_queue[mine] & (places == _ANYWHERE))
    if len(named):
        places[named] = _named_places(rows, mine[named], queues)
    return places


def _named_places(rows: MessageRows, mine: Int64s, queues: Sequence[MessageQueue]) -> Int64s:
    known = {(queue.broker_name, queue.queue_id): place for place, queue in enumerate(queues)}
    encoded = take(rows.queues, mine).dictionary_encode()
    codes = encoded.indices.to_numpy()
    places = np.empty(len(encoded.dictionary), np.int64)
    for code in range(len(places)):
        wanted = rows.queue_of(int(mine[np.argmax(codes == code)]))
        if wanted not in known:
            name = f"{queues[0].topic!r} has no queue {wanted[1]} on broker {wanted[0]!r}"
            raise InvalidMessage(f"the topic {name}: drop the columns broker_name and queue_id, or create the queue")
        places[code] = known[wanted]
    found: Int64s = places[codes]
    return found


def _batches_for_queue(
    rows: MessageRows, mine: Int64s, topic: str, queue: MessageQueue | None, most_rows: int
) -> Iterator[MessageBatch]:
    delayed = rows.is_delayed[mine]
    for row in mine[delayed].tolist():
        yield _alone(rows, row, topic, queue)
    if not delayed.all():
        at_once = mine[~delayed]
        sent = 0
        for body, count in _batches(_elements(rows, at_once), most_rows):
            is_too_large = len(body) > MAX_BODY_SIZE  # with its head and properties; the body alone is not
            yield (
                _alone(rows, int(at_once[sent]), topic, queue)
                if is_too_large
                else MessageBatch(topic, queue, body, count)
            )
            sent += count


def _alone(rows: MessageRows, row: int, topic: str, queue: MessageQueue | None) -> MessageBatch:
    body, properties = rows.bodies[row].as_py(), rows.properties[row].as_py().decode()
    return MessageBatch(topic, queue, body, 1, properties, int(rows.flags[row]), bool(rows.is_timed[row]))


def _elements(rows: MessageRows, mine: Int64s) -> pa.Array:
    """Return these rows as encoded elements of a batch (see `protocol.batch`)."""
    bodies, properties, flags = rows.bodies, rows.properties, rows.flags
    if len(mine) < len(rows):
        bodies, properties, flags = take(bodies, mine), take(properties, mine), flags[mine]
    body_sizes, property_sizes = (pc.binary_length(texts).to_numpy() for texts in (bodies, properties))
    heads = np.zeros((len(mine), 5), ">i4")
    heads[:, 0] = element_size(0, 0) + body_sizes + property_sizes
    heads[:, 3], heads[:, 4] = flags, body_sizes
    ends = property_sizes.astype(">i2").reshape(-1, 1)
    return pc.binary_join_element_wise(_fixed(heads), bodies, _fixed(ends), properties, pa.scalar(b"", _BINARY))


def _fixed(numbers: np.ndarray) -> pa.Array:
    """Return the bytes of each row of a matrix as a binary array."""
    width = numbers.itemsize * numbers.shape[1]
    offsets = (width * np.arange(len(numbers) + 1)).astype(np.int32)
    return pa.Array.from_buffers(_BINARY, len(numbers), [None, pa.py_buffer(offsets), pa.py_buffer(numbers)])


def _batches(elements: pa.Array, most_rows: int) -> Iterator[tuple[bytes, int]]:
    """Split elements into batches; an element larger than a batch gets its own."""
    offsets = np.frombuffer(elements.buffers()[1], np.int32)[: len(elements) + 1]
    data = elements.buffers()[2]
    start = 0
    while start < len(elements):
        fitting = int(np.searchsorted(offsets, offsets[start] + MOST_BYTES, side="right")) - 1
        end = max(start + 1, min(fitting, start + most_rows, len(elements)))
        yield data.slice(int(offsets[start]), int(offsets[end] - offsets[start])).to_pybytes(), end - start
        start = end


_FACTOR = np.uint32(31)


def java_hashes(texts: pa.Array) -> Int64s:
    """Return Java's String.hashCode of each text, which chooses the queue of an order key; no text may be null."""
    texts = texts.cast(pa.binary())
    offsets = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset : texts.offset + len(texts) + 1]
    octets = np.frombuffer(texts.buffers()[2] or b"", np.uint8)[offsets[0] : offsets[-1]]
    hashes = _weighted_sums(octets, offsets - offsets[0])
    if (octets > 127).any():  # then a byte is not one UTF-16 unit
        rows = np.unique(np.searchsorted(offsets - offsets[0], np.flatnonzero(octets > 127), side="right") - 1)
        hashes[rows] = [java_hash(texts[int(row)].as_py().decode()) for row in rows]
    return hashes


def _weighted_sums(octets: np.ndarray[tuple[int], np.dtype[np.uint8]], bounds: np.ndarray) -> Int64s:
    """Return, for each row, the sum of octet * 31 ** (octets that follow), as a signed 32-bit number."""
    lengths = np.diff(bounds)
    sums = np.zeros(len(lengths), np.uint32)
    filled = np.flatnonzero(lengths)
    if len(filled):
        powers = np.full(int(lengths.max()), _FACTOR)
        powers[0] = 1
        powers = np.multiply.accumulate(powers, dtype=np.uint32)
        following = np.repeat(bounds[1:], lengths) - np.arange(len(octets)) - 1
        sums[filled] = np.add.reduceat(octets * powers[following], bounds[filled], dtype=np.uint32)
    return sums.view(np.int32).astype(np.int64)
