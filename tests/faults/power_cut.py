"""Power cuts: a broker on a loop-mounted ext4, which is stopped as if the power failed; then everything is read.

    python -m tests.faults.power_cut --cuts 50                 # nothing acknowledged may be lost
    python -m tests.faults.power_cut --cuts 5 --lying          # fsync turned off: the campaign must see losses

Needs root, for the loop mount. Acknowledgements are kept outside the file system that loses power.
"""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import logging
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pyromq import PyroMQError
from tests.faults.campaign import History, Server, Verdict, check, load, read_everything

EXT4_SHUTDOWN = 0x8004587D
NO_FLUSH = 2
IMAGE_SIZE = 768 << 20


def unavailable() -> str:
    """Return why power cannot be cut here, an empty text if it can."""
    if os.geteuid() != 0:
        return "needs root for a loop mount"
    if missing := [name for name in ("mkfs.ext4", "mount", "umount") if shutil.which(name) is None]:
        return f"needs {missing[0]}"
    with tempfile.TemporaryDirectory() as place:
        try:
            with Disk(Path(place), size=64 << 20).mounted() as disk:
                disk.cut_power()
        except (OSError, subprocess.CalledProcessError) as error:
            return f"no loop mount here: {error}"
    return ""


class Disk:
    """A separate file system that can lose its power."""

    def __init__(self, place: Path, size: int = IMAGE_SIZE) -> None:
        self.root = place / "mount"
        self._image = place / "disk.img"
        self.root.mkdir()
        with self._image.open("wb") as image:
            image.truncate(size)
        _run("mkfs.ext4", "-q", "-F", str(self._image))

    @contextmanager
    def mounted(self) -> Iterator[Disk]:
        """Mount it while the block runs."""
        self.mount()
        try:
            yield self
        finally:
            self.unmount()

    def mount(self) -> None:
        """Mount it; the journal is replayed as after a power cut."""
        _run("mount", "-o", "loop", str(self._image), str(self.root))

    def unmount(self) -> None:
        """Unmount it when the last process that used it has exited."""
        for _ in range(100):
            if subprocess.run(["umount", str(self.root)], capture_output=True).returncode == 0:
                return
            time.sleep(0.05)
        _run("umount", "-l", str(self.root))

    def cut_power(self) -> None:
        """Keep everything that is only in memory from reaching the disk."""
        descriptor = os.open(self.root, os.O_RDONLY)
        try:
            fcntl.ioctl(descriptor, EXT4_SHUTDOWN, struct.pack("I", NO_FLUSH))
        finally:
            os.close(descriptor)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


async def one_cut(disk: Disk, server: Server, history: History, number: int, seconds: float) -> None:
    """Load the broker, cut its power meanwhile, and kill it."""
    cut = asyncio.Event()
    topics = [f"steady-{index}" for index in range(3)] + [f"new-{number}"]
    sending = asyncio.create_task(load(server.namesrv, history, topics, cut))
    await asyncio.sleep(seconds)
    disk.cut_power()
    cut.set()  # what was acknowledged before the cut counts; what arrives now may not
    server.kill()
    with suppress(PyroMQError):
        await sending


def campaign(cuts: int, *, lying: bool = False, seed: int = 0, most_seconds: float = 0.8) -> Verdict:
    """Cut the power this many times, read everything after each cut, and end early if something is wrong."""
    chance = random.Random(seed)
    history, verdict = History(), Verdict()
    with tempfile.TemporaryDirectory(prefix="pyromq-power-") as directory:
        place = Path(directory)
        with Disk(place).mounted() as disk:
            while verdict.good and verdict.cuts < cuts:
                number = verdict.cuts
                server = Server(disk.root / "data", place / "server.log", lying=lying)
                asyncio.run(one_cut(disk, server, history, number, chance.uniform(0.15, most_seconds)))
                disk.unmount()
                disk.mount()
                verdict = after_cut(disk, place / "server.log", history, lying=lying)
                verdict.cuts = number + 1
    return verdict


def after_cut(disk: Disk, log: Path, history: History, *, lying: bool) -> Verdict:
    """Start the broker on what is left and read everything; if it does not start, everything is lost."""
    try:
        server = Server(disk.root / "data", log, lying=lying)
    except RuntimeError as error:
        if not lying:
            raise
        print(error)
        return check(history, {}, history.topics)
    try:
        return check(history, *asyncio.run(read_everything(server.namesrv, history.topics)))
    finally:
        server.kill()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cuts", type=int, default=50)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--lying", action="store_true", help="turn fsync off: the campaign must then fail")
    options = parser.parse_args()
    if reason := unavailable():
        print(f"power cuts skipped: {reason}")
        return 0
    logging.disable()  # clients log that their broker is gone
    print(f"seed {options.seed}")
    verdict = campaign(options.cuts, lying=options.lying, seed=options.seed)
    print(verdict)
    return 0 if verdict.good != options.lying else 1


if __name__ == "__main__":
    sys.exit(main())
