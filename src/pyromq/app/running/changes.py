"""Changes: notices that source files were changed, added or removed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

_SKIPPED = {"__pycache__", "node_modules", "site-packages", "build", "dist"}


class SourceChanges:
    """The Python files below a directory, without those of environments and hidden folders."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._known = self._times()

    def found(self) -> list[str]:
        """Return the files that are new, changed or gone since the last call."""
        before, self._known = self._known, self._times()
        return sorted(path for path in {*before, *self._known} if before.get(path) != self._known.get(path))

    def _times(self) -> dict[str, int]:
        return dict(_source_files(str(self._directory)))


def _source_files(directory: str) -> Iterator[tuple[str, int]]:
    try:
        entries = list(os.scandir(directory))
    except OSError:
        return
    if any(entry.name == "pyvenv.cfg" for entry in entries):
        return
    for entry in entries:
        try:
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in _SKIPPED and not entry.name.startswith("."):
                    yield from _source_files(entry.path)
            elif entry.name.endswith(".py"):
                yield entry.path, entry.stat().st_mtime_ns
        except OSError:  # removed since
            continue
