"""Spark reads the same messages from PyroMQ and, with its own Kafka source, from Kafka.

    python -m bench.peers spark [--quick] [--directory DIR] [--json FILE]

Fetches Kafka and Spark's connector with Maven into a cache outside the repository, starts a Kafka broker and a PyroMQ
broker on this machine, gives both the same messages and checks that they have them. Then the jobs run in turn, round
after round: a batch of a million rows into the noop sink, from Kafka, from PyroMQ's store files and through its broker;
the start of a stream; and a stream of ten million rows (AvailableNow). A directory given by option is kept for the next
run (25 GB); otherwise everything is temporary. The session is `local_session` with fast checkpoints; with `--plain` it
is one as users make it, registered, and the stream has as many rows as a batch.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple

from interop.toolkit import Missing

from .jobs import Source, read_batch, read_stream, start_stream
from .messages import Topic
from .report import KAFKA, Line, print_rates, print_times
from .rounds import Pace, Runs, in_turn
from .setting import Setting, check, plain_session, prepare, quick_session, start

_START_ROWS = 1_000
_OVERHEAD = 1.25
"""The most bytes on disk per byte of body."""


class Aims(NamedTuple):
    """The ratios to Kafka's rates that we want to reach, from files and through the broker."""

    batch: tuple[float, float]
    stream: tuple[float, float]


_QUICK_AIMS = Aims((1.4, 1.0), (1.0, 1.0))
_PLAIN_AIMS = Aims((2.0, 1.4), (1.2, 1.0))


def batches(setting: Setting, topic: Topic, pace: Pace, aims: Aims) -> list[Line]:
    """Compare batches."""
    ways = {
        KAFKA: (setting.kafka, None),
        "store files, Kafka's columns": (setting.files, aims.batch[0]),
        "broker, Kafka's columns": (setting.broker, aims.batch[1]),
        "store files, all columns": (setting.all_files, None),
        "broker, all columns": (setting.all_broker, None),
    }
    frames = {name: source.batch(setting.spark, topic) for name, (source, _) in ways.items()}
    runs = in_turn({name: partial(read_batch, frame) for name, frame in frames.items()}, pace)
    return [Line("batch", name, topic.rows, runs[name], runs[KAFKA], at_least=bar) for name, (_, bar) in ways.items()]


def _each(setting: Setting, job: Callable[[Source], float], pace: Pace, *, warm_up: bool) -> dict[str, Runs]:
    sources = (setting.kafka, setting.files, setting.broker)
    return in_turn({source.name: partial(job, source) for source in sources}, pace, warm_up=warm_up)


def starts(setting: Setting, topic: Topic, pace: Pace) -> list[Line]:
    """Compare the time from the start of a stream until its first rows are processed."""
    runs = _each(setting, lambda source: start_stream(source.stream(setting.spark, topic)), pace, warm_up=True)
    bars = dict.fromkeys(runs, 1.5) | {KAFKA: None}
    return [Line("start", name, topic.rows, runs[name], runs[KAFKA], slower_by=bars[name]) for name in runs]


def streams(setting: Setting, topic: Topic, pace: Pace, aims: Aims) -> list[Line]:
    """Compare streams that read everything; earlier jobs have warmed up Spark."""

    def read(source: Source) -> float:
        return read_stream(source.stream(setting.spark, topic), topic.rows)

    runs = _each(setting, read, pace, warm_up=False)
    bars = dict(zip(runs, (None, *aims.stream), strict=True))
    return [Line("stream", name, topic.rows, runs[name], runs[KAFKA], at_least=bars[name]) for name in runs]


def compare(options: argparse.Namespace, directory: Path, stack: ExitStack) -> list[Line]:
    """Prepare everything and measure."""
    batch, stream, small = (Topic(rows, options.body_size) for rows in (options.rows, options.stream_rows, _START_ROWS))
    topics = sorted({batch, stream, small})
    _check_space(directory, topics)
    make, aims = (plain_session, _PLAIN_AIMS) if options.plain else (quick_session, _QUICK_AIMS)
    setting = start(prepare(), directory, topics, lambda given: make({**given, **dict(options.conf)}), stack)
    check(setting, batch, setting.kafka, setting.files, setting.broker)
    session = "a session as users make it" if options.plain else "local_session with fast checkpoints"
    print(f"\n{os.cpu_count()} cores, {session}, bodies of {options.body_size:,} bytes, median (best) of the rounds")
    rates = batches(setting, batch, Pace(options.rounds, options.seconds), aims)
    print_rates(rates)
    times = starts(setting, small, Pace(options.rounds, options.seconds / 2))
    print_times(times)
    flows = streams(setting, stream, Pace(options.stream_rounds, options.seconds), aims)
    print_rates(flows)
    return [*rates, *times, *flows]


def _check_space(directory: Path, topics: list[Topic]) -> None:
    kept = sum(path.stat().st_blocks * 512 for path in directory.rglob("*") if path.is_file())
    needed = int(2 * _OVERHEAD * sum(topic.rows * topic.body_size for topic in topics)) - kept
    free = shutil.disk_usage(directory).free
    if needed > free:
        raise Missing(f"{needed >> 30} GB are needed in {directory}, {free >> 30} are free; see --stream-rows")


def _options(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.peers spark", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--directory", type=Path, help="keep the messages here for the next run")
    parser.add_argument("--rows", type=int, default=1_000_000, help="of the batches")
    parser.add_argument("--stream-rows", type=int, default=10_000_000)
    parser.add_argument("--body-size", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=5, help="of the batches and starts")
    parser.add_argument("--stream-rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=300.0, help="no further round of a kind is begun after these")
    parser.add_argument(
        "--plain", action="store_true", help="a session as users make it; the stream as long as a batch"
    )
    parser.add_argument("--quick", action="store_true", help="the stream has as many rows as a batch; three rounds")
    parser.add_argument(
        "--conf", action="append", default=[], type=_setting, metavar="KEY=VALUE", help="a setting of Spark"
    )
    parser.add_argument("--json", type=Path, help="write all figures into a file")
    options = parser.parse_args(words)
    if options.plain:
        options.stream_rows, options.stream_rounds = options.rows, options.rounds
    if options.quick:
        options.stream_rows, options.rounds, options.stream_rounds, options.seconds = options.rows, 3, 3, 40.0
    return options


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"wants key=value, not {text!r}")
    return key, value


def main(words: Sequence[str]) -> int:
    options = _options(words)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # unwinds, so that everything is closed
    with ExitStack() as stack:
        kept = options.directory or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pyromq-peers-")))
        kept.mkdir(parents=True, exist_ok=True)
        try:
            lines = compare(options, kept.resolve(), stack)
        except Missing as reason:
            print(f"bench-peers spark skipped: {reason}")
            return 0
    if options.json:
        options.json.write_text(json.dumps([line.as_json() for line in lines], indent=1) + "\n")
    return 0
