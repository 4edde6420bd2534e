"""How the source tree is cut: folders, one-importer modules, homonyms, mirrored tests, and five walks through it.

    python -m bench.rooms                        # this tree
    python -m bench.rooms --root ../other        # another checkout; PYTHONPATH decides whose walks are traced
    python -m bench.rooms --no-spark             # without the two walks that load PySpark

Walks are traced, not drawn: the real parts run in this process, and every call from one of our files into another is
noted. `files` counts the files that a walk enters, `crossings` the pairs of files between which it calls.
"""

from __future__ import annotations

import argparse
import ast
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from types import FrameType
from typing import Any

from pyromq import Message, MessageExt, blocking
from pyromq.testing import LocalCluster

TOPIC = "walk"


def main() -> None:
    """Print the figures of a tree."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--root", type=Path, default=Path(__file__).parent.parent)
    parser.add_argument("--no-spark", action="store_true")
    options = parser.parse_args()
    source, tests = options.root / "src" / "pyromq", options.root / "tests"
    print_packages(source)
    print_importers(source)
    print_homonyms(source)
    print_mirror(source, tests)
    print_walks(with_spark=not options.no_spark)


# --- the tree at rest ------------------------------------------------------------------------------------------------


def modules(source: Path) -> dict[str, Path]:
    """Return all modules below a package directory, by dotted name; packages are left out."""
    paths = (path for path in sorted(source.rglob("*.py")) if path.name != "__init__.py")
    return {".".join(("pyromq", *path.relative_to(source).with_suffix("").parts)): path for path in paths}


def print_packages(source: Path) -> None:
    """Print, for each package, how many files it has and how large its largest folder and file are."""
    print(f"{'package':<12}{'files':>6}{'lines':>8}{'folders':>9}{'largest folder':>16}{'longest file':>14}")
    for package in sorted(path for path in source.iterdir() if (path / "__init__.py").exists()):
        files = list(package.rglob("*.py"))
        entries = Counter(path.parent for path in files if path.name != "__init__.py")
        entries.update(path.parent.parent for path in files if path.name == "__init__.py" and path.parent != package)
        lines = [len(path.read_text().splitlines()) for path in files]
        row = (len(files), sum(lines), len(entries), max(entries.values(), default=0), max(lines, default=0))
        print(f"{package.name:<12}{row[0]:>6}{row[1]:>8}{row[2]:>9}{row[3]:>16}{row[4]:>14}")


def print_importers(source: Path) -> None:
    """Print how many modules exactly one other module imports."""
    importers: dict[str, set[str]] = defaultdict(set)
    known = modules(source)
    for name, path in known.items():
        for imported in _imports(path) & known.keys():
            importers[imported].add(name)
    single = [name for name, users in importers.items() if len(users) == 1]
    print(f"\nmodules: {len(known)}; imported by exactly one other module: {len(single)}")


def _imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def print_homonyms(source: Path) -> None:
    """Print which names of modules and of classes exist more than once."""
    names = Counter(path.stem for path in modules(source).values())
    classes = Counter(
        node.name
        for path in source.rglob("*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef)
    )
    for kind, counted in (("module", names), ("class", classes)):
        shared = sorted(name for name, count in counted.items() if count > 1)
        print(f"{kind} names that exist more than once: {len(shared)}  {' '.join(shared)}")


def print_mirror(source: Path, tests: Path) -> None:
    """Print how many test files lie where their module lies, and carry its name."""
    packages = {path.name for path in source.iterdir() if path.is_dir()}
    written = [path for path in tests.rglob("test_*.py") if path.relative_to(tests).parts[0] in packages]
    mirrored = sum(
        source.joinpath(path.relative_to(tests).parent, path.name.removeprefix("test_")).exists() for path in written
    )
    print(f"test files of packages: {len(written)}; with the place and name of their module: {mirrored}")


# --- the tree at work ------------------------------------------------------------------------------------------------


class Trace:
    """The files that were entered, and from which file."""

    def __init__(self, package: Path) -> None:
        self._package = f"{package}/"
        self.files: set[str] = set()
        self.crossings: set[tuple[str, str]] = set()

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        """Note a call."""
        if event != "call" or not (file := frame.f_code.co_filename).startswith(self._package):
            return
        self.files.add(file)
        caller = frame.f_back
        while caller is not None and not caller.f_code.co_filename.startswith(self._package):
            caller = caller.f_back
        if caller is not None and caller.f_code.co_filename != file:
            self.crossings.add((caller.f_code.co_filename, file))

    def line(self) -> str:
        """Return the counts, package by package."""
        rooms = Counter(file.removeprefix(self._package).split("/")[0] for file in self.files)
        parts = " ".join(f"{name} {count}" for name, count in sorted(rooms.items()))
        return f"{len(self.files):>6}{len(self.crossings):>11}   {parts}"


def print_walks(with_spark: bool) -> None:
    """Trace the five walks and print how many files each enters."""
    import pyromq

    package = Path(pyromq.__file__).parent
    gate = Gate(Trace(package))
    threading.setprofile(gate)  # the clients' background thread outlives a walk: one gate for all of them
    sys.setprofile(gate)
    walks: dict[str, Callable[[Gate], None]] = {
        "a send": walk_send,
        "a held pull to a listener": walk_held_pull,
        "a delayed message": walk_delayed,
    }
    if with_spark:
        walks |= {"a micro-batch": walk_micro_batch, "a pipeline (archive, driver)": walk_pipeline}
    print(f"\n{'walk':<30}{'files':>6}{'crossings':>11}")
    for name, walk in walks.items():
        gate.trace = Trace(package)
        walk(gate)
        print(f"{name:<30}{gate.trace.line()}")


def walk_send(gate: Gate) -> None:
    """One `send` of a message with a tag and a key, from the call to the result."""
    with _cluster() as (_, producer), gate.open():
        producer.send(_message())


def walk_held_pull(gate: Gate) -> None:
    """A message from another process reaches the broker, wakes a held pull and gets to a listener."""
    arrived = threading.Semaphore(0)
    script = f"""import sys
from pyromq import Message, blocking
with blocking.Producer("walk", sys.argv[1]) as producer:
    producer.send(Message(topic={TOPIC!r}, body=b"one"))
"""

    def listener(message: MessageExt) -> None:
        arrived.release()

    with (
        _cluster() as (cluster, _),
        blocking.PushConsumer("walkers", cluster.namesrv, {TOPIC: "*"}, listener, start_from="earliest"),
    ):
        assert arrived.acquire(timeout=30)
        time.sleep(1)  # until its pulls are held again
        with gate.open():
            subprocess.run([sys.executable, "-c", script, cluster.namesrv], check=True)
            assert arrived.acquire(timeout=30)


def walk_delayed(gate: Gate) -> None:
    """A message is sent with a delay; the clock moves on, and a waiting pull gets it."""
    with _cluster() as (cluster, producer), _consumer(cluster) as consumer:
        consumer.poll(timeout=1)
        with gate.open():
            producer.send(_message(), delay=timedelta(seconds=5))
            cluster.clock.advance(seconds=6)
            assert consumer.poll(timeout=30)


def _consumer(cluster: LocalCluster) -> blocking.LitePullConsumer:
    return blocking.LitePullConsumer(
        "walkers", cluster.namesrv, {TOPIC: "*"}, start_from="earliest", clock=cluster.clock
    )


def walk_micro_batch(gate: Gate) -> None:
    """One micro-batch of a stream, as Spark calls the source: offsets, partitions, rows."""
    from pyspark.sql.streaming.datasource import ReadAllAvailable
    from pyspark.sql.types import BinaryType, StructField, StructType

    import pyspark_pyromq

    everything = ReadAllAvailable()
    with _cluster() as (cluster, _):
        options = {"namesrv": cluster.namesrv, "subscribe": TOPIC, "startingOffsets": "earliest"}
        source: Any = pyspark_pyromq.DefaultSource(options)
        with gate.open():
            reader = source.streamReader(StructType([StructField("body", BinaryType())]))
            start = reader.initialOffset()
            reader.latestOffset(start, everything)  # pins the start
            end = reader.latestOffset(start, everything)
            rows = [batch.num_rows for part in reader.partitions(start, end) for batch in reader.read(part)]
        assert sum(rows) == 1


def walk_pipeline(gate: Gate) -> None:
    """One run of `archive`, in the driver."""
    from pyromq.pipelines import archive
    from pyromq.pipelines.outcome import Silent
    from pyromq.spark.session import local_session

    spark = local_session("rooms", "local[1]")
    with _cluster() as (cluster, _), tempfile.TemporaryDirectory() as directory:
        options = archive.Options(namesrv=cluster.namesrv, topics=TOPIC, to=f"{directory}/archive")
        with gate.open():
            outcome = archive.run(spark, options, Silent())
        assert outcome.written == 1
    spark.stop()


class Gate:
    """Lets calls through to the trace of a walk while it is open; threads carry it from their start."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self._is_open = False

    @contextmanager
    def open(self) -> Iterator[None]:
        """Trace what happens meanwhile."""
        self._is_open = True
        try:
            yield
        finally:
            self._is_open = False

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        """Note a call; this is what `sys.setprofile` wants."""
        if self._is_open:
            self.trace(frame, event, argument)


@contextmanager
def _cluster() -> Iterator[tuple[LocalCluster, blocking.Producer]]:
    """Start a cluster, and a producer that has sent one message."""
    with LocalCluster() as cluster, blocking.Producer("walk", cluster.namesrv, clock=cluster.clock) as producer:
        producer.send(_message())
        yield cluster, producer


def _message() -> Message:
    return Message(topic=TOPIC, body=b"one", tags="t", keys=["k"], properties={"color": "blue"})


if __name__ == "__main__":
    main()
