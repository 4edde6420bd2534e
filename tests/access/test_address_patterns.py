"""Address patterns as RocketMQ 4.9 reads them."""

from __future__ import annotations

import pytest

from pyromq.access.address_patterns import any_matcher, matcher


@pytest.mark.parametrize(
    ("pattern", "inside", "outside"),
    [
        ("*", ["1.2.3.4", "::1"], []),
        ("*.*.*.*", ["1.2.3.4"], []),
        ("", [], ["1.2.3.4", ""]),
        ("10.1.2.3", ["10.1.2.3", "::ffff:10.1.2.3"], ["10.1.2.4", "10.1.2.30", "unknown"]),
        ("10.1.2.3, 10.1.2.5", ["10.1.2.3", "10.1.2.5"], ["10.1.2.4"]),
        ("10.1.2.{3,5}", ["10.1.2.3", "10.1.2.5"], ["10.1.2.4"]),
        ("10.1.2.*", ["10.1.2.0", "10.1.2.255"], ["10.1.3.1", "::1"]),
        ("10.1.2.10-20", ["10.1.2.10", "10.1.2.20"], ["10.1.2.9", "10.1.2.21"]),
        ("10.1.3-5.*", ["10.1.3.9", "10.1.5.200"], ["10.1.6.9"]),
        ("10.1.*.*", ["10.1.99.1"], ["10.2.99.1"]),
        ("fe80:0:0:0:0:0:0:*", ["fe80::1"], ["fe81::1", "10.1.2.3"]),
        ("::1", ["::1", "0:0:0:0:0:0:0:1"], ["::2"]),
    ],
)
def test_a_pattern_matches_what_it_says(pattern: str, inside: list[str], outside: list[str]) -> None:
    matches = matcher(pattern)
    assert [address for address in inside if not matches(address)] == []
    assert [address for address in outside if matches(address)] == []


@pytest.mark.parametrize(
    "pattern", ["10.1.2", "10.1.2.300", "host", "*.1.2.3", "10.1.2.9-3", "10.1.{1,2}.3", "1.2.3.x-y"]
)
def test_a_malformed_pattern_is_an_error(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"is no (address|pattern)"):
        matcher(pattern)


def test_one_of_several_patterns_is_enough() -> None:
    matches = any_matcher(["10.0.0.1", "10.0.1.*"])
    assert matches("10.0.1.9")
    assert not matches("10.0.2.9")
    assert not any_matcher([])("10.0.2.9")
