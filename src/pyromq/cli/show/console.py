"""Where tables go: the output, or standard error for remarks."""

from __future__ import annotations

from rich.console import Console


class OutputConsole(Console):
    """A console that raises BrokenPipeError when its reader has gone; Rich would exit with code 1."""

    def on_broken_pipe(self) -> None:
        """Leave the end to the caller."""
        raise BrokenPipeError


def output() -> Console:
    """Return the console of standard output."""
    return OutputConsole()


def remarks() -> Console:
    """Return the console of standard error, for warnings and progress."""
    return OutputConsole(stderr=True)
