"""The text of one value."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyromq.settings.values import addresses, at_most, boolean, choice, hours, integer, ratio, seconds, single_directory


@pytest.mark.parametrize(
    ("read", "text", "value"),
    [
        (integer(-1, 10), "-1", -1),
        (boolean, "TRUE", True),
        (choice("A", "B"), "B", "B"),
        (addresses, " a:1; b:2;", ("a:1", "b:2")),
        (addresses, "", ()),
        (hours, "04;16", (4, 16)),
        (ratio, "0.85", 0.85),
        (at_most(900), "2000", 900),
        (seconds(1, 5000), "2500", 2.5),
        (single_directory, "/data", Path("/data")),
    ],
)
def test_a_value_is_read(read: Callable[[str], Any], text: str, value: object) -> None:
    assert read(text) == value


@pytest.mark.parametrize(
    ("read", "text", "reason"),
    [
        (integer(0, 10), "1_0", "must be a whole number, not '1_0'"),
        (integer(0, 10), "٣", "must be a whole number"),
        (integer(0, 10), "9" * 5000, "must be a whole number"),
        (integer(0, 10), "11", "must be between 0 and 10, not 11"),
        (boolean, "yes", "must be true or false, not 'yes'"),
        (choice("A", "B"), "a", "must be A or B, not 'a'"),
        (addresses, "a", "'a' is not host:port"),
        (addresses, "a:1,b:2", "with semicolons instead of the commas in 'a:1,b:2'"),
        (addresses, "a:99999", "'a:99999' is not host:port"),
        (addresses, "a:²", "is not host:port"),
        (hours, "24", "must be hours such as 04"),
        (ratio, "nan", "must be between 0.1 and 1"),
        (single_directory, "/a,/b", "must be one directory"),
        (single_directory, "", "must not be empty"),
    ],
)
def test_a_wrong_value_is_an_error_that_says_what_is_expected(
    read: Callable[[str], Any], text: str, reason: str
) -> None:
    with pytest.raises(ValueError, match=reason) as caught:
        read(text)
    assert len(str(caught.value)) < 5200
