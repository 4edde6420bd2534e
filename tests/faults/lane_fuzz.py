"""Feed mangled frames and batches to the native lane under AddressSanitizer; it must do what the plain lane does.

    python -m tests.faults.lane_fuzz --minutes 60

It builds `_sends.c` and `_batches.c` once more, with the checks of gcc for addresses and undefined behaviour, and runs
them in a process of their own, in turn. Without gcc and its library it says so and ends well.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import random
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path
from types import ModuleType

from pyromq.lane.sends import native_lane
from tests.lane.batch_bodies import MAX_RECORD, MOST, NAME, SUFFIX, lay_out_alone, mangled_batch
from tests.lane.batch_bodies import difference as batch_difference
from tests.lane.places import Desk, difference, mangled_frame, plain_desk

SOURCES = Path(__file__).parents[2] / "src" / "pyromq" / "lane"
PARTS = ("_sends", "_batches")
CHECKS = ["-g", "-O1", "-shared", "-fPIC", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    parser.add_argument("--modules", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.modules:
        return _feed(options.modules, options.minutes * 60, options.seed)
    library = _sanitizer()
    if not library:
        print("skipped: gcc with its AddressSanitizer is not here")
        return 0
    with tempfile.TemporaryDirectory() as directory:
        for part in PARTS:
            _build(part, Path(directory))
        settings = {"LD_PRELOAD": library, "ASAN_OPTIONS": "detect_leaks=0", "PYTHONMALLOC": "malloc"}
        arguments = ["--modules", directory, "--minutes", str(options.minutes), "--seed", str(options.seed)]
        command = [sys.executable, "-m", "tests.faults.lane_fuzz", *arguments]
        return subprocess.run(command, env=os.environ | settings, check=False).returncode


def _sanitizer() -> str:
    if shutil.which("gcc") is None:
        return ""
    done = subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True)
    path = done.stdout.strip()
    return path if os.path.isabs(path) else ""


def _build(part: str, directory: Path) -> None:
    target = directory / f"{part}.abi3.so"
    include = sysconfig.get_paths()["include"]
    macro = "-DPy_LIMITED_API=0x030B0000"
    subprocess.run(["gcc", *CHECKS, macro, f"-I{include}", str(SOURCES / f"{part}.c"), "-o", str(target)], check=True)


def _load(directory: Path, part: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"pyromq.lane.{part}", directory / f"{part}.abi3.so")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _feed(directory: Path, seconds: float, seed: int) -> int:
    sends, batches = (_load(directory, part) for part in PARTS)
    native, plain = Desk(lambda place: native_lane(sends, place)), plain_desk()
    chance = random.Random(seed)
    rounds = taken = batches_taken = 0
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        frame, batch = mangled_frame(chance), mangled_batch(chance)
        suffix, indexed = chance.choice((SUFFIX, SUFFIX, b"")), chance.random() < 0.9
        if wrong := difference(native, plain, frame):
            print(f"seed {seed}, frame {rounds}: {frame!r}: {wrong}")
            return 1
        if wrong := batch_difference(batches, batch, suffix, indexed=indexed):
            print(f"seed {seed}, batch {rounds}: {batch!r}, suffix {suffix!r}: {wrong}")
            return 1
        lay_out_alone(batches, batch)
        rounds += 1
        taken += bool(native.take(frame)[0])
        batches_taken += batches.measure(batch, NAME, suffix, MAX_RECORD, MOST) is not None
    found = f"{rounds} frames, {taken} taken, and {rounds} batches, {batches_taken} taken"
    print(f"lane_fuzz: {found}, all as the plain lane has them; seed {seed}")
    return 0 if taken and batches_taken else 1


if __name__ == "__main__":
    sys.exit(main())
