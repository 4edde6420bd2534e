"""Bit flips: one bit of one file of a store is flipped, and a real broker starts on it.

    python -m tests.faults.bit_flips --flips 5000

The broker must start, accept new messages and stop. Every message whose own record is intact is delivered with its
bytes at its offset. In the damaged one, at most what no checksum covers may differ. The store was stopped or killed.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import random
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from msgspec import Struct, field

from pyromq.broker.config.broker_config import broker_config
from pyromq.broker.server import Broker
from pyromq.clock import SystemClock
from pyromq.errors import MalformedHeader
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import request
from pyromq.protocol.headers.pull import QueryMessageRequestHeader
from pyromq.protocol.messages.message import MessageExt
from pyromq.protocol.messages.properties import encode_properties
from pyromq.protocol.messages.record import decode_messages
from pyromq.store.files import OsFiles
from tests.broker.helpers import PATIENCE, Peer, pull_header
from tests.faults.crash_images import scratch_directory
from tests.store.helpers import QuickFiles

TOPICS: Final = ("orders", "payments")
QUEUES: Final = 2
SETTINGS: Final = {
    "listenPort": "0",
    "mappedFileSizeCommitLog": "65536",
    "mappedFileSizeConsumeQueue": "400",
    "maxHashSlotNum": "16",
    "maxIndexNum": "64",
    "defaultTopicQueueNums": str(QUEUES),
}
GROUP: Final = "billing"

Place = tuple[str, int, int]


class Sent(NamedTuple):
    """An acknowledged message, and the place of its record."""

    body: bytes
    physical_offset: int
    size: int


class Original(Struct):
    """A store after its broker ended, and its contents."""

    root: Path
    messages: dict[Place, Sent]


class Report(Struct):
    """The result of a campaign."""

    flips: int = 0
    left_out: int = 0
    kinds: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def broker_on(root: Path, files: OsFiles) -> Broker:
    """Return a broker on a store, not started yet."""
    return Broker(broker_config(SETTINGS | {"storePathRootDir": str(root)}), SystemClock(), files)


# --- a store with something of everything


async def make_store(root: Path, *, killed: bool) -> Original:
    """Run two brokers one after the other; the second is killed or stops."""
    messages: dict[Place, Sent] = {}
    live = root.with_name("live")
    for number in range(2):
        async with broker_on(live, QuickFiles()) as broker:
            peer = Peer(broker.address, SystemClock())
            await _use(broker, peer, messages, number)
            await peer.remoting.close()
            if killed and number == 1:
                shutil.copytree(live, root)
    if not killed:
        shutil.copytree(live, root)
    shutil.rmtree(live)
    return Original(root, messages)


async def _use(broker: Broker, peer: Peer, messages: dict[Place, Sent], life: int) -> None:
    for number in range(24):
        topic, queue_id = TOPICS[number % 2], number // 2 % QUEUES
        body = b"%d-%02d " % (life, number) + bytes([97 + number]) * (number * 379 % 4000)
        properties = encode_properties({"TAGS": "t", "KEYS": f"k{life}-{number}", "UNIQ_KEY": f"U{life}-{number}"})
        await peer.send(topic, body, queue_id=queue_id, properties=properties)
    for topic in TOPICS:
        for queue_id in range(QUEUES):
            for one in await peer.read(topic, queue_id=queue_id, queue_offset=0):
                place = Sent(one.body, one.physical_offset, one.store_size)
                messages[topic, queue_id, one.queue_offset] = place
            broker.offsets.commit(GROUP, topic, queue_id, 2 + life, "test")
    broker.groups.find_or_create(GROUP)
    broker._tables.save()
    if life == 0:
        broker.store.flusher.checkpoint()
    broker.store.flusher.flush()
    broker.store.flusher.note_position()  # after a kill, recovery must read what is flushed


# --- what is turned over, and what must be there


def flips(original: Original, chance: random.Random) -> Iterator[tuple[str, int, int]]:
    """Yield files, bytes and bits; every kind of file is equally frequent."""
    kinds: dict[str, list[Path]] = {}
    for path in sorted(original.root.rglob("*")):
        if path.is_file() and path.stat().st_size:
            kinds.setdefault(kind_of(path.relative_to(original.root)), []).append(path)
    while True:
        for paths in kinds.values():
            path = chance.choice(paths)
            data = path.read_bytes()
            byte = chance.choice([at for at, value in enumerate(data) if value] or [0])
            if chance.random() < 0.2:
                byte = chance.randrange(len(data))
            yield str(path.relative_to(original.root)), byte, chance.randrange(8)


def kind_of(path: Path) -> str:
    """Return the kind of a file."""
    return path.parts[0] if path.parts[0] in ("commitlog", "consumequeue", "index") else path.name


class Check:
    """One flipped bit, and how the broker handles it."""

    def __init__(self, root: Path, original: Original, file: str, byte: int) -> None:
        self._root = root
        self._original = original
        hit = -1
        if file.startswith("commitlog/"):
            hit = int(Path(file).name) + byte
        self._hit = {
            place for place, sent in original.messages.items()
            if sent.physical_offset <= hit < sent.physical_offset + sent.size
        }  # fmt: skip

    async def run(self) -> int:
        """Raise AssertionError, or the broker's error, if something is wrong; return the number of missing messages."""
        for start in range(2):
            async with broker_on(self._root, QuickFiles()) as broker:
                peer = Peer(broker.address, SystemClock())
                try:
                    found = await self._read_all(peer)
                    self._check(found)
                    await self._check_keys(peer)
                    await peer.send("orders", b"new %d" % start)
                finally:
                    await peer.remoting.close()
        return len(self._original.messages.keys() - found)

    async def _read_all(self, peer: Peer) -> dict[Place, bytes]:
        found: dict[Place, bytes] = {}
        for topic in TOPICS:
            for queue_id in range(QUEUES):
                found.update(await self._read_queue(peer, topic, queue_id))
        return found

    async def _read_queue(self, peer: Peer, topic: str, queue_id: int) -> dict[Place, bytes]:
        found: dict[Place, bytes] = {}
        offset = 0
        while True:
            header = pull_header(topic, queue_id=queue_id, queue_offset=offset)
            answer = await peer.remoting.request(peer.address, request(RequestCode.PULL_MESSAGE, header), PATIENCE)
            if answer.code == ResponseCode.SUCCESS:
                for one in decode_messages(answer.body):
                    assert (one.topic, one.queue_id) == (topic, queue_id), "a message of another queue"
                    found[topic, queue_id, one.queue_offset] = self._body(one)
            elif answer.code not in (ResponseCode.PULL_RETRY_IMMEDIATELY, ResponseCode.PULL_OFFSET_MOVED):
                assert answer.code == ResponseCode.PULL_NOT_FOUND, answer.remark
                return found
            next_offset = int(answer.ext_fields["nextBeginOffset"])
            assert next_offset > offset, f"{topic} {queue_id} {offset} -> {next_offset}"
            offset = next_offset

    def _body(self, message: MessageExt) -> bytes:
        place = (message.topic, message.queue_id, message.queue_offset)
        try:
            return message.body
        except MalformedHeader:  # no checksum covers whether it is compressed
            assert place in self._hit
            return self._original.messages[place].body

    def _check(self, found: dict[Place, bytes]) -> None:
        for place, body in found.items():
            known = self._original.messages.get(place)
            assert (known is not None and known.body == body) or body.startswith(b"new"), f"{place}: {body[:20]!r}"
        missing = {place for place in self._original.messages.keys() - found if place not in self._hit}
        assert not missing, f"left out although unharmed: {sorted(missing)[:3]}"

    async def _check_keys(self, peer: Peer) -> None:
        """Query some keys: an index entry may be lost, but none leads to another key's message."""
        bodies = {sent.body for sent in self._original.messages.values()}
        for key in ("k0-3", "k1-7"):
            header = QueryMessageRequestHeader(
                topic="payments", key=key, max_num=8, begin_timestamp=0, end_timestamp=2**62
            )
            answer = await peer.remoting.request(peer.address, request(RequestCode.QUERY_MESSAGE, header), PATIENCE)
            if answer.code == ResponseCode.SUCCESS:
                assert {one.body for one in decode_messages(answer.body)} <= bodies


# --- campaigns


async def campaign(count: int, seed: int, scratch: Path) -> Report:
    """Flip this many bits, one at a time, in a stopped store and in a killed one."""
    report, chance = Report(), random.Random(seed)
    for killed in (False, True):
        original = await make_store(scratch / f"original-{killed}", killed=killed)
        for number, flip in enumerate(flips(original, chance)):
            if number == count // 2:
                break
            await _check_flip(report, scratch / "flipped", original, flip)
    return report


async def _check_flip(report: Report, root: Path, original: Original, flip: tuple[str, int, int]) -> None:
    file, byte, bit = flip
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(original.root, root)
    with (root / file).open("r+b") as stream:
        stream.seek(byte)
        value = stream.read(1)[0]
        stream.seek(byte)
        stream.write(bytes([value ^ 1 << bit]))
    report.flips += 1
    kind = kind_of(Path(file))
    report.kinds[kind] = report.kinds.get(kind, 0) + 1
    try:
        report.left_out += await Check(root, original, file, byte).run()
    except Exception as error:
        report.problems.append(f"{original.root.name} {file} byte {byte} bit {bit}: {type(error).__name__}: {error}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flips", type=int, default=5_000)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    logging.disable()
    began = time.monotonic()
    with scratch_directory() as scratch:
        report = asyncio.run(campaign(options.flips, options.seed, Path(scratch)))
    print(
        f"seed {options.seed}: {report.flips} bits in {time.monotonic() - began:.0f} s,"
        f" {report.left_out} messages left out, {len(report.problems)} problems; {report.kinds}"
    )
    for problem in report.problems[:20]:
        print(problem)
    return 1 if report.problems else 0


if __name__ == "__main__":
    sys.exit(main())
