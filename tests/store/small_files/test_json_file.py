"""JsonFile: after any crash either the old or the new table is there, whole."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from pyromq.errors import ConfigError
from pyromq.store.files import OsFiles
from pyromq.store.small_files.json_file import JsonFile, sealed, unsealed


class Recorder(OsFiles):
    """Notes what is done to files, and stops the disk before the given step."""

    def __init__(self, steps: int | None = None) -> None:
        self.done: list[str] = []
        self._steps = steps

    def _note(self, step: str) -> None:
        if len(self.done) == self._steps:
            raise OSError(5, "Input/output error")
        self.done.append(step)

    def link(self, source: str, target: str) -> None:
        self._note("link")
        super().link(source, target)

    def rename(self, source: str, target: str) -> None:
        self._note(f"rename to {os.path.basename(target)}")
        super().rename(source, target)

    def fdatasync(self, descriptor: int) -> None:
        self._note("sync file")
        super().fdatasync(descriptor)

    def sync_directory(self, path: str) -> None:
        self._note("sync directory")
        super().sync_directory(path)


def load(path: Path) -> bytes | None:
    return JsonFile(path).load(_parse)


def _parse(text: bytes) -> bytes:
    if not text.startswith(b"{"):
        raise ValueError("not a table")
    return text


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "config" / "table.json"


def test_what_was_saved_is_loaded(path: Path) -> None:
    assert load(path) is None
    JsonFile(path).save(b"{1}")
    assert load(path) == b"{1}"


def test_the_state_before_is_in_the_backup(path: Path) -> None:
    for text in (b"{1}", b"{2}", b"{3}"):
        JsonFile(path).save(text)
    assert unsealed(path.with_name("table.json.bak").read_bytes()) == b"{2}"
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["table.json", "table.json.bak"]


def test_the_new_file_is_durable_before_it_takes_its_name(path: Path) -> None:
    JsonFile(path).save(b"{1}")
    files = Recorder()
    JsonFile(path, files).save(b"{2}")
    assert files.done == ["link", "rename to table.json.bak", "sync file", "rename to table.json", "sync directory"]


@pytest.mark.parametrize("steps", range(5))
def test_wherever_a_save_stops_a_whole_table_is_there(path: Path, steps: int) -> None:
    JsonFile(path).save(b"{0}")
    JsonFile(path).save(b"{1}")
    with pytest.raises(OSError, match="Input/output"):
        JsonFile(path, Recorder(steps)).save(b"{2}")
    assert load(path) == (b"{1}" if steps < 4 else b"{2}")
    JsonFile(path).save(b"{3}")
    assert load(path) == b"{3}"


@pytest.mark.parametrize("damage", [b"", b"  \n", b"rubbish"])
def test_a_damaged_file_gives_way_to_its_backup(path: Path, damage: bytes) -> None:
    JsonFile(path).save(b"{1}")
    JsonFile(path).save(b"{2}")
    path.write_bytes(damage)
    assert load(path) == b"{1}"


def test_a_missing_file_gives_way_to_its_backup(path: Path) -> None:
    JsonFile(path).save(b"{1}")
    JsonFile(path).save(b"{2}")
    path.unlink()
    assert load(path) == b"{1}"


def test_two_damaged_files_are_an_error_that_names_both(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"rubbish")
    path.with_name("table.json.bak").write_bytes(b"more")
    with pytest.raises(ConfigError, match=r"table\.json nor .*table\.json\.bak"):
        load(path)


def test_a_damaged_file_without_a_backup_is_not_taken_for_an_empty_table(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"rubbish")
    with pytest.raises(ConfigError, match="no backup"):
        load(path)


def test_the_first_save_makes_a_backup_too(path: Path) -> None:
    JsonFile(path).save(b"{1}")
    path.write_bytes(b"rubbish")
    file = JsonFile(path)
    assert file.load(_parse) == b"{1}"
    assert file.is_older


def test_whatever_bit_of_a_table_is_flipped_the_table_or_its_backup_is_read(path: Path) -> None:
    JsonFile(path).save(b'{"a":1}')
    JsonFile(path).save(b'{"a":2}')
    whole = path.read_bytes()
    for bit in range(len(whole) * 8):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        found = JsonFile(path).load(json.loads)
        assert found is not None
        assert {name: found[name] for name in found if name in "ab"} in ({"a": 1}, {"a": 2})


@pytest.mark.parametrize("text", [b"{}", b"key=value\n", b"", b"{", b" {} \n"])
def test_what_is_no_table_gets_no_checksum(text: bytes) -> None:
    assert sealed(text) == text


def test_a_table_that_another_broker_wrote_is_taken_as_it_is(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b'{\n\t"a":1\n}')
    assert JsonFile(path).load(json.loads) == {"a": 1}


def test_our_tables_are_json_for_everybody(path: Path) -> None:
    JsonFile(path).save(b'{\n\t"a":1\n}\n')
    table = json.loads(path.read_bytes())
    assert (table["a"], list(table)) == (1, ["a", "pyromqCrc32"])
    assert unsealed(path.read_bytes()) == b'{\n\t"a":1}'
