from __future__ import annotations

import pytest

from pyromq.broker.tables.bloom import BIT_COUNT, bit_positions, murmur3


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b"", 0),
        (b"hell", 0x629942693E10F867),
        (b"The quick brown fox jumps over the lazy dog", 0xE34BBC7BBC071B6C),
    ],
)
def test_the_hash_is_murmur3(text: bytes, value: int) -> None:
    assert murmur3(text) == value


def test_positions_are_those_of_apaches_broker() -> None:
    assert BIT_COUNT == 112
    assert bit_positions("CG", "TopicTest") == [109, 15, 3]
