"""A progress bar while a pipeline runs, and signals that end the run after its current batch."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from pyromq.cli.show.progress import progress
from pyromq.pipelines.outcome import Stopped

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class ProgressBar:
    """Draws the progress of a run. After a signal, the run's next report raises Stopped."""

    def __init__(self, name: str, progress: Progress) -> None:
        self._progress = progress
        self._task = progress.add_task(name, total=None)
        self._stopping = False

    def reached(self, done: int, total: int | None, doing: str = "") -> None:
        """Draw the progress; raises Stopped after a signal."""
        if self._stopping:
            raise Stopped
        self._progress.update(self._task, completed=done, total=total, description=doing or None)

    def stop(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal: the first one ends the run after its current batch, the second at once."""
        if self._stopping:
            raise KeyboardInterrupt
        self._stopping = True
        print("stopping after the current batch; a second signal stops at once", file=sys.stderr)


@contextmanager
def watched(name: str) -> Iterator[ProgressBar]:
    """Yield the progress of a run; the bar is drawn on stderr if that is a terminal."""
    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn(),
    )  # fmt: skip
    with progress(*columns) as shown:
        bar = ProgressBar(name, shown)
        before = {number: signal.signal(number, bar.stop) for number in _SIGNALS}  # Spark has installed its own
        try:
            yield bar
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
