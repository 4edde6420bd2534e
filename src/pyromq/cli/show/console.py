"""Where tables go: the output, or standard error for remarks."""

from __future__ import annotations

import os
from typing import Final

from rich.console import Console

_AS_WIDE_AS_NEEDED: Final = 10_000


class OutputConsole(Console):
    """A console that raises BrokenPipeError when its reader has gone; Rich would exit with code 1."""

    def on_broken_pipe(self) -> None:
        """Leave the end to the caller."""
        raise BrokenPipeError


def output() -> Console:
    """Return the console of standard output. A file or pipe gets tables as wide as they are, for grep."""
    console = OutputConsole()
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _AS_WIDE_AS_NEEDED
    return console


def remarks() -> Console:
    """Return the console of standard error, for warnings and progress."""
    return OutputConsole(stderr=True)
