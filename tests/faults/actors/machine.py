"""A machine of its own for each broker, as far as a broker can tell: its boot, and its date, which can be set wrong.

The campaign writes two files and names their directory in PYROMQ_MACHINE; the broker's process reads them (`be`). No
other process, and no clock that only goes on, is touched.
"""

from __future__ import annotations

import os
import threading
import time
import uuid
from pathlib import Path

from pyromq.broker.replication.last_run import LastRun
from pyromq.clock import SystemClock

VARIABLE = "PYROMQ_MACHINE"
_BOOT, _STEP = "boot_id", "clock"
_READ_EVERY = 0.02


class Machine:
    """One machine, as the campaign sees it."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self._directory = directory
        self.boot()
        self.step(0)

    @property
    def environment(self) -> dict[str, str]:
        """What a process on it needs to know."""
        return {VARIABLE: str(self._directory)}

    def boot(self) -> None:
        """Begin another boot: whoever starts from now on finds that the power was away."""
        self._write(_BOOT, str(uuid.uuid4()))

    def step(self, seconds: int) -> None:
        """Set its date so far from the true one, at once and while its processes run."""
        self._write(_STEP, str(seconds))

    def _write(self, name: str, text: str) -> None:
        new = self._directory / f"{name}.new"
        new.write_text(text)
        new.replace(self._directory / name)


class _Date:
    """The date of a machine, kept up by a thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._time, self._time_ns = time.time, time.time_ns
        self._step = int(path.read_text())
        threading.Thread(target=self._follow, daemon=True).start()

    def _follow(self) -> None:
        while True:
            time.sleep(_READ_EVERY)
            self._step = int(self._path.read_text())

    def time(self) -> float:
        return self._time() + self._step

    def time_ns(self) -> int:
        return self._time_ns() + self._step * 1_000_000_000


def be() -> None:
    """Have this process live on the machine that its environment names."""
    directory = Path(os.environ[VARIABLE])
    date = _Date(directory / _STEP)
    for name, value in (("time", date.time), ("time_ns", date.time_ns)):
        setattr(time, name, value)
    setattr(SystemClock, "now", staticmethod(date.time))  # noqa: B010
    LastRun.__init__.__defaults__ = (None, directory / _BOOT)
