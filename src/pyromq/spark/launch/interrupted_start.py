"""A start of Spark that Ctrl-C interrupts leaves no JVM behind."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_SPARK_COMMANDS = (b"org.apache.spark", b"spark-submit", b"spark-class")


@contextmanager
def no_jvm_left_behind() -> Iterator[None]:
    """End the JVM that was started within this context if KeyboardInterrupt ends it.

    A JVM ends with the process that started it, but not if that process is interrupted while it waits for the JVM:
    PySpark then removes the directory that the JVM needs to report itself, and the JVM waits for ever.
    """
    before = _spark_children()
    try:
        yield
    except KeyboardInterrupt:
        if not _has_gateway():
            for process in _spark_children() - before:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
        raise


def _has_gateway() -> bool:
    """Return True if PySpark knows its JVM: it can be used again, and ends with this process."""
    from pyspark import SparkContext

    return SparkContext._gateway is not None


def _spark_children() -> set[int]:
    """Return the children of this process that run Spark; none where there is no /proc."""
    return {
        int(path.name)
        for path in Path("/proc").glob("[0-9]*")
        if _parent(path) == os.getpid() and any(word in _command(path) for word in _SPARK_COMMANDS)
    }


def _parent(process: Path) -> int:
    try:
        return int((process / "stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, IndexError):  # it has just ended
        return 0


def _command(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""
