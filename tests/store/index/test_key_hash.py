"""Hashes of keys: known ones, and the fast way against the plain one."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from pyromq.protocol.tag_filter import java_hash
from pyromq.store.index import key_batch
from pyromq.store.index.key_batch import hash_keys
from pyromq.store.index.key_hash import StoredKeys, key_hash, keys_of

values = st.text(alphabet=st.sampled_from("ab# \x01\x03é订😀\x7f\x00"), max_size=12)
names = st.sampled_from(["KEYS", "UNIQ_KEY", "MYKEYS", "KEYS2", "XUNIQ_KEY", "TAGS", ""])
pieces = st.builds("{}\x01{}".format, names, values) | values
texts = st.lists(pieces, max_size=6).map("\x02".join).map(str.encode)
messages = st.lists(st.tuples(st.sampled_from(["orders", "%RETRY%g", "订"]), texts), max_size=8)


def stored(found: list[tuple[str, bytes]]) -> StoredKeys:
    flat: StoredKeys = []
    for number, (topic, properties) in enumerate(found):
        flat += (topic, properties, number * 100, 1_700_000_000_000 + number)
    return flat


def rows(found: list[tuple[str, bytes]]) -> list[tuple[int, int, int]]:
    batch = hash_keys(stored(found))
    return list(zip(batch.hashes.tolist(), batch.offsets.tolist(), batch.times_ms.tolist(), strict=True))


def plain_rows(found: list[tuple[str, bytes]]) -> list[tuple[int, int, int]]:
    return [
        (key_hash(topic, key), number * 100, 1_700_000_000_000 + number)
        for number, (topic, properties) in enumerate(found)
        for key in keys_of(properties)
    ]


def test_known_hashes() -> None:
    assert key_hash("TopicA", "UK1") == 1129061738
    assert key_hash("TopicA", "k1") == 1903240649
    assert key_hash("TopicA", "k2") == 1903240648


def test_a_hash_that_abs_leaves_negative_is_0() -> None:
    assert java_hash("orders#abydncvw") == -(2**31)
    assert key_hash("orders", "abydncvw") == 0
    assert rows([("orders", b"KEYS\x01abydncvw")]) == [(0, 0, 1_700_000_000_000)]


def test_the_unique_key_comes_first_and_keys_are_parted_at_blanks() -> None:
    assert keys_of(b"KEYS\x01a  b\x02TAGS\x01t\x02UNIQ_KEY\x01u v") == ["u v", "a", "b"]
    assert keys_of(b"") == []


@given(messages)
@example([("orders", b"KEYS\x01a\x02KEYS\x01b"), ("orders", b"KEYS\x01a\x02KEYS\x01")])
@example([("orders", b"KEYS\x01a b\x02KEYS\x01c d\x02UNIQ_KEY\x01u"), ("orders", b"KEYS\x01 \x02UNIQ_KEY\x01 ")])
@example([("orders", b"KEYS\x01a\x01b\x02UNIQ_KEY\x01\x01")])
def test_many_at_once_give_what_one_at_a_time_gives(found: list[tuple[str, bytes]]) -> None:
    assert rows(found) == plain_rows(found)


def test_long_texts_are_hashed_in_parts() -> None:
    found = [("orders", b"KEYS\x01%d " % number + b"k" * 30_000) for number in range(20)]
    assert sum(len(text) for _, text in found) > key_batch._MAX_BYTES
    assert rows(found) == plain_rows(found)
