"""Progress bars on standard error, for people."""

from __future__ import annotations

import sys

from rich.progress import Progress, ProgressColumn

from pyromq.cli.show.console import is_terminal, remarks


def progress(*columns: str | ProgressColumn, shown: bool = True) -> Progress:
    """Return a progress bar that is drawn only if standard error is a terminal.

    Rich would print on that terminal whatever goes to standard output meanwhile, even if that is a file or a pipe. So
    it may take over standard output only if that is a terminal too.
    """
    console = remarks()
    return Progress(
        *columns,
        console=console,
        transient=True,
        disable=not (shown and console.is_terminal),
        redirect_stdout=is_terminal(sys.stdout),
    )
