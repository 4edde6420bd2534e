"""console.yml: written for its owner only, refused if others may read it or a word is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyromq.console.login.console_file import (
    ConsoleFile,
    MaskingEntry,
    read_console_file,
    with_first_user,
    write_console_file,
)
from pyromq.console.login.passwords import is_password
from pyromq.errors import ConfigError


def test_the_first_user_is_an_administrator_with_a_random_password(tmp_path: Path) -> None:
    path = tmp_path / "console" / "console.yml"
    file, password = with_first_user(read_console_file(path))
    write_console_file(path, file)
    assert path.stat().st_mode & 0o777 == 0o600
    assert password not in path.read_text()
    again = read_console_file(path)
    assert again.users["admin"].role == "admin"
    assert is_password(password, again.users["admin"].password)
    assert with_first_user(again) == (again, "")


def test_masking_rules_survive(tmp_path: Path) -> None:
    path = tmp_path / "console.yml"
    write_console_file(path, ConsoleFile(masking=(MaskingEntry("orders*", ("card.number", "email")),)))
    assert [rule.field for rule in read_console_file(path).masking_rules] == ["card.number", "email"]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("users: {ada: {role: king, password: x}}", "is no role"),
        ("users: [", "console.yml"),
        ("colour: red", "colour"),
        ("masking: [{topic: '', fields: [x]}]", "masking rule"),
    ],
)
def test_what_is_wrong_is_said(text: str, complaint: str, tmp_path: Path) -> None:
    path = tmp_path / "console.yml"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(ConfigError, match=complaint):
        read_console_file(path)


def test_a_file_that_others_may_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "console.yml"
    path.write_text("users: {}")
    path.chmod(0o644)
    with pytest.raises(ConfigError, match="chmod 600"):
        read_console_file(path)
