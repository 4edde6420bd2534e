"""Passwords: hashed with a salt, compared, never too short."""

from __future__ import annotations

import pytest

from pyromq.console.login.passwords import hash_password, is_password, new_password


def test_only_the_password_itself_matches() -> None:
    kept = hash_password("correct horse battery")
    assert "correct" not in kept
    assert is_password("correct horse battery", kept)
    assert not is_password("correct horse batterY", kept)
    assert hash_password("correct horse battery") != kept  # another salt


@pytest.mark.parametrize("kept", ["", "plain", "scrypt:x", "scrypt:!:!", "md5:AAAA:AAAA"])
def test_what_is_no_hash_matches_nothing(kept: str) -> None:
    assert not is_password("anything at all", kept)


def test_a_short_password_is_refused_and_a_new_one_is_long() -> None:
    with pytest.raises(ValueError, match="10 characters"):
        hash_password("short")
    assert len(new_password()) >= 20
    assert new_password() != new_password()
