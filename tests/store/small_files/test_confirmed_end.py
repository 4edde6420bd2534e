"""The small file that says up to where messages were visible."""

from __future__ import annotations

from pathlib import Path

from pyromq.store.files import OsFiles
from pyromq.store.small_files.confirmed_end import CONFIRMED_NAME, ConfirmedEnd
from tests.store.helpers import FaultyFiles


def test_it_says_what_was_written_last(tmp_path: Path) -> None:
    ConfirmedEnd(tmp_path, OsFiles()).write(17)
    confirmed = ConfirmedEnd(tmp_path, OsFiles())
    assert confirmed.read() == 17
    confirmed.write(4)
    assert ConfirmedEnd(tmp_path, OsFiles()).read() == 4


def test_nothing_is_known_without_it_and_little_if_it_is_damaged(tmp_path: Path) -> None:
    confirmed = ConfirmedEnd(tmp_path, OsFiles())
    assert confirmed.read() is None
    (tmp_path / CONFIRMED_NAME).write_bytes(b'{"end":17}\n00000000\n')
    assert confirmed.read() == 0
    confirmed.forget()
    confirmed.forget()
    assert confirmed.read() is None


def test_it_is_written_only_if_it_says_something_new(tmp_path: Path) -> None:
    files = FaultyFiles()
    confirmed = ConfirmedEnd(tmp_path, files)
    for end in (17, 17, 17):
        confirmed.write(end)
    assert files.calls["rename"] == 1
