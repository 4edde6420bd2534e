"""Feed mangled frames to the native lane under AddressSanitizer; what it takes must be what the plain lane makes of it.

    python -m tests.faults.lane_fuzz --minutes 60

It builds `_sends.c` once more, with the checks of gcc for addresses and undefined behaviour, and runs it in a process
of its own. Without gcc and its library it says so and ends well.
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

from pyromq.lane.sends import native_lane
from tests.lane.places import Desk, difference, mangled_frame, plain_desk

SOURCE = Path(__file__).parents[2] / "src" / "pyromq" / "lane" / "_sends.c"
CHECKS = ["-g", "-O1", "-shared", "-fPIC", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    parser.add_argument("--module", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.module:
        return _feed(options.module, options.minutes * 60, options.seed)
    library = _sanitizer()
    if not library:
        print("skipped: gcc with its AddressSanitizer is not here")
        return 0
    with tempfile.TemporaryDirectory() as directory:
        module = _build(Path(directory))
        settings = {"LD_PRELOAD": library, "ASAN_OPTIONS": "detect_leaks=0", "PYTHONMALLOC": "malloc"}
        arguments = ["--module", str(module), "--minutes", str(options.minutes), "--seed", str(options.seed)]
        command = [sys.executable, "-m", "tests.faults.lane_fuzz", *arguments]
        return subprocess.run(command, env=os.environ | settings, check=False).returncode


def _sanitizer() -> str:
    if shutil.which("gcc") is None:
        return ""
    done = subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True)
    path = done.stdout.strip()
    return path if os.path.isabs(path) else ""


def _build(directory: Path) -> Path:
    target = directory / "_sends.abi3.so"
    include = sysconfig.get_paths()["include"]
    macro = "-DPy_LIMITED_API=0x030B0000"
    subprocess.run(["gcc", *CHECKS, macro, f"-I{include}", str(SOURCE), "-o", str(target)], check=True)
    return target


def _feed(path: str, seconds: float, seed: int) -> int:
    spec = importlib.util.spec_from_file_location("pyromq.lane._sends", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    native, plain = Desk(lambda place: native_lane(module, place)), plain_desk()
    chance = random.Random(seed)
    frames = taken = 0
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        frame = mangled_frame(chance)
        if wrong := difference(native, plain, frame):
            print(f"seed {seed}, frame {frames}: {frame!r}: {wrong}")
            return 1
        frames += 1
        taken += bool(native.take(frame)[0])
    print(f"lane_fuzz: {frames} frames, {taken} taken, all as the plain lane has them; seed {seed}")
    return 0 if taken else 1


if __name__ == "__main__":
    sys.exit(main())
