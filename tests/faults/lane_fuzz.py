"""Feed mangled frames, batches and pulls to the native lane under AddressSanitizer; it must do as the plain lane.

    python -m tests.faults.lane_fuzz --minutes 60

It builds all parts of the lane once more, with the checks of gcc for addresses and undefined behaviour, and runs them
in a process of their own, in turn: signed frames too, pulls from queues and logs with odd entries, and keys of odd
messages for the index; half of the time without the processor's instructions for SHA-1. Without gcc and its library it
says so and ends well.
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

from pyromq.lane.pull_serving import plain_serve
from pyromq.lane.sends import native_lane
from tests.lane import answers, index_keys, log_pieces, pull_desk, pull_pass_desk
from tests.lane.answers import mangled_answer
from tests.lane.batch_bodies import MAX_RECORD, MOST, NAME, SUFFIX, lay_out_alone, mangled_batch
from tests.lane.batch_bodies import difference as batch_difference
from tests.lane.places import (
    Desk,
    difference,
    mangled_frame,
    mangled_signed_frame,
    plain_desk,
    read_difference,
    send_frame,
)

SOURCES = Path(__file__).parents[2] / "src" / "pyromq" / "lane" / "c"
PARTS = ("_sends", "_batches", "_pulls", "_records", "_copies", "_keys")
VARIANTS: list[list[str]] = [[], ["-DPYROMQ_PLAIN_SHA1"]]
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
    settings = {"LD_PRELOAD": library, "ASAN_OPTIONS": "detect_leaks=0", "PYTHONMALLOC": "malloc"}
    minutes = str(options.minutes / len(VARIANTS))
    for number, macros in enumerate(VARIANTS):
        with tempfile.TemporaryDirectory() as directory:
            for part in PARTS:
                _build(part, Path(directory), macros)
            arguments = ["--modules", directory, "--minutes", minutes, "--seed", str(options.seed + number)]
            command = [sys.executable, "-m", "tests.faults.lane_fuzz", *arguments]
            if code := subprocess.run(command, env=os.environ | settings, check=False).returncode:
                return code
    return 0


def _sanitizer() -> str:
    if shutil.which("gcc") is None:
        return ""
    done = subprocess.run(["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True)
    path = done.stdout.strip()
    return path if os.path.isabs(path) else ""


def _build(part: str, directory: Path, macros: list[str]) -> None:
    target = directory / f"{part}.abi3.so"
    include = sysconfig.get_paths()["include"]
    options = [*CHECKS, "-DPy_LIMITED_API=0x030B0000", *macros, f"-I{include}"]
    subprocess.run(["gcc", *options, str(SOURCES / f"{part}.c"), "-o", str(target)], check=True)


def _load(directory: Path, part: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"pyromq.lane.{part}", directory / f"{part}.abi3.so")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _feed(directory: Path, seconds: float, seed: int) -> int:
    sends, batches, pulls, records, copies, keys = (_load(directory, part) for part in PARTS)
    open_desks, guarded_desks = ((Desk(lambda place: native_lane(sends, place)), plain_desk()) for _ in range(2))
    for desk in guarded_desks:
        desk.guard()
    chance = random.Random(seed)
    rounds = taken = signed_taken = batches_taken = pulls_answered = 0
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        frame, batch = mangled_frame(chance), mangled_batch(chance)
        suffix, indexed = chance.choice((SUFFIX, SUFFIX, b"")), chance.random() < 0.9
        signed = mangled_signed_frame(chance)
        if wrong := difference(*open_desks, frame) or difference(*guarded_desks, signed):
            print(f"seed {seed}, frame {rounds}: {frame!r} or {signed!r}: {wrong}")
            return 1
        frames = [send_frame(opaque=rounds), frame, send_frame()]
        if wrong := read_difference(open_desks[0], open_desks[0], frames, chance.randint(0, 3 * len(frame) + 500)):
            print(f"seed {seed}, read {rounds}: {frames!r}: {wrong}")
            return 1
        if wrong := batch_difference(batches, batch, suffix, indexed=indexed):
            print(f"seed {seed}, batch {rounds}: {batch!r}, suffix {suffix!r}: {wrong}")
            return 1
        lay_out_alone(batches, batch)
        answer = mangled_answer(chance)
        if wrong := answers.difference(records, answer):
            print(f"seed {seed}, answer {rounds}: {answer!r}: {wrong}")
            return 1
        piece = log_pieces.log_piece(chance)
        if wrong := log_pieces.difference(copies.read_run, piece, 0, len(piece), log_pieces.START, indexed):
            print(f"seed {seed}, bytes of a log {rounds}: {piece!r}: {wrong}")
            return 1
        number = chance.getrandbits(40)
        if wrong := (
            pull_desk.difference(number, plain_serve, pulls.serve)
            or pull_desk.old_difference(number, plain_serve, pulls.serve)
            or pull_pass_desk.pass_difference(number, pulls.NativePullPass)
        ):
            print(f"seed {seed}, pulls of {number}: {wrong}")
            return 1
        messages = index_keys.odd_messages(chance)
        wrong = index_keys.hash_difference(keys, messages) or index_keys.link_difference(keys.link, number)
        if wrong:
            print(f"seed {seed}, keys of {messages!r} or of {number}: {wrong}")
            return 1
        rounds += 1
        taken += bool(open_desks[0].take(frame)[0])
        signed_taken += bool(guarded_desks[0].take(signed)[0])
        batches_taken += batches.measure(batch, NAME, suffix, MAX_RECORD, MOST) is not None
        pulls_answered += pull_desk.Desk(number).serve(pulls.serve)[0]
    found = f"{rounds} rounds; taken were {taken} frames, {signed_taken} signed ones, {batches_taken} batches and"
    print(f"lane_fuzz: {found} {pulls_answered} pulls, all as the plain lane has them; seed {seed}")
    return 0 if taken and signed_taken and batches_taken and pulls_answered else 1


if __name__ == "__main__":
    sys.exit(main())
