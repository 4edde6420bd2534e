"""A disk after a crash, within the rules: every change of files is recorded, and any legal remainder is built.

- What was written to a file before its last flush is there. Of what was written since, each sector of 512 bytes is
  there or not; a new length is there or not.
- Changes to the names in a directory before its last flush are done. Of the changes since, the first few are done and
  the others are not; directories are independent of each other.
"""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from pyromq.store.files import OsFiles

SECTOR: Final = 512
ROOT: Final = 0


class Change(NamedTuple):
    """One change of a file: bytes written at a position, or a new length if there are none."""

    file: int
    position: int
    data: bytes | None


class Name(NamedTuple):
    """A name in a directory and its new file or directory; none if it was removed."""

    directory: int
    name: str
    target: int | None
    is_directory: bool = False
    old_name: str | None = None
    """The name that disappears at the same moment, if this was a rename."""


class Flush(NamedTuple):
    """The bytes of a file are durable from now on; all files and names if it is None."""

    file: int | None


class FlushNames(NamedTuple):
    """The names of a directory are durable from now on."""

    directory: int


class Remark(NamedTuple):
    """A remark of the workload, such as an acknowledgement."""

    value: object


Event = Change | Name | Flush | FlushNames | Remark


class Recorder(OsFiles):
    """Makes the real calls and records what they changed; flushes are recorded and not made."""

    def __init__(self, root: Path) -> None:
        root.mkdir(parents=True)
        self.events: list[Event] = []
        self._guard = threading.RLock()
        self._numbers: dict[str, int] = {str(root): ROOT}
        self._open: dict[int, int] = {}
        self._count = ROOT

    def remark(self, value: object) -> None:
        """Add a remark to the events."""
        with self._guard:
            self.events.append(Remark(value))

    def open(self, path: str, *, create: bool = False) -> int:
        with self._guard:
            is_new = not os.path.exists(path)
            descriptor = super().open(path, create=create)
            if is_new:
                self._add(path, is_directory=False)
            self._open[descriptor] = self._numbers[path]
            return descriptor

    def pwrite(self, descriptor: int, data: bytes | memoryview, position: int) -> int:
        with self._guard:
            self.events.append(Change(self._open[descriptor], position, bytes(data)))
            return super().pwrite(descriptor, data, position)

    def ftruncate(self, descriptor: int, length: int) -> None:
        with self._guard:
            self.events.append(Change(self._open[descriptor], length, None))
            super().ftruncate(descriptor, length)

    def fallocate(self, descriptor: int, position: int, length: int) -> None:
        """Do nothing: reserved space reads as zeros anyway."""

    def fdatasync(self, descriptor: int) -> None:
        with self._guard:
            self.events.append(Flush(self._open[descriptor]))

    def sync_directory(self, path: str) -> None:
        with self._guard:
            os.stat(path)
            self.events.append(FlushNames(self._numbers[path]))

    def sync_file_system(self, path: str) -> None:
        with self._guard:
            self.events.append(Flush(None))

    def rename(self, source: str, target: str) -> None:
        with self._guard:
            super().rename(source, target)
            for path in [path for path in self._numbers if path == source or path.startswith(source + "/")]:
                self._numbers[target + path.removeprefix(source)] = self._numbers.pop(path)
            self._name(target, self._numbers[target], os.path.isdir(target), os.path.basename(source))

    def link(self, source: str, target: str) -> None:
        with self._guard:
            super().link(source, target)
            self._numbers[target] = self._numbers[source]
            self._name(target, self._numbers[target])

    def unlink(self, path: str) -> None:
        with self._guard:
            super().unlink(path)
            self._name(path, None)
            del self._numbers[path]

    def rmdir(self, path: str) -> None:
        with self._guard:
            super().rmdir(path)
            self._name(path, None)
            del self._numbers[path]

    def makedirs(self, path: str) -> None:
        with self._guard:
            missing = []
            while not os.path.exists(path):
                missing.append(path)
                path = os.path.dirname(path)
            for directory in reversed(missing):
                os.mkdir(directory)
                self._add(directory, is_directory=True)

    def _add(self, path: str, *, is_directory: bool) -> None:
        self._count += 1
        self._numbers[path] = self._count
        self._name(path, self._count, is_directory)

    def _name(self, path: str, target: int | None, is_directory: bool = False, old_name: str | None = None) -> None:
        directory, name = os.path.split(path)
        self.events.append(Name(self._numbers[directory], name, target, is_directory, old_name))


Tree = dict[str, bytes | None]
"""What a crash leaves: the bytes of each file by its path, None for a directory."""


class Disk:
    """What is durable, and what has been changed since."""

    def __init__(self) -> None:
        self._contents: dict[int, bytes] = {}
        self._names: dict[int, dict[str, tuple[int, bool]]] = {}
        self._changes: dict[int, list[Change]] = {}
        self._renames: dict[int, list[Name]] = {}

    def apply(self, event: Event) -> None:
        """Apply the next event."""
        if isinstance(event, Change):
            self._changes.setdefault(event.file, []).append(event)
        elif isinstance(event, Name):
            self._renames.setdefault(event.directory, []).append(event)
        elif isinstance(event, FlushNames):
            self._flush_names(event.directory)
        elif isinstance(event, Flush):
            for file in [event.file] if event.file is not None else list(self._changes):
                self._flush(file)
            for directory in list(self._renames) if event.file is None else []:
                self._flush_names(directory)

    def _flush(self, file: int) -> None:
        content = bytearray(self._contents.get(file, b""))
        for change in self._changes.pop(file, []):
            _change(content, change)
        self._contents[file] = bytes(content)

    def _flush_names(self, directory: int) -> None:
        self._names[directory] = _named(self._names.get(directory, {}), self._renames.pop(directory, []))

    def everything(self) -> Tree:
        """Return what remains if only the process dies: everything."""
        return self._tree(_Everything())

    def nothing(self) -> Tree:
        """Return only what was flushed."""
        return self._tree(_Nothing())

    def something(self, chance: random.Random) -> Tree:
        """Return what was flushed and part of the rest."""
        return self._tree(_Something(chance))

    def _tree(self, choice: _Everything | _Nothing | _Something) -> Tree:
        return dict(self._walk(ROOT, "", choice))

    def _walk(
        self, directory: int, path: str, choice: _Everything | _Nothing | _Something
    ) -> Iterator[tuple[str, bytes | None]]:
        names = _named(self._names.get(directory, {}), choice.names(self._renames.get(directory, [])))
        for name, (target, is_directory) in names.items():
            if is_directory:
                yield path + name, None
                yield from self._walk(target, f"{path}{name}/", choice)
            else:
                content = bytearray(self._contents.get(target, b""))
                for change in self._changes.get(target, []):
                    choice.change(content, change)
                yield path + name, bytes(content)


class _Everything:
    """All changes since the last flush are on disk."""

    def names(self, changes: list[Name]) -> list[Name]:
        return changes

    def change(self, content: bytearray, change: Change) -> None:
        _change(content, change)


class _Nothing:
    """None of them is."""

    def names(self, changes: list[Name]) -> list[Name]:
        return []

    def change(self, content: bytearray, change: Change) -> None:
        pass


class _Something:
    """Some are on disk, with a random probability; single sectors of a write may be missing."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._share = chance.choice([0.1, 0.5, 0.9])
        self._tears = chance.random() < 0.5

    def names(self, changes: list[Name]) -> list[Name]:
        return changes[: self._chance.randint(0, len(changes))]

    def change(self, content: bytearray, change: Change) -> None:
        if change.data is None or not self._tears:
            if self._chance.random() < self._share:
                _change(content, change)
            return
        position, end = change.position, change.position + len(change.data)
        while position < end:
            stop = min(end, position - position % SECTOR + SECTOR)
            if self._chance.random() < self._share:
                _write(content, position, change.data[position - change.position : stop - change.position])
            position = stop


def _change(content: bytearray, change: Change) -> None:
    if change.data is not None:
        _write(content, change.position, change.data)
    elif change.position < len(content):
        del content[change.position :]
    else:
        content.extend(bytes(change.position - len(content)))


def _write(content: bytearray, position: int, data: bytes) -> None:
    if position > len(content):
        content.extend(bytes(position - len(content)))
    content[position : position + len(data)] = data


def _named(names: dict[str, tuple[int, bool]], changes: list[Name]) -> dict[str, tuple[int, bool]]:
    names = dict(names)
    for change in changes:
        if change.old_name is not None:
            names.pop(change.old_name, None)
        if change.target is None:
            names.pop(change.name, None)
        else:
            names[change.name] = (change.target, change.is_directory)
    return names


def build(tree: Tree, root: Path) -> None:
    """Write the files of a crash to a directory."""
    root.mkdir()
    for path, content in tree.items():  # a directory comes before its contents
        if content is None:
            (root / path).mkdir()
        else:
            (root / path).write_bytes(content)
