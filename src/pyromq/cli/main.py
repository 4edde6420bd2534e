"""The `pyromq` command: the entry point, which turns whatever happens into output and an exit code.

It imports the rest when it runs, so that Ctrl-C is quiet from the start.
"""

from __future__ import annotations

import io
import logging
import os
import sys
from contextlib import suppress
from itertools import takewhile
from typing import Any, TextIO

from pyromq.errors import GroupNotFound, PyroMQError, QueryNotFound, TopicNotFound


def main() -> None:
    """Run the command line; a failure is one line on stderr and exit code 1."""
    _open_standard_streams()
    debug = "--debug" in takewhile(lambda text: text.startswith("-"), sys.argv[1:])
    for stream in (sys.stdout, sys.stderr):
        _escape_what_cannot_be_encoded(stream)
    code: Any = 0
    try:
        code = _exit_code(debug)
    except KeyboardInterrupt:
        code = 130
    except Exception as error:
        if debug:
            raise
        if sys.stderr is not None:
            print(f"pyromq: {describe(error)}", file=sys.stderr)
        code = 1
    _end_output()
    sys.exit(code)


def _exit_code(debug: bool) -> Any:
    """Run the command, and return its exit code when all output is written."""
    from pyromq.cli.arguments import COMPLETION
    from pyromq.cli.server_logs import start_logging
    from pyromq.cli.verbs import OutputClosed, app, completion_init

    if os.environ.get(COMPLETION):
        completion_init()
    if debug:
        start_logging(level=logging.DEBUG)
    logging.getLogger("pyromq").addHandler(logging.NullHandler())  # only servers log
    code = None
    try:
        app(prog_name="pyromq")
    except SystemExit as end:
        code = end.code
    except OutputClosed:
        return 0
    with suppress(BrokenPipeError):
        if sys.stdout is not None:
            sys.stdout.flush()
    return code


def describe(error: BaseException) -> str:
    """Return one line that says what is wrong."""
    text = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename is not None else error.strerror
    if isinstance(error, TopicNotFound | GroupNotFound | QueryNotFound):
        return error.remark  # a name that is not there needs no code
    if isinstance(error, PyroMQError | OSError):
        return text
    return f"unexpected {type(error).__name__}: {text}; `pyromq --debug ...` shows where"


def _open_standard_streams() -> None:
    """Open what was closed (`pyromq … >&-`): the next socket would take its number, and the event loop would abort."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number


def _escape_what_cannot_be_encoded(stream: TextIO | None) -> None:
    """Let a stream print any text: what its encoding lacks becomes an escape, such as \\xe9 in an ASCII terminal."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")


def _end_output() -> None:
    """Write what is still buffered; if that is not possible, drop it: an error at exit would be a traceback."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
