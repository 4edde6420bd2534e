"""Keeps Spark's own output off the terminal, so that an error is the only line there."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

_CHATTER = (
    b"WARNING: Using incubator modules:",
    b"Setting default log level to",
    b"To adjust logging level use",
    b"Setting Spark log level to",
)
_TRACEBACK = b"Traceback (most recent call last):"
_TOO_LATE = b"[CANNOT_OPEN_SOCKET]"
"""The error of a Python process that started too slowly. The query reports it too and is started again."""
_LAST_WORDS = 2.0


@contextmanager
def quiet_jvm() -> Iterator[None]:
    """Start a JVM within this context: its usual first lines are dropped, and Ctrl-C prints no traceback."""
    logging.getLogger().addFilter(_is_not_of_py4j)
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    sys.stderr.flush()
    stderr = os.dup(2)
    source, sink = os.pipe()
    os.dup2(sink, 2)
    os.close(sink)
    listener = Thread(target=_pass_on, args=(source, stderr), daemon=True)
    listener.start()
    try:
        yield
    except BaseException:
        os.dup2(stderr, 2)
        listener.join(_LAST_WORDS)  # print its last output before our own error
        raise
    os.dup2(stderr, 2)
    _silence_python()


def _silence_python() -> None:
    """Stop PySpark from printing exceptions as JSON before it raises them."""
    from pyspark.logger import PySparkLogger

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    """Return False if Py4J logs an interrupt or a lost JVM, with a traceback: it raises the exception as well."""
    return "while sending command" not in str(record.msg)


def _pass_on(source: int, stderr: int) -> None:
    traceback: list[bytes] = []
    with os.fdopen(source, "rb") as lines:
        for line in lines:
            if line.startswith((_TRACEBACK, b" ")):
                traceback.append(line)
                continue
            if not line.startswith(_CHATTER) and _TOO_LATE not in line:
                os.write(stderr, b"".join([*traceback, line]))
            traceback.clear()
    os.write(stderr, b"".join(traceback))
