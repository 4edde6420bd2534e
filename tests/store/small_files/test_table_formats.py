from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pyromq.protocol.bodies import (
    ConsumerOffsetSerializeWrapper,
    DataVersion,
    SubscriptionGroupConfig,
    SubscriptionGroupWrapper,
    TopicConfig,
    TopicConfigSerializeWrapper,
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
