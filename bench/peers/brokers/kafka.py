"""Kafka: one record a produce request, and fetches of about 32 records."""

from __future__ import annotations

import secrets
import struct
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

from interop.toolkit import Missing, cache_directory, find_java, resolve

from ..kafka import JVM, Kafka
from ..load.generator import Load, Shape, connected, receive
from ..load.rocketmq import QUEUES, TAG
from .peer import TO_PULL, Peer, send_until
from .work import Setting

_POM = Path(__file__).parent.with_name("poms") / "kafka.xml"
_FLUSH = {Setting.ASYNC: "log.flush.interval.ms=500\n", Setting.SYNC: "log.flush.interval.messages=1\n"}
_SENT, _PULLED = "bench", "bench-pulled"
_PRODUCE, _FETCH, _OFFSETS, _METADATA = (0, 7), (1, 4), (2, 1), (3, 1)
_RING, _BATCH = 256, 32
_RECORD = 1110
"""Bytes of a batch with one record of 1 KiB, about."""


class KafkaBroker(Peer):
    """One broker that is its own controller; every queue is a partition."""

    is_java = True

    def __init__(self, server: Kafka, about: dict[str, str]) -> None:
        super().__init__([server], about)
        host, _, port = server.address.partition(":")
        self._address = host, int(port)
        for topic in (_SENT, _PULLED):
            self._create(topic)

    def sends(self, shape: Shape, size: int) -> AbstractContextManager[Load]:
        return self._produce(_SENT, shape, size)

    @contextmanager
    def _produce(self, topic: str, shape: Shape, size: int) -> Iterator[Load]:
        batch = _record_batch(b"k" + secrets.token_hex(8).encode(), secrets.token_hex(size // 2 + 1)[:size].encode())
        with connected(self._address, shape.connections) as sockets:
            rings = [
                [[_produce(topic, (number + slot) % QUEUES, slot, batch)] for slot in range(shape.window)]
                for number in range(shape.connections)
            ]
            yield Load("kafka-produce", sockets, rings)

    @contextmanager
    def pulls(self, shape: Shape) -> Iterator[Load]:
        ends = [self._end(_PULLED, partition) for partition in range(QUEUES)]
        with connected(self._address, shape.connections) as sockets:
            rings = []
            for number in range(shape.connections):
                ring = []
                for slot in range(shape.window):
                    rank = number * shape.window + slot
                    last = ends[rank % QUEUES] - 2 * _BATCH
                    offsets = [(rank * 7919 + at) * _BATCH % last for at in range(_RING)]
                    ring.append([_fetch(_PULLED, rank % QUEUES, slot, offset) for offset in offsets])
                rings.append(ring)
            yield Load("kafka-fetch", sockets, rings)

    def fill(self) -> None:
        with self._produce(_PULLED, Shape(8, 32), 1024) as load:
            send_until(self, load, TO_PULL)

    def _ask(self, api: tuple[int, int], body: bytes) -> bytes:
        with connected(self._address, 1) as (connection,):
            connection.sendall(_request(api, 0, body))
            return receive(connection, int.from_bytes(receive(connection, 4), "big"))[4:]

    def _create(self, topic: str) -> None:
        """Ask for a topic until it has a leader; the first question makes it."""
        end = time.monotonic() + 60
        while True:
            said = self._ask(_METADATA, struct.pack(">i", 1) + _text(topic))
            if struct.unpack_from(">h", said, said.index(_text(topic)) - 2)[0] == 0:
                return
            if time.monotonic() > end:
                raise RuntimeError(f"Kafka did not make the topic {topic}")
            time.sleep(0.2)

    def _end(self, topic: str, partition: int) -> int:
        asked = struct.pack(">ii", -1, 1) + _text(topic) + struct.pack(">iiq", 1, partition, -1)
        said = self._ask(_OFFSETS, asked)  # … i64 time, i64 offset
        found: int = struct.unpack_from(">q", said, len(said) - 8)[0]
        return found


def _text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def _request(api: tuple[int, int], correlation: int, body: bytes) -> bytes:
    head = struct.pack(">hhi", *api, correlation) + _text("bench")
    return struct.pack(">i", len(head) + len(body)) + head + body


def _produce(topic: str, partition: int, slot: int, batch: bytes) -> bytes:
    head = struct.pack(">hhii", -1, 1, 30_000, 1)  # no transaction, acks by the leader
    return _request(_PRODUCE, slot, head + _text(topic) + struct.pack(">iii", 1, partition, len(batch)) + batch)


def _fetch(topic: str, partition: int, slot: int, offset: int) -> bytes:
    size = _BATCH * _RECORD
    head = struct.pack(">iiiibi", -1, 500, 1, size, 0, 1)
    return _request(_FETCH, slot, head + _text(topic) + struct.pack(">iiqi", 1, partition, offset, size))


def _record_batch(key: bytes, value: bytes) -> bytes:
    """Return a batch of format 2 with one record."""
    header = _varint(3) + b"tag" + _varint(len(TAG)) + TAG.encode()
    record = b"\x00\x00\x00" + _varint(len(key)) + key + _varint(len(value)) + value + _varint(1) + header
    records = _varint(len(record)) + record
    now = int(time.time() * 1000)
    checked = struct.pack(">hiqqqhii", 0, 0, now, now, -1, -1, -1, 1) + records
    behind_length = struct.pack(">ib", -1, 2) + struct.pack(">I", _crc32c(checked)) + checked
    return struct.pack(">qi", 0, len(behind_length)) + behind_length


def _varint(value: int) -> bytes:
    value, out = value << 1, bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def start_kafka(setting: Setting, directory: Path, stack: ExitStack) -> KafkaBroker:
    """Start Kafka; raise Missing."""
    if setting not in _FLUSH:
        raise Missing("not comparable: a pair of brokers needs a third for the quorum, requests are not signed")
    java, jars = find_java(), resolve(cache_directory(), _POM)
    server = stack.enter_context(Kafka(java, jars, directory, QUEUES, _FLUSH[setting]))
    about = {"version": "3.9.1", "java": " ".join(JVM), "settings": _FLUSH[setting].strip()}
    return KafkaBroker(server, about)
