"""History: what happened in the last hours, without another system.

Each series is a row in two rings: ten-second points of half an hour, and one-minute points of eight hours. A series
comes into being with its first value that is not 0, so that idle topics and groups cost nothing; at MOST_SERIES the one
that has been at 0 for the longest time goes. Memory is 660 × 4 bytes a series, and room for more: 22 MB at most.

File: one line of JSON (version, time and place of both rings, names), then both arrays as little-endian float32.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np

FINE_STEP, FINE_POINTS = 10, 180
COARSE_STEP, COARSE_POINTS = 60, 480
MOST_SERIES: Final = 8_000
VERSION: Final = 1
_FIRST_ROWS: Final = 64


class _Ring:
    """Rows of points, one column for each step of time."""

    def __init__(self, step: int, points: int) -> None:
        self.step, self.points = step, points
        self.data = np.full((_FIRST_ROWS, points), np.nan, dtype="<f4")
        self.last = 0
        """The number of the newest column, counted from the epoch."""

    def grow(self, rows: int) -> None:
        if rows > len(self.data):
            more = np.full((max(rows, 2 * len(self.data)) - len(self.data), self.points), np.nan, dtype="<f4")
            self.data = np.concatenate([self.data, more])

    def advance(self, at: float) -> int:
        """Move to the column of a time and return its index; columns that were left out are empty."""
        number = int(at // self.step)
        if number > self.last:
            gap = min(number - self.last, self.points)
            for column in range(number - gap + 1, number + 1):
                self.data[:, column % self.points] = np.nan
            self.last = number
        return self.last % self.points

    def row(self, index: int) -> tuple[list[int], list[float | None]]:
        """Return times and values of one row, the oldest first; None where nothing is known."""
        first = self.last - self.points + 1
        order = [number % self.points for number in range(first, self.last + 1)]
        values = self.data[index, order]
        times = [number * self.step for number in range(first, self.last + 1)]
        return times, [None if np.isnan(value) else round(float(value), 3) for value in values]


class Points(msgspec.Struct, frozen=True):
    """One series: times in seconds since the epoch, and values."""

    times: list[int]
    values: list[float | None]

    @property
    def known(self) -> list[tuple[int, float]]:
        """The points that are known."""
        return [(time, value) for time, value in zip(self.times, self.values, strict=True) if value is not None]


class FigureHistory:
    """The series of a cluster, by name: `in`, `out`, `lag`, `topic/NAME`, `group/NAME/lag` …"""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._rows: dict[str, int] = {}
        self._free: list[int] = []
        self._busy: dict[str, float] = {}
        self._fine, self._coarse = _Ring(FINE_STEP, FINE_POINTS), _Ring(COARSE_STEP, COARSE_POINTS)

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def bytes(self) -> int:
        """The memory of the points."""
        return int(self._fine.data.nbytes + self._coarse.data.nbytes)

    def add(self, at: float, values: Mapping[str, float]) -> None:
        """Add a point of each series; those that are not named are unknown at this time."""
        fine, coarse = self._fine.advance(at), self._coarse.advance(at)
        self._busy.update((name, at) for name, value in values.items() if value and name in self._rows)
        new = [name for name, value in values.items() if value and name not in self._rows]
        self._make_room(new, at)
        known = [(self._rows[name], value) for name, value in values.items() if name in self._rows]
        if known:
            rows, points = (np.array(part) for part in zip(*known, strict=True))
            self._fine.data[rows, fine] = points
            before = self._coarse.data[rows, coarse]
            self._coarse.data[rows, coarse] = np.where(np.isnan(before), points, np.fmax(before, points))

    def _make_room(self, new: list[str], at: float) -> None:
        excess = len(self._rows) + len(new) - MOST_SERIES
        if excess > 0:
            idle = sorted(self._rows, key=lambda name: self._busy.get(name, 0.0))[:excess]
            for name in idle:
                if self._busy.get(name, 0.0) < at:
                    self._drop(name)
            new = new[: max(MOST_SERIES - len(self._rows), 0)]
        for name in new:
            row = self._free.pop() if self._free else len(self._rows)
            self._rows[name], self._busy[name] = row, at
            for ring in (self._fine, self._coarse):
                ring.grow(row + 1)

    def _drop(self, name: str) -> None:
        row = self._rows.pop(name)
        self._busy.pop(name, None)
        self._free.append(row)
        for ring in (self._fine, self._coarse):
            ring.data[row] = np.nan

    def points(self, name: str, *, long: bool = False) -> Points:
        """Return one series, of half an hour or of eight hours; one without values if nothing happened."""
        ring = self._coarse if long else self._fine
        row = self._rows.get(name)
        if row is None:
            return Points([], [])
        return Points(*ring.row(row))

    def spark(self, name: str, count: int = 30) -> list[float]:
        """Return the last points of a series for a small chart; empty if there is nothing to see.

        Where no point was taken the last one counts on: a dip to 0 would tell of something that never happened.
        """
        row = self._rows.get(name)
        if row is None:
            return []
        ring = self._fine
        order = [number % ring.points for number in range(ring.last - count + 1, ring.last + 1)]
        values: list[float] = []
        for value in ring.data[row, order]:
            values.append(float(value) if not np.isnan(value) else values[-1] if values else 0.0)
        return values

    # --- on disk -----------------------------------------------------------------------------------------------------

    def save(self) -> None:
        """Write all to disk, at once or not at all; a history without a file stays in memory."""
        if self._path is None:
            return
        names = list(self._rows)
        rows = [self._rows[name] for name in names]
        head = {
            "version": VERSION,
            "names": names,
            "busy": [self._busy.get(name, 0.0) for name in names],
            "last": [self._fine.last, self._coarse.last],
        }
        self._path.parent.mkdir(parents=True, exist_ok=True)
        new = self._path.with_suffix(".tmp")
        with new.open("wb") as file:
            file.write(msgspec.json.encode(head) + b"\n")
            for ring in (self._fine, self._coarse):
                file.write(np.ascontiguousarray(ring.data[rows]).tobytes())
            file.flush()
            os.fsync(file.fileno())
        new.replace(self._path)

    def load(self) -> bool:
        """Read what was saved; return False if there is nothing, or nothing that can be read."""
        if self._path is None:
            return False
        try:
            line, _, rest = self._path.read_bytes().partition(b"\n")
            head: dict[str, Any] = msgspec.json.decode(line)
            names, count = head["names"], len(head["names"])
            sizes = (count * FINE_POINTS * 4, count * COARSE_POINTS * 4)
            if head["version"] != VERSION or len(rest) != sum(sizes) or count > MOST_SERIES:
                return False
            lasts = [int(last) for last in head["last"]]
        except (OSError, msgspec.MsgspecError, KeyError, TypeError, ValueError):
            return False
        parts = (rest[: sizes[0]], rest[sizes[0] :])
        for ring, part, last in zip((self._fine, self._coarse), parts, lasts, strict=True):
            ring.grow(count)
            ring.data[:count] = np.frombuffer(part, dtype="<f4").reshape(count, ring.points)
            ring.last = last
        self._rows = {name: row for row, name in enumerate(names)}
        self._busy = dict(zip(names, head["busy"], strict=True))
        return True
