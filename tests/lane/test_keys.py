"""Keys for the index: the native lane makes the same hashes, entries and slots as the plain one."""

from __future__ import annotations

import random
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.lane import native
from tests.lane.index_keys import hash_difference, link_difference, odd_messages

MODULE = native("keys")
pytestmark = pytest.mark.skipif(MODULE is None, reason="the native lane is not built")


@pytest.fixture
def module() -> ModuleType:
    assert MODULE is not None
    return MODULE


@given(number=st.integers(0, 1 << 40))
def test_hashes_are_those_of_the_plain_lane(number: int) -> None:
    assert MODULE is not None
    assert hash_difference(MODULE, odd_messages(random.Random(number))) == ""


@given(number=st.integers(0, 1 << 40))
def test_entries_and_slots_are_those_of_the_plain_lane_also_after_failed_writes(number: int) -> None:
    assert MODULE is not None
    assert link_difference(MODULE.link, number) == ""


def test_a_key_beyond_ascii_leaves_all_to_the_plain_lane(module: ModuleType) -> None:
    plain = ["orders", b"UNIQ_KEY\x01a", 0, 0]
    assert module.hash_keys(plain) is not None
    assert module.hash_keys([*plain, "orders", "KEYS\x01é".encode(), 91, 0]) is None
    assert module.hash_keys([*plain, "größe", b"KEYS\x01a", 91, 0]) is None
    assert module.hash_keys([*plain, "orders", "TAGS\x01é".encode(), 91, 0]) is not None


@pytest.mark.parametrize("messages", [("orders", b"", 0, 0), ["orders", "", 0, 0], ["orders", b"", "0", 0]])
def test_what_are_no_messages_is_an_error(module: ModuleType, messages: object) -> None:
    with pytest.raises(TypeError):
        module.hash_keys(messages)


GOOD = {"head": 48, "changed": 1, "slots_at": 40, "slots": 2, "page": 4096, "first": 1, "seconds": 9, "keys": 3}


@pytest.mark.parametrize(
    "wrong",
    [
        {"slots": 3}, {"slots": 0}, {"slots_at": 44}, {"slots_at": -4}, {"slots_at": 2}, {"page": 0}, {"page": 6},
        {"changed": 0}, {"first": 0}, {"first": 2**31 - 2}, {"seconds": -1}, {"seconds": 2**31},
    ],
)  # fmt: skip
def test_a_file_that_does_not_fit_its_memory_is_an_error(module: ModuleType, wrong: dict[str, int]) -> None:
    def link(given: dict[str, int]) -> object:
        memory = bytearray(given["head"]), bytearray(given["changed"])
        file = given["slots_at"], given["slots"], given["page"], given["first"], 1, given["seconds"]
        return module.link(*memory, *file, bytes(12), bytes(24), bytes(24))

    assert link(GOOD) == (bytes(16) + bytes(4) + bytes(16) + b"\0\0\0\1" + bytes(16) + b"\0\0\0\2", 1)
    with pytest.raises(ValueError, match="index file"):
        link(GOOD | wrong)


def test_columns_of_different_length_are_an_error(module: ModuleType) -> None:
    with pytest.raises(ValueError, match="index file"):
        module.link(bytearray(48), bytearray(1), 40, 2, 4096, 1, 1, 9, bytes(12), bytes(24), bytes(16))
