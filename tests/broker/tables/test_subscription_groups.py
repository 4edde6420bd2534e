from __future__ import annotations

from pathlib import Path

import pytest

from pyromq.broker.tables.subscription_groups import SubscriptionGroups
from pyromq.errors import BrokerError, GroupNotFound
from pyromq.protocol.bodies import SubscriptionGroupConfig
from pyromq.store.small_files.table_file import TableFile
from pyromq.store.small_files.table_formats import GROUPS


def make(directory: Path, *, auto_create: bool = True, limit: int = 100) -> SubscriptionGroups:
    file = TableFile(directory / "subscriptionGroup.json", GROUPS)
    return SubscriptionGroups(file, now_ms=lambda: 1, auto_create=auto_create, limit=limit)


def test_a_broker_has_rocketmqs_groups_from_the_start(tmp_path: Path) -> None:
    assert "TOOLS_CONSUMER" in make(tmp_path).by_name


async def test_use_creates_a_group_with_rocketmqs_defaults_and_saves_it(tmp_path: Path) -> None:
    groups = make(tmp_path)
    config = groups.find_or_create("billing")
    assert (config.retry_queue_nums, config.retry_max_times, config.consume_enable) == (1, 16, True)
    await groups.saver.finish()
    again = make(tmp_path)
    again.load()
    assert again.snapshot() == groups.snapshot()


async def test_without_auto_creation_only_system_groups_come_by_use(tmp_path: Path) -> None:
    groups = make(tmp_path, auto_create=False)
    with pytest.raises(GroupNotFound, match="billing"):
        groups.find_or_create("billing")
    assert groups.find_or_create("CID_RMQ_SYS_TRANS")
    await groups.saver.finish()


def test_illegal_names_and_too_many_groups_are_refused(tmp_path: Path) -> None:
    with pytest.raises(GroupNotFound, match="characters"):
        make(tmp_path).find_or_create("bill@ing")
    with pytest.raises(GroupNotFound, match="pyromqMaxGroups"):
        make(tmp_path, limit=7).find_or_create("billing")


async def test_every_change_is_told(tmp_path: Path) -> None:
    groups = make(tmp_path)
    told: list[str] = []
    groups.changed.subscribe(lambda: told.append("there" if "billing" in groups.by_name else "gone"))
    groups.find_or_create("billing")
    groups.find_or_create("billing")
    groups.update(SubscriptionGroupConfig(group_name="billing", consume_enable=False))
    groups.delete("billing")
    groups.adopt({"billing": SubscriptionGroupConfig(group_name="billing")}, (), groups.version)
    assert told == ["there", "there", "gone", "there"]
    await groups.saver.finish()


async def test_administrators_change_and_delete_groups(tmp_path: Path) -> None:
    groups = make(tmp_path)
    groups.update(SubscriptionGroupConfig(group_name="billing", consume_enable=False))
    assert not groups.find_or_create("billing").consume_enable
    groups.delete("billing")
    assert "billing" not in groups.by_name
    await groups.saver.finish()


@pytest.mark.parametrize("count", [-1, 65_536, 2**31 - 1])
def test_a_group_with_more_retry_queues_than_a_topic_can_have_is_refused(tmp_path: Path, count: int) -> None:
    with pytest.raises(BrokerError, match=f"0 to 65535 retry queues, not {count}"):
        make(tmp_path).update(SubscriptionGroupConfig(group_name="g1", retry_queue_nums=count))


def test_such_a_group_in_a_file_gets_one_retry_queue(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rows = '{"subscriptionGroupTable":{"g1":{"groupName":"g1","retryQueueNums":2147483647}}}'
    (tmp_path / "subscriptionGroup.json").write_text(rows)
    groups = make(tmp_path)
    groups.load()
    assert groups.by_name["g1"].retry_queue_nums == 1
    assert "group with 2147483647 retry queues gets one group=g1" in caplog.text
