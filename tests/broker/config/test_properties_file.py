from __future__ import annotations

import pytest

from pyromq.broker.config.properties_file import parse_properties


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
