"""Reduces Spark's exceptions to the one line that says what to do.

Spark wraps an exception of a Python data source in one of its own. Its text holds our whole traceback, ids of queries
and tasks, and sometimes a JVM stack. Our message is the last line of the traceback.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import wraps
from typing import ParamSpec, TypeVar

from pyromq.errors import PyroMQError

P = ParamSpec("P")
T = TypeVar("T")

_OURS = re.compile(r"^\s*pyromq\.errors\.\w+(?:: (?P<text>.*))?$", re.MULTILINE)
_TRACEBACK = "Traceback (most recent call last):"
_PYTHON_ERROR = re.compile(r"^(?P<text>[\w.]+(?:: .*)?)$", re.MULTILINE)
_WRAPPERS = re.compile(
    r"^(?:\[STREAM_FAILED\].*?terminated with exception: "  # how a query names whatever ended it
    r"|Job aborted due to stage failure:.*?\(executor [^)]*\): "
    r"|\([\w.$]+\) "  # the class, over Connect
    r"|(?:[a-z]\w*\.)+[A-Z][\w$]*: "  # the class, elsewhere
    r"|\[[A-Z][A-Z0-9_.]*\] )"
)
_STATE = re.compile(r"\s*SQLSTATE: \w+(?:;? \(?line \d+,? pos \d+\)?)?;?\s*$")
_CALL = "An error occurred while calling "  # what Py4J puts before a JVM exception
_SHIP = "on a cluster install PyroMQ, or call pyromq.spark.register(spark, ship=True)"
_HERE = "on this machine call pyromq.spark.register(spark), or set PYSPARK_PYTHON to a Python that has PyroMQ"
_ADVICE = {
    "UNSUPPORTED_DATA_SOURCE_SAVE_MODE": "messages are only ever added to a topic: write with mode('append')",
    "No module named 'pyromq'": f"PyroMQ is missing in the Python of an executor or planner: {_HERE}; {_SHIP}",
    "Failed to find the data source: pyromq": f"Spark does not know the format pyromq: {_HERE}; {_SHIP}",
    "Python worker failed to connect back": (
        "a Python process of Spark took more than 10 s to start; the machine may be busy: run it again"
    ),
    "JAVA_GATEWAY_EXITED": "Spark's Java did not start: see its output above",
}
"""Replacements for texts of Spark that do not say what to do."""
_HINTS = {
    "mkdir of ": ": is the directory writable, and is there space?",
    "Parent path is not a directory": ": choose another place",
}
"""Hints appended to texts of Spark that are clear enough."""
_LACKING = re.compile(r"No module named '(?P<name>msgspec|numpy|pyarrow|lz4|zstandard)'")


def brief(method: Callable[P, T]) -> Callable[P, T]:
    """Make a method that Spark calls raise PyroMQErrors without our frames.

    Spark prints a Python traceback twice. Our errors say what to do, so frames would only hide that.
    """

    @wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return method(*args, **kwargs)
        except PyroMQError as error:
            raise error.with_traceback(None) from None

    return call


def brief_rows(method: Callable[P, Iterator[T]]) -> Callable[P, Iterator[T]]:
    """Do the same for a method that returns an iterator, while Spark iterates."""

    @wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        try:
            yield from method(*args, **kwargs)
        except PyroMQError as error:
            raise error.with_traceback(None) from None

    return call


def one_line(error: BaseException) -> str:
    """Return an error as one line: PyroMQ's message if Spark's exception contains one, else the gist of its text."""
    text = str(error)
    if isinstance(error, PyroMQError):
        return _first_line(text) or type(error).__name__
    if ours := list(_OURS.finditer(text)):
        return ours[-1]["text"] or ours[-1][0].strip()
    return _advice(text) or _python_error(text) or _gist(text) or type(error).__name__


def _advice(text: str) -> str:
    if lacking := _LACKING.search(text):
        return f"the cluster's Python lacks {lacking['name']}: pip install {lacking['name']} on every node"
    return next((advice for sign, advice in _ADVICE.items() if sign in text), "")


def _python_error(text: str) -> str:
    """Return the last line of the last Python traceback, which is its first line that is not indented."""
    _, found, trace = text.rpartition(_TRACEBACK)
    line = _PYTHON_ERROR.search(trace) if found else None
    return line["text"] if line else ""


def _gist(text: str) -> str:
    """Return the first line without the wrappers that Spark puts around it."""
    line = _first_line(text)
    while shorter := _WRAPPERS.match(line):
        line = line[shorter.end() :]
    return _STATE.sub("", line) + next((hint for sign, hint in _HINTS.items() if sign in line), "")


def _first_line(text: str) -> str:
    lines = (line.strip().removeprefix(": ") for line in text.splitlines() if line.strip())
    return next((line for line in lines if not line.startswith(_CALL)), "")
