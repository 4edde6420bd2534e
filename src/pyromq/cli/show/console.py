"""Where tables go: the output, or standard error for remarks."""

from __future__ import annotations

import os
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from pyromq.cli.show.long_table import is_long_and_plain, lines_of

_AS_WIDE_AS_NEEDED: Final = 10_000


class OutputConsole(Console):
    """A console that raises BrokenPipeError when its reader has gone; Rich would exit with code 1.

    Nor does it make a picture of `:bug:` in a key or a reason.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(emoji=False, **settings)

    def print(self, *objects: Any, **settings: Any) -> None:
        """Print as Rich does; but a name that is too long for its column goes on in the next line, and is not cut."""
        for table in objects:
            for column in table.columns if isinstance(table, Table) else ():
                column.overflow = "fold"
        if len(objects) == 1 and isinstance(objects[0], Table) and is_long_and_plain(objects[0]):
            self.out("\n".join(lines_of(objects[0], self)), highlight=False)
        else:
            super().print(*objects, **settings)

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


def is_terminal(stream: Any) -> bool:
    """Return True if a person looks at a stream."""
    return stream is not None and bool(stream.isatty())
