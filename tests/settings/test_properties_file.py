from __future__ import annotations

from pathlib import Path

import pytest

from pyromq.errors import ConfigError
from pyromq.settings.properties_file import parse_properties, property_lines, read_properties_file


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("a=1\nb=2", {"a": "1", "b": "2"}),
        ("a = 1 ", {"a": "1"}),
        ("a: 1\nb 2\nc", {"a": "1", "b": "2", "c": ""}),
        ("# comment\n! another\n\n  a=1", {"a": "1"}),
        ("a=one\\\n   two\nb=2", {"a": "onetwo", "b": "2"}),
        ("a=x=y:z", {"a": "x=y:z"}),
        ("a\\=b=1", {"a=b": "1"}),
        ("a=\\u00e9\\t.\\\\", {"a": "é\t.\\"}),
        ("a=1\r\nb=2\r", {"a": "1", "b": "2"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=ends with a backslash\\", {"a": "ends with a backslash"}),
        ("a=two\\\\\nb=2", {"a": "two\\", "b": "2"}),
        ("", {}),
    ],
)
def test_java_properties_are_read_as_java_reads_them(text: str, settings: dict[str, str]) -> None:
    assert parse_properties(text) == settings


def test_each_setting_knows_its_line() -> None:
    text = "# comment\na=1\nb=one\\\n  two\n\nc=3"
    assert list(property_lines(text)) == [(2, "a", "1"), (3, "b", "onetwo"), (6, "c", "3")]


def test_a_line_of_many_parts_is_joined_once() -> None:
    parts = 100_000
    assert parse_properties("a=" + "x\\\n" * parts) == {"a": "x" * parts}


@pytest.mark.parametrize("data", [b"\xef\xbb\xbfa=1\n", "# Größe\na=1".encode(), "# 存储路径\na=1".encode("gbk")])
def test_a_file_in_any_encoding_is_read(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "broker.conf"
    path.write_bytes(data)
    assert parse_properties(read_properties_file(path)) == {"a": "1"}


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=rf"cannot read {tmp_path}: Is a directory"):
        read_properties_file(tmp_path)
