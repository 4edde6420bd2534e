"""Supervisor: the parent of the worker processes of an App."""

from __future__ import annotations

import logging
import os
import subprocess
import threading
import time
from collections.abc import Sequence

from pyromq.app.running.changes import SourceChanges
from pyromq.app.running.serving import stop_signals

logger = logging.getLogger(__name__)

CANNOT_START = 3
"""The exit code of a worker that could not load or start its App: another one could not either."""

WORKER_VARIABLE = "PYROMQ_WORKER"
"""Set in a worker: its number."""

_LOOK = 0.1  # seconds between two looks at the workers
_CHANGES_LOOK = 0.5
_PAUSES = (0.0, 1.0, 2.0, 5.0, 10.0, 30.0)  # seconds before a worker is replaced that died again and again
_STEADY = 60.0  # seconds: one that lived so long starts with the first pause again


class Worker:
    """One worker: its process now, and when the next one may start."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.process: subprocess.Popen[bytes] | None = None
        self.starts = 0
        self._started = 0.0
        self._deaths = 0
        self._not_before = 0.0

    def start(self, command: Sequence[str]) -> None:
        """Start the process, if it may be by now."""
        if time.monotonic() < self._not_before:
            return
        self._started = time.monotonic()
        self.starts += 1
        # A session of its own: Ctrl-C goes to the supervisor alone, which stops the workers in order.
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            start_new_session=True,
            env={**os.environ, WORKER_VARIABLE: str(self.number)},
        )

    def ask_to_stop(self) -> None:
        """Let the process finish what it has in hand."""
        if self.process is not None and self.process.stdin is not None:
            self.process.stdin.close()

    def died(self, code: int) -> None:
        """Note that the process ended by itself."""
        self.process = None
        steady = time.monotonic() - self._started > _STEADY
        self._deaths = 0 if steady else self._deaths + 1
        pause = _PAUSES[min(self._deaths, len(_PAUSES)) - 1] if self._deaths else 0.0
        self._not_before = time.monotonic() + pause
        logger.error("worker %d ended with exit code %d; another one starts in %g s", self.number, code, pause)


class Supervisor:
    """Keeps workers running; `command` starts one, with its number in PYROMQ_WORKER."""

    def __init__(self, command: Sequence[str], workers: int, changes: SourceChanges | None = None) -> None:
        self._command = command
        self._workers = [Worker(number) for number in range(1, workers + 1)]
        self._changes = changes
        self._next_look = 0.0
        self._stopping = threading.Event()
        self._waits_for_a_change = False

    def run(self) -> int:
        """Run until a signal asks to stop; return the exit code: 0 if every worker left in order."""
        with stop_signals(self._stopping.set):
            try:
                code = self._watch()
            finally:
                codes = self._stop_all()
        return code or int(any(codes))

    def _watch(self) -> int:
        while not self._stopping.is_set():
            for worker in self._workers:
                if worker.process is None and not self._waits_for_a_change:
                    worker.start(self._command)
                elif worker.process is not None and (code := worker.process.poll()) is not None:
                    if code == CANNOT_START and self._changes is not None:
                        self._waits_for_a_change = True
                        worker.process = None
                    elif code == CANNOT_START and worker.starts == 1:
                        return 1  # it has said why
                    else:
                        worker.died(code)
            self._reload_if_changed()
            self._stopping.wait(_LOOK)
        return 0

    def _reload_if_changed(self) -> None:
        if self._changes is None or time.monotonic() < self._next_look:
            return
        self._next_look = time.monotonic() + _CHANGES_LOOK
        changed = self._changes.found()
        if changed:
            more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
            logger.info("%s%s changed: reloading", changed[0], more)
            self._waits_for_a_change = False
            self._stop_all()

    def _stop_all(self) -> list[int]:
        """Ask all workers to stop, wait for them, and return their exit codes."""
        running = [worker for worker in self._workers if worker.process is not None]
        for worker in running:
            worker.ask_to_stop()
        codes = []
        for worker in running:
            if worker.process is not None:
                codes.append(worker.process.wait())
                worker.process = None
        return codes
