"""What is found wrong with settings."""

from __future__ import annotations

import pytest

from pyromq.errors import ConfigError
from pyromq.settings.key_table import FixedKey, Key, KeyTable, raise_errors, show_settings
from pyromq.settings.values import integer

TABLE = KeyTable(
    keys={"listenPort": Key("port", integer(0, 65535)), "mappedFileSize": Key("size", integer(1, 100))},
    fixed={"aclEnable": FixedKey("false", "access control comes later")},
    without_effect=frozenset({"useEpollNativeSelector", "warmMapedFile"}),
    old_spellings={"mapedFileSize": "mappedFileSize", "warmMappedFile": "warmMapedFile"},
)


def texts(values: dict[str, str], **how: object) -> list[tuple[str, bool]]:
    return [(finding.text, finding.is_error) for finding in TABLE.read(values, **how)[1]]  # type: ignore[arg-type]


def test_values_are_read_by_key() -> None:
    assert TABLE.read({"listenPort": " 10911 ", "aclEnable": "FALSE"}) == ({"listenPort": 10911}, [])


def test_an_old_spelling_means_the_current_one() -> None:
    assert TABLE.read({"mapedFileSize": "7"}) == ({"mappedFileSize": 7}, [])
    assert texts({"warmMappedFile": "true"}) == [("warmMapedFile has no effect here", False)]


@pytest.mark.parametrize("order", [1, -1])
def test_the_current_spelling_wins_over_the_old_one(order: int) -> None:
    values = dict([("mapedFileSize", "7"), ("mappedFileSize", "8")][::order])
    read, findings = TABLE.read(values)
    assert read == {"mappedFileSize": 8}
    assert [finding.text for finding in findings] == [
        "mapedFileSize is the old name of mappedFileSize, which is also set"
    ]


def test_everything_is_found_at_once_in_the_order_of_the_file() -> None:
    values = {"lissenPort": "1", "aclEnable": "true", "useEpollNativeSelector": "true", "listenPort": "99999", "zz": ""}
    assert texts(values) == [
        ("unknown configuration key lissenPort; the nearest is listenPort", True),
        ("aclEnable=true is not supported: access control comes later", True),
        ("useEpollNativeSelector has no effect here", False),
        ("listenPort must be between 0 and 65535, not 99999", True),
        ("unknown configuration key zz", True),
    ]


def test_lenient_accepts_unknown_keys_but_not_those_that_were_typed() -> None:
    assert [error for _, error in texts({"a": "1", "b": "2"}, lenient=True, always_strict={"b"})] == [False, True]


def test_errors_are_raised_together_and_the_rest_is_returned() -> None:
    assert raise_errors(TABLE.read({"warmMapedFile": "", "useEpollNativeSelector": ""})[1]) == (
        "useEpollNativeSelector",
        "warmMapedFile",
    )
    with pytest.raises(ConfigError, match=r"listenPort must be a whole number, not 'x'; unknown configuration key y"):
        raise_errors(TABLE.read({"listenPort": "x", "y": "1"})[1])


def test_fields_are_shown_as_settings() -> None:
    class Config:
        port, size = 10911, None

    assert show_settings(TABLE.keys, Config()) == {"listenPort": "10911", "mappedFileSize": ""}
