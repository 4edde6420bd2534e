"""The token of the pages: where it is needed, and what its file has to be."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.requests import Request

from pyromq.console.monitoring.access import Access, is_loopback, read_token
from pyromq.errors import ConfigError


def request(authorization: str = "") -> Request:
    headers = [(b"authorization", authorization.encode())] if authorization else []
    return Request({"type": "http", "method": "GET", "path": "/", "headers": headers})


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", True), ("127.8.8.8", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("::", False)],
)
def test_loopback_is_what_only_this_machine_reaches(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


@pytest.mark.parametrize("given", ["Bearer abcdefghijklmnop", "bearer  abcdefghijklmnop "])
def test_the_token_opens(given: str) -> None:
    assert Access("0.0.0.0", "abcdefghijklmnop").objection(request(given)) is None


@pytest.mark.parametrize(
    "given", ["", "abcdefghijklmnop", "Basic abcdefghijklmnop", "Bearer", "Bearer ünïcode-token!!"]
)
def test_anything_else_does_not(given: str) -> None:
    assert Access("0.0.0.0", "abcdefghijklmnop").objection(request(given))


def token_file(directory: Path, text: str, mode: int = 0o600) -> Path:
    path = directory / "token"
    path.write_bytes(text.encode())
    path.chmod(mode)
    return path


def test_a_token_is_read_without_its_line_end(tmp_path: Path) -> None:
    assert read_token(token_file(tmp_path, "abcdefghijklmnop\n")) == "abcdefghijklmnop"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_file_that_others_may_read_is_refused_with_what_to_do(tmp_path: Path, mode: int) -> None:
    with pytest.raises(ConfigError, match="chmod 600"):
        read_token(token_file(tmp_path, "abcdefghijklmnop\n", mode))


@pytest.mark.parametrize("text", ["", "short", "two words of a token", "ü" * 20, "x" * 5000])
def test_a_file_without_one_long_word_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError, match="must hold"):
        read_token(token_file(tmp_path, text))


def test_a_file_that_is_missing_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"cannot read the token file {tmp_path}/none: no such file"):
        read_token(tmp_path / "none")
