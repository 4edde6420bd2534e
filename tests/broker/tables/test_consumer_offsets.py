from __future__ import annotations

import logging
from pathlib import Path

import pytest

from pyromq.broker.tables.consumer_offsets import ConsumerOffsets, row_key
from pyromq.broker.tables.reset_ids import ResetIds
from pyromq.errors import BrokerError, ConfigError
from pyromq.store.small_files.table_file import TableFile
from pyromq.store.small_files.table_formats import OFFSETS

APACHES_FILE = '{\n\t"offsetTable":{\n\t\t"%RETRY%G1@G1":{},\n\t\t"T1@G1":{0:5,1:7,10:9\n\t\t}\n\t}\n}'


def make(directory: Path, limit: int = 1_000_000) -> ConsumerOffsets:
    file = TableFile(directory / "consumerOffset.json", OFFSETS)
    return ConsumerOffsets(file, ResetIds(directory), limit=limit)


async def test_commits_survive_a_restart(tmp_path: Path) -> None:
    offsets = make(tmp_path)
    offsets.commit("billing", "orders", 0, 7, "me")
    offsets.commit("billing", "orders", 1, 0, "me")
    offsets.save_if_changed()
    await offsets.saver.finish()
    again = make(tmp_path)
    again.load()
    assert again.snapshot() == {"orders@billing": {0: 7, 1: 0}}
    assert '"orders@billing":{0:7,1:0' in (tmp_path / "consumerOffset.json").read_text()


def test_apaches_file_with_its_bare_numbers_is_read(tmp_path: Path) -> None:
    (tmp_path / "consumerOffset.json").write_text(APACHES_FILE)
    offsets = make(tmp_path)
    offsets.load()
    assert offsets.get("G1", "T1", 10) == 9
    assert offsets.get("G1", "T1", 2) is None


async def test_without_a_commit_nothing_is_saved(tmp_path: Path) -> None:
    offsets = make(tmp_path)
    offsets.commit("billing", "orders", 0, 7, "me")
    offsets.save_if_changed()
    await offsets.saver.finish()
    offsets.commit("billing", "orders", 0, 7, "me")
    offsets.save_if_changed()
    assert not offsets.saver.pending


def test_a_commit_that_goes_back_is_obeyed_logged_with_who_and_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    offsets = make(tmp_path)
    offsets.commit("billing", "orders", 0, 100, "10.0.0.9:5")
    with caplog.at_level(logging.WARNING):
        offsets.commit("billing", "orders", 0, 40, "10.0.0.9:5")
    assert offsets.get("billing", "orders", 0) == 40
    assert offsets.backward_commits == 1
    assert "10.0.0.9:5" in caplog.text


def test_a_commit_that_may_only_go_forward_keeps_a_higher_one(tmp_path: Path) -> None:
    offsets = make(tmp_path)
    offsets.commit("billing", "orders", 0, 100, "me", only_forward=True)
    offsets.commit("billing", "orders", 0, 40, "me", only_forward=True)
    assert offsets.get("billing", "orders", 0) == 100
    offsets.commit("billing", "orders", 0, 101, "me", only_forward=True)
    assert offsets.get("billing", "orders", 0) == 101
    assert offsets.backward_commits == 0


async def test_a_mere_step_forward_is_noted_and_anything_else_left_to_commit(tmp_path: Path) -> None:
    offsets = make(tmp_path)
    assert not offsets.advance(row_key("orders", "billing"), 0, 7)  # the first of its row
    offsets.commit("billing", "orders", 0, 7, "me")
    offsets.save_if_changed()
    await offsets.saver.finish()
    mark = offsets.changed_keys.mark
    assert offsets.advance(row_key("orders", "billing"), 0, 7)
    assert offsets.changed_keys.mark == mark
    assert not offsets.advance(row_key("orders", "billing"), 0, 6)
    assert not offsets.advance(row_key("orders", "billing"), 0, -1)
    assert not offsets.advance(row_key("orders", "billing"), 1, 3)
    assert offsets.advance(row_key("orders", "billing"), 0, 9)
    assert offsets.changed_keys.mark == mark + 1
    offsets.save_if_changed()
    await offsets.saver.finish()
    again = make(tmp_path)
    again.load()
    assert again.snapshot() == {"orders@billing": {0: 9}}


def test_steps_forward_count_as_one_change_until_the_mark_is_read(tmp_path: Path) -> None:
    offsets = make(tmp_path)
    key, changed = row_key("orders", "billing"), offsets.changed_keys
    offsets.commit("billing", "orders", 0, 7, "me")
    offsets.commit("billing", "bills", 0, 7, "me")
    for number in range(8, 12):
        assert offsets.advance(key, 0, number)
    assert offsets.of("billing", "orders") == {0: 11}
    mark = changed.mark
    assert (mark, changed.since(0)) == (2, [row_key("bills", "billing"), key])
    assert changed.since(mark) == []
    assert offsets.advance(key, 0, 12), "whoever has read the mark sees that there is more"
    assert offsets.advance(key, 0, 13)
    assert changed.since(mark) == [key]
    assert changed.mark == mark + 1


def test_a_negative_commit_is_no_commit(tmp_path: Path) -> None:
    offsets = make(tmp_path)
    offsets.commit("billing", "orders", 0, -1, "me")
    assert offsets.get("billing", "orders", 0) is None
    offsets.commit("billing", "orders", 0, 5, "me")
    offsets.commit("billing", "orders", 0, -1, "me")
    assert offsets.get("billing", "orders", 0) == 5
    assert offsets.backward_commits == 0


def test_the_table_answers_by_group_and_by_topic(tmp_path: Path) -> None:
    offsets = make(tmp_path)
    offsets.commit("g1", "a", 0, 1, "me")
    offsets.commit("g1", "b", 0, 1, "me")
    offsets.commit("g2", "a", 0, 1, "me")
    assert offsets.topics_of("g1") == ["a", "b"]
    assert offsets.groups_of("a") == ["g1", "g2"]
    offsets.remove_group("g1")
    assert offsets.groups_of("a") == ["g2"]


def test_a_damaged_file_gives_way_to_its_backup(tmp_path: Path) -> None:
    (tmp_path / "consumerOffset.json").write_text("{ damaged")
    (tmp_path / "consumerOffset.json.bak").write_text(APACHES_FILE)
    offsets = make(tmp_path)
    offsets.load()
    assert offsets.get("G1", "T1", 0) == 5
    (tmp_path / "consumerOffset.json.bak").write_text("{ damaged too")
    with pytest.raises(ConfigError, match=r"consumerOffset\.json"):
        offsets.load()


async def test_what_was_committed_of_topics_and_queues_that_are_gone_is_forgotten_also_on_disk(tmp_path: Path) -> None:
    offsets = make(tmp_path)
    for group, topic in (("g1", "a"), ("g1", "b"), ("g2", "a"), ("g2", "ab")):
        for queue_id in range(3):
            offsets.commit(group, topic, queue_id, 1, "me")
    offsets.save_if_changed()
    await offsets.saver.finish()
    offsets.remove_topics({"a"})
    offsets.remove_queues([("b", 1), ("b", 2), ("c", 0)])
    offsets.commit("g1", "b", 2, 9, "me")
    offsets.save_if_changed()
    await offsets.saver.finish()
    again = make(tmp_path)
    again.load()
    assert again.snapshot() == offsets.snapshot() == {"b@g1": {0: 1, 2: 9}, "ab@g2": {0: 1, 1: 1, 2: 1}}


def test_names_longer_than_any_can_be_are_left_out_of_a_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    long = "g" * 200_000
    (tmp_path / "consumerOffset.json").write_text(f'{{"offsetTable":{{"T1@{long}":{{0:1}},"T1@G1":{{0:5}}}}}}')
    offsets = make(tmp_path)
    offsets.load()
    assert offsets.snapshot() == {"T1@G1": {0: 5}}
    assert offsets.groups_of("T1") == ["G1"]
    assert "left out: 1 names are longer than any can be" in caplog.text


def test_rows_are_limited(tmp_path: Path) -> None:
    offsets = make(tmp_path, limit=1)
    offsets.commit("billing", "orders", 0, 7, "me")
    with pytest.raises(BrokerError, match="are kept already"):
        offsets.commit("audit", "orders", 0, 7, "me")
    offsets.commit("billing", "orders", 1, 7, "me")
    offsets.remove_group("billing")
    assert (offsets.topics_of("billing"), offsets.groups_of("orders")) == ([], [])
    offsets.commit("audit", "orders", 0, 7, "me")


def test_topics_and_groups_are_found_whichever_way_a_row_came_and_went(tmp_path: Path) -> None:
    offsets = make(tmp_path)
    offsets.commit("g1", "a", 0, 1, "me")
    offsets.clone("g1", "g2", "a", "me")
    offsets.adopt({"b@g1": {0: 1}, "c@g3": {0: 1}}, removed=["a@g1", "never@was"])
    assert (offsets.topics_of("g1"), offsets.groups_of("a")) == (["b"], ["g2"])
    offsets.remove_topics({"a", "c", "never"})
    assert (offsets.topics_of("g2"), offsets.topics_of("g3"), offsets.groups_of("c")) == ([], [], [])
