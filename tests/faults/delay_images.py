"""Crash images of a broker with delayed messages: whatever a crash leaves, each is delivered once and none is lost.

    python -m tests.faults.delay_images --images 500

A broker accepts messages of two levels and delivers them; every write and flush of its files is recorded. At many
points a broker is started on what a kill or a power cut may leave. Every message that was acknowledged (and, after a
power cut, durable) is delivered in the end, and none twice, because each has a unique key.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import random
import shutil
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Final

from msgspec import Struct, field

from pyromq.broker.config.broker_config import broker_config
from pyromq.broker.server import Broker
from pyromq.protocol.messages.properties import encode_properties
from pyromq.protocol.messages.record import decode_messages
from pyromq.store.files import OsFiles
from pyromq.testing import TestClock, eventually
from tests.broker.helpers import Peer
from tests.faults.crash_images import scratch_directory
from tests.faults.disk_model import Disk, Recorder, Remark, Tree, build
from tests.store.helpers import QuickFiles

LONGEST_LEVEL: Final = 5.0


class Acknowledged(Struct, frozen=True):
    """A message that was acknowledged."""

    body: bytes


class Durable(Struct, frozen=True):
    """Everything acknowledged before is flushed."""


class Report(Struct):
    """The result of a campaign."""

    images: int = 0
    required: int = 0
    delivered_before: int = 0
    problems: list[str] = field(default_factory=list)


def make_broker(root: Path, clock: TestClock, files: OsFiles, flush: str) -> Broker:
    """Return a broker with small files, not started yet."""
    settings = {
        "listenPort": "0", "storePathRootDir": str(root), "flushDiskType": flush, "flushIntervalCommitLog": "20",
        "mappedFileSizeCommitLog": str(1 << 16), "mappedFileSizeConsumeQueue": "400", "maxHashSlotNum": "10",
        "maxIndexNum": "100", "diskSpaceWarningLevelRatio": "1", "osPageCacheBusyTimeOutMills": "60000",
    }  # fmt: skip
    return Broker(broker_config(settings), clock, files)


async def live(root: Path, clock: TestClock, flush: str, chance: random.Random, steps: int) -> Recorder:
    """Send and deliver for some time; return what happened to the disk."""
    files = Recorder(root)
    async with make_broker(root, clock, files, flush) as broker:
        peer = Peer(broker.address, clock)
        for step in range(steps):
            body = b"%d" % step
            await peer.send(
                body=body, properties=encode_properties({"DELAY": str(step % 2 + 1), "UNIQ_KEY": f"id-{step}"})
            )
            files.remark(Acknowledged(body))
            if flush == "SYNC_FLUSH":
                files.remark(Durable())
            await clock.advance_async(seconds=chance.choice([0.05, 0.3, 0.9]))
            if chance.random() < 0.2:
                broker.store.flush()
                files.remark(Durable())
        await peer.remoting.close()
    return files


async def delivered(root: Path, clock: TestClock) -> tuple[int, Counter[bytes]]:
    """Start a broker on the image; return how many messages had been delivered, and the final contents."""
    async with make_broker(root, clock, QuickFiles(), "ASYNC_FLUSH") as broker:
        before = broker.store.max_offset("orders", 0)
        await clock.advance_async(seconds=LONGEST_LEVEL)
        await eventually(lambda: broker.http_info()["delayed_messages_waiting"] == 0)
        found: list[bytes] = []
        while views := broker.store.get("orders", 0, len(found), 1000, max_bytes=1 << 20).views:
            found += [message.body for message in decode_messages(b"".join(views))]
        return before, Counter(found)


async def campaign(count: int, seed: int, scratch: Path, *, steps: int = 25, share: float = 0.05) -> Report:
    """Check this many images, from as many stores as necessary."""
    report, chance = Report(), random.Random(seed)
    while report.images < count:
        clock = TestClock()
        flush = ("SYNC_FLUSH", "ASYNC_FLUSH")[chance.randrange(2)]
        files = await live(scratch / "life", clock, flush, chance, steps)
        shutil.rmtree(scratch / "life")
        await _check_images(report, files, flush, clock, chance, scratch / "image", count, share)
    return report


async def _check_images(
    report: Report, files: Recorder, flush: str, clock: TestClock, chance: random.Random, root: Path, count: int,
    share: float,
) -> None:  # fmt: skip
    disk = Disk()
    acknowledged: set[bytes] = set()
    durable: set[bytes] = set()
    for number, event in enumerate(files.events):
        match event:
            case Remark(Acknowledged(body)):
                acknowledged.add(body)
            case Remark(Durable()):
                durable = set(acknowledged)
            case _:
                disk.apply(event)
                if chance.random() >= share or report.images >= count:
                    continue
                kind = chance.choice(["kill", "nothing", "something"])
                build(_tree(disk, kind, chance), root)
                required = acknowledged if kind == "kill" else durable
                await _check(report, root, clock, required, f"{flush} {kind} event {number}")
                shutil.rmtree(root)


def _tree(disk: Disk, kind: str, chance: random.Random) -> Tree:
    match kind:
        case "kill":
            return disk.everything()
        case "nothing":
            return disk.nothing()
        case _:
            return disk.something(chance)


async def _check(report: Report, root: Path, clock: TestClock, required: set[bytes], name: str) -> None:
    report.images += 1
    report.required += len(required)
    try:
        before, found = await delivered(root, clock)
    except Exception as error:
        report.problems.append(f"{name}: {type(error).__name__}: {error}")
        return
    report.delivered_before += before
    lost = sorted(required - found.keys())
    twice = sorted(body for body, times in found.items() if times > 1)
    if lost or twice:
        report.problems.append(f"{name}: lost {lost}, twice {twice}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=500)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    logging.disable()
    began = time.monotonic()
    with scratch_directory() as scratch:
        report = asyncio.run(campaign(options.images, options.seed, Path(scratch)))
    print(
        f"seed {options.seed}: {report.images} images in {time.monotonic() - began:.0f} s, {report.required} times a"
        f" message that must come, {report.delivered_before} that had come before, {len(report.problems)} problems"
    )
    for problem in report.problems[:20]:
        print(problem)
    return 1 if report.problems else 0


if __name__ == "__main__":
    sys.exit(main())
