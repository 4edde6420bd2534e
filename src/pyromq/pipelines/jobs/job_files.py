"""The files of a job; small ones are replaced as a whole, so that readers never see half of one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct

from pyromq.pipelines.outcome import Outcome

MOST_SAMPLES: Final = 120
_LONGEST_TAIL: Final = 256 * 1024

T = TypeVar("T", bound=Struct)


class JobOrder(Struct, frozen=True, kw_only=True):
    """What is to be done."""

    id: str
    pipeline: str
    options: dict[str, Any]
    user: str
    started: float
    """Seconds since the epoch."""


class JobProcess(Struct, frozen=True, kw_only=True):
    """Which process does it; the time of its start tells it from a later one with the same number."""

    pid: int
    ticks: int


class JobProgress(Struct, frozen=True, kw_only=True):
    """How far a job is."""

    doing: str = ""
    done: int = 0
    total: int | None = None
    samples: tuple[tuple[float, int], ...] = ()
    """When how much was done; the newest last."""

    @property
    def rate(self) -> float | None:
        """Messages a second over the last samples; None if there are too few."""
        recent = self.samples[-10:]
        if len(recent) < 2 or recent[-1][0] <= recent[0][0]:
            return None
        return (recent[-1][1] - recent[0][1]) / (recent[-1][0] - recent[0][0])


class JobEnd(Struct, frozen=True, kw_only=True):
    """What came of a job."""

    ended: float
    outcome: Outcome | None = None
    stopped: bool = False
    error: str = ""


class JobFiles:
    """The directory of one job."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    @property
    def log(self) -> Path:
        """What the process prints."""
        return self.directory / "log.txt"

    @property
    def results(self) -> Path:
        """What the pipeline writes."""
        return self.directory / "files"

    def write(self, name: str, value: Struct) -> None:
        """Replace a file."""
        path = self.directory / f"{name}.json"
        temporary = path.with_suffix(".new")
        temporary.write_bytes(msgspec.json.encode(value))
        os.replace(temporary, path)

    def read(self, name: str, kind: type[T]) -> T | None:
        """Return a file, None if it is not there or damaged."""
        try:
            return msgspec.json.decode((self.directory / f"{name}.json").read_bytes(), type=kind)
        except (OSError, msgspec.MsgspecError):
            return None

    def log_tail(self, lines: int = 200) -> str:
        """Return the last lines of the log."""
        try:
            with self.log.open("rb") as file:
                file.seek(max(file.seek(0, os.SEEK_END) - _LONGEST_TAIL, 0))
                text = file.read().decode(errors="replace")
        except OSError:
            return ""
        return "\n".join(text.splitlines()[-lines:])
