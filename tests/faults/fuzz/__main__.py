"""Runs the fuzzers. See the package."""

from __future__ import annotations

import argparse
import random
import sys
import time
import traceback
import tracemalloc
from base64 import b64decode, b64encode
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any, Final

from msgspec import Struct, field

from tests.faults.fuzz.decoders import DECODERS, Decoder
from tests.faults.fuzz.mutations import mutated

HERE: Final = Path(__file__).parent
CORPUS: Final = HERE / "corpus"
RECORD: Final = HERE.parent / "FUZZING.md"
NEXT_SECTION: Final = "\n## Rude clients"
"""What follows the table of runs in FUZZING.md."""
MOST_SECONDS: Final = 1.0
CONSTANT: Final = 2 << 20
MOST_KEPT: Final = 2_000
LONGEST_IN_CORPUS: Final = 300
MOST_IN_CORPUS: Final = 20
WATCHED: Final = 64  # one input in so many has its code and its memory watched: that is slow


class Verdict(Struct):
    """What one decoder did."""

    name: str
    inputs: int = 0
    kept: int = 0
    cpu_seconds: float = 0.0
    findings: list[str] = field(default_factory=list)


class Fuzzer:
    """Tries inputs on one decoder; those that reach lines that none before has reached are changed further."""

    def __init__(self, name: str, seed: int) -> None:
        self._decoder: Decoder = DECODERS[name]
        self._chance = random.Random(f"{name} {seed}")
        self._kept = list(self._decoder.inputs()) + corpus(name)
        self._known = len(self._kept)
        self._lines: set[tuple[str, int]] = set()
        self._seen: set[str] = set()
        self.verdict = Verdict(name)

    def run(self, seconds: float) -> Verdict:
        """Try inputs for so long, the corpus first."""
        began = time.thread_time()
        for data in list(self._kept):
            self._try(data, watched=True)
        while time.thread_time() - began < seconds:
            data = mutated(self._chance.choice(self._kept), self._chance, self._kept)
            self._try(data, watched=self.verdict.inputs % WATCHED == 0)
        self.verdict.kept = len(self._kept)
        self.verdict.cpu_seconds = time.thread_time() - began
        return self.verdict

    def keep_short(self) -> None:
        """Add inputs that reached new code to the corpus, the short ones."""
        for data in [data for data in self._kept[self._known :] if len(data) <= LONGEST_IN_CORPUS][:MOST_IN_CORPUS]:
            keep(self.verdict.name, data)

    def _try(self, data: bytes, *, watched: bool) -> None:
        self.verdict.inputs += 1
        began = time.thread_time()
        try:
            is_new = self._watch(data) if watched else self._decode(data)
        except Exception as error:
            self._find(f"{type(error).__name__} at {_place(error)}: {str(error)[:200]}", data)
            return
        took = time.thread_time() - began
        if took > MOST_SECONDS * (10 if watched else 1):
            self._find(f"{took:.1f} s", data)
        if is_new and len(self._kept) < MOST_KEPT:
            self._kept.append(data)

    def _decode(self, data: bytes) -> bool:
        with suppress(*self._decoder.errors):
            self._decoder.run(data)
        return False

    def _watch(self, data: bytes) -> bool:
        """Decode with an eye on the lines that run and the memory that is taken; return True if a line is new."""
        before = len(self._lines)
        sys.settrace(self._trace)
        try:
            self._decode(data)
        finally:
            sys.settrace(None)
        tracemalloc.start()
        try:
            self._decode(data)
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        if most > 2 * len(data) + CONSTANT + self._decoder.most_memory:
            self._find(f"{most >> 20} MiB of memory for {len(data)} bytes", data)
        return len(self._lines) > before

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        if "pyromq" not in frame.f_code.co_filename:
            return None
        self._lines.add((frame.f_code.co_filename, frame.f_lineno))
        return self._trace

    def _find(self, what: str, data: bytes) -> None:
        kind = what.partition(": ")[0]
        if kind not in self._seen:
            self._seen.add(kind)
            self.verdict.findings.append(f"{what} from {data[:300]!r}")
            print(f"fuzz: {self.verdict.name}: {what}; input in {keep(self.verdict.name, data)}", flush=True)


def _place(error: Exception) -> str:
    """Return where an error was raised, in our code."""
    ours = [each for each in traceback.extract_tb(error.__traceback__) if "pyromq" in each.filename]
    return f"{Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else "?"


def corpus(name: str) -> list[bytes]:
    """Return the inputs of a decoder that once broke it, or reached code that its first inputs do not reach."""
    path = CORPUS / f"{name}.txt"
    return [b64decode(line) for line in path.read_text().split()] if path.exists() else []


def keep(name: str, data: bytes) -> Path:
    """Add an input to the corpus, one line of base64; return its file."""
    path = CORPUS / f"{name}.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    line = b64encode(data).decode() + "\n"
    lines = path.read_text() if path.exists() else ""
    if line not in lines:
        path.write_text(lines + line)
    return path


def add_to_record(verdicts: list[Verdict]) -> None:
    """Add a row for all decoders to FUZZING.md."""
    inputs, seconds = sum(each.inputs for each in verdicts), sum(each.cpu_seconds for each in verdicts)
    record(f"{len(verdicts)} decoders", inputs, seconds, sum(len(each.findings) for each in verdicts))


def record(what: str, inputs: int, cpu_seconds: float, findings: int) -> None:
    """Add a row to FUZZING.md."""
    row = f"| {datetime.now(UTC):%Y-%m-%d} | {what} | {inputs:,} | {cpu_seconds / 3600:.2f} | {findings} |\n"
    text = RECORD.read_text()
    RECORD.write_text(text.replace(NEXT_SECTION, row + NEXT_SECTION))


def main() -> int:
    parser = argparse.ArgumentParser(prog="fuzz", description="Mutated inputs for every decoder.")
    parser.add_argument("decoder", nargs="*", help=f"only these: {', '.join(DECODERS)}")
    parser.add_argument("--minutes", type=float, default=60.0, help="of CPU time, for all decoders together")
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument("--record", action="store_true", help="add a row to FUZZING.md")
    parser.add_argument("--keep", action="store_true", help="add inputs that reach new code to the corpus")
    options = parser.parse_args()
    names = options.decoder or list(DECODERS)
    if unknown := set(names) - set(DECODERS):
        parser.error(f"no decoder is called {', '.join(sorted(unknown))}")
    print(f"fuzz: seed {options.seed}, {options.minutes:g} minutes", flush=True)
    verdicts = []
    for name in names:
        fuzzer = Fuzzer(name, options.seed)
        each = fuzzer.run(options.minutes * 60 / len(names))
        verdicts.append(each)
        if options.keep:
            fuzzer.keep_short()
        print(f"fuzz: {name:<14} {each.inputs:>9,} inputs, {each.kept} kept, {len(each.findings)} findings", flush=True)
    if options.record:
        add_to_record(verdicts)
    bad = [each.name for each in verdicts if each.findings]
    print(f"fuzz: {'BAD: ' + ', '.join(bad) if bad else 'good'}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
