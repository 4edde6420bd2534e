from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.errors import MalformedHeader
from pyromq.protocol.bodies import (
    ConsumerOffsetSerializeWrapper,
    DataVersion,
    SubscriptionGroupConfig,
    SubscriptionGroupWrapper,
    TopicConfig,
    TopicConfigSerializeWrapper,
    decode,
    fastjson,
)
from pyromq.protocol.bodies.fastjson import dumps_pretty
from pyromq.store.small_files.table_formats import GROUPS, OFFSETS, TOPICS
from pyromq.store.small_files.table_journal import JournalRecord

VERSION = DataVersion(1_700_000_000_000, 7)
names = st.text(max_size=8)


@given(st.dictionaries(names, st.integers(0, 99), max_size=120))
def test_a_table_printed_in_pieces_has_the_bytes_of_one_printed_at_once(queues: dict[str, int]) -> None:
    topics = {name: TopicConfig(topic_name=name, read_queue_nums=count) for name, count in queues.items()}
    assert TOPICS.print(topics.items(), VERSION) == dumps_pretty(TopicConfigSerializeWrapper(VERSION, topics))
    groups = {name: SubscriptionGroupConfig(group_name=name) for name in queues}
    assert GROUPS.print(groups.items(), VERSION) == dumps_pretty(
        SubscriptionGroupWrapper(data_version=VERSION, subscription_group_table=groups)
    )
    offsets = {name: dict.fromkeys(range(count % 5), count) for name, count in queues.items()}
    assert OFFSETS.print(offsets.items()) == dumps_pretty(ConsumerOffsetSerializeWrapper(offset_table=offsets))


def test_what_is_printed_is_read_again() -> None:
    topics = {"orders": TopicConfig(topic_name="orders", perm=4)}
    assert TOPICS.decode(TOPICS.print(topics.items(), VERSION)) == TopicConfigSerializeWrapper(VERSION, topics)


def test_a_record_removes_rows_and_then_replaces_others() -> None:
    table = TopicConfigSerializeWrapper(VERSION, {name: TopicConfig(topic_name=name) for name in "abc"})
    new = TopicConfig(topic_name="b", perm=2)
    TOPICS.apply(table, JournalRecord(number=1, removed=["a", "b", "x"], rows={"b": new}, version=DataVersion(2, 8)))
    assert list(table.topic_config_table) == ["c", "b"]
    assert (table.topic_config_table["b"], table.data_version) == (new, DataVersion(2, 8))
    TOPICS.apply(table, JournalRecord(number=2))
    assert table.data_version == DataVersion(2, 8)


def test_a_record_of_groups_does_the_same() -> None:
    table = SubscriptionGroupWrapper(data_version=VERSION)
    GROUPS.apply(table, JournalRecord(number=1, rows={"g": SubscriptionGroupConfig(group_name="g")}))
    assert list(table.subscription_group_table) == ["g"]


def test_a_record_of_offsets_changes_only_the_queues_that_it_names() -> None:
    table = ConsumerOffsetSerializeWrapper(offset_table={"T@G": {0: 5, 1: 7}, "T@H": {0: 1}})
    OFFSETS.apply(table, OFFSETS.decode_record(b'{"number":1,"rows":{"T@G":{"1":8,"2":0},"T@I":{"0":3}}}'))
    assert table.offset_table == {"T@G": {0: 5, 1: 8, 2: 0}, "T@H": {0: 1}, "T@I": {0: 3}}
    OFFSETS.apply(table, JournalRecord(number=2, removed=["T@G"], rows={"T@G": {3: 1}}))
    assert table.offset_table["T@G"] == {3: 1}


@given(st.dictionaries(st.text(max_size=6) | st.sampled_from(["a,1:b", "{2:", "\\"]), st.integers(0, 5), max_size=20))
def test_a_table_of_offsets_is_read_as_it_was_printed_whatever_its_names(queues: dict[str, int]) -> None:
    offsets = {name: {queue: 1 << queue * 10 for queue in range(count)} for name, count in queues.items()}
    assert OFFSETS.decode(OFFSETS.print(offsets.items())).offset_table == offsets


def test_tables_of_apaches_brokers_are_read_leniently() -> None:
    text = b'{"offsetTable":{"T@G":{0:"5",1:7},"%RETRY%G@G":{}},"dataVersion":{"counter":1}}'
    assert OFFSETS.decode(text).offset_table == {"T@G": {0: 5, 1: 7}, "%RETRY%G@G": {}}


@pytest.mark.parametrize("text", [b'{"offsetTable":' + b"[" * 5000, b'{"a":' * 5000])
def test_what_is_nested_deeply_is_no_table_and_no_record(text: bytes) -> None:
    with pytest.raises(MalformedHeader, match="nested"):
        OFFSETS.decode(text)
    with pytest.raises(ValueError, match="nested"):
        OFFSETS.decode_record(text)


def test_a_file_may_hold_more_values_than_a_body(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fastjson, "MAX_VALUES", 10)
    offsets = {f"T-{number}@G": {0: 1, 1: 2} for number in range(20)}
    text = OFFSETS.print(offsets.items())
    with pytest.raises(MalformedHeader, match="more than 10 values"):
        decode(ConsumerOffsetSerializeWrapper, text)
    assert OFFSETS.decode(text).offset_table == offsets
    assert OFFSETS.decode(text.replace(b"0:1", b'0:"1"')).offset_table == offsets
