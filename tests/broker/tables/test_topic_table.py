from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import pytest

from pyromq.broker.config.broker_config import broker_config
from pyromq.broker.tables.topic_table import TopicTable, built_in_topics, topic_config
from pyromq.errors import TopicNotFound
from pyromq.protocol.names import TBW102
from pyromq.store.small_files.table_file import TableFile
from pyromq.store.small_files.table_formats import TOPICS

TOPICS_JSON = """{
	"dataVersion":{
		"counter":3,
		"timestamp":1639000000000
	},
	"topicConfigTable":{
		"T1":{
			"order":false,
			"perm":6,
			"readQueueNums":4,
			"topicFilterType":"SINGLE_TAG",
			"topicName":"T1",
			"topicSysFlag":0,
			"writeQueueNums":4
		}
	}
}"""


def make(directory: Path, *, limit: int = 100, **settings: str) -> TopicTable:
    config = broker_config(settings)
    return TopicTable(
        built_in_topics(config),
        TableFile(directory / "topics.json", TOPICS),
        now_ms=lambda: 1_639_000_000_000,
        auto_create=config.auto_create_topics,
        limit=limit,
    )


def test_a_broker_has_rocketmqs_topics_from_the_start(tmp_path: Path) -> None:
    table = make(tmp_path)
    shapes = {name: (topic.read_queues, topic.write_queues, topic.config.perm) for name, topic in table.by_name.items()}
    assert shapes == {
        "SELF_TEST_TOPIC": (1, 1, 6),
        "TBW102": (8, 8, 7),
        "BenchmarkTest": (1024, 1024, 6),
        "DefaultCluster": (16, 16, 7),
        "broker-a": (1, 1, 7),
        "OFFSET_MOVED_EVENT": (1, 1, 6),
        "SCHEDULE_TOPIC_XXXX": (18, 18, 6),
        "DefaultCluster_REPLY_TOPIC": (1, 1, 6),
    }


def test_settings_decide_about_built_in_topics(tmp_path: Path) -> None:
    table = make(
        tmp_path,
        autoCreateTopicEnable="false",
        clusterTopicEnable="false",
        brokerTopicEnable="false",
        traceTopicEnable="true",
    )
    assert TBW102 not in table.by_name
    assert table.by_name["DefaultCluster"].config.perm == 1
    assert table.by_name["broker-a"].config.perm == 1
    assert "RMQ_SYS_TRACE_TOPIC" in table.by_name


@pytest.mark.parametrize(("asked", "given"), [(4, 4), (100, 8), (0, 0), (-3, 0)])
async def test_a_send_creates_a_topic_from_its_template(tmp_path: Path, asked: int, given: int) -> None:
    table = make(tmp_path)
    topic = table.create_by_send("orders", TBW102, asked, False)
    assert topic is not None
    assert (topic.read_queues, topic.write_queues, topic.config.perm) == (given, given, 6)
    await table.saver.finish()


async def test_a_template_that_is_missing_or_not_inheritable_creates_nothing(tmp_path: Path) -> None:
    table = make(tmp_path)
    assert table.create_by_send("orders", "nonsense", 4, False) is None
    assert table.create_by_send("orders", "SELF_TEST_TOPIC", 4, False) is None
    assert table.create_by_send("orders", "DefaultCluster", 4, True) is not None
    assert table.by_name["orders"].config.topic_sys_flag == 1
    await table.saver.finish()


async def test_the_template_of_an_older_file_creates_nothing_when_creation_is_off(tmp_path: Path) -> None:
    before = make(tmp_path)
    before.create_by_send("orders", TBW102, 4, False)
    await before.saver.finish()
    table = make(tmp_path, autoCreateTopicEnable="false")
    table.load()
    assert TBW102 in table.by_name
    assert table.create_by_send("others", TBW102, 4, False) is None


async def test_use_cannot_bring_the_table_beyond_its_limit_but_administrators_can(tmp_path: Path) -> None:
    table = make(tmp_path, limit=9)
    assert table.create_by_send("first", TBW102, 4, False)
    with pytest.raises(TopicNotFound, match="pyromqMaxTopics"):
        table.create_by_send("second", TBW102, 4, False)
    with pytest.raises(TopicNotFound):
        table.ensure("%RETRY%g", 1, "for retries")
    table.update(topic_config("second", 4))
    assert "second" in table.by_name
    await table.saver.finish()


async def test_a_change_is_saved_in_rocketmqs_form_and_read_again(tmp_path: Path) -> None:
    table = make(tmp_path)
    changes: list[tuple[int, Collection[str] | None]] = []
    table.changed.subscribe(lambda names: changes.append((table.version.counter, names)))
    table.update(topic_config("orders", 3, perm=4))
    await table.saver.finish()
    assert changes == [(1, ["orders"])]
    again = make(tmp_path)
    again.load()
    assert again.snapshot() == table.snapshot()
    text = (tmp_path / "topics.json").read_text()
    assert (
        '{\n\t"dataVersion":{\n\t\t"counter":1,\n\t\t"timestamp":1639000000000\n\t},\n\t"topicConfigTable":{\n' in text
    )


async def test_apaches_file_is_read_over_the_built_in_topics(tmp_path: Path) -> None:
    (tmp_path / "topics.json").write_text(TOPICS_JSON)
    table = make(tmp_path)
    table.load()
    assert table.by_name["T1"].write_queues == 4
    assert "BenchmarkTest" in table.by_name
    assert (table.version.counter, table.version.timestamp) == (3, 1_639_000_000_000)


async def test_the_name_server_decides_which_topics_are_ordered(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.update(topic_config("orders", 4))
    table.set_ordered({"orders"})
    assert table.by_name["orders"].config.order
    table.update(topic_config("orders", 8))
    assert table.by_name["orders"].config.order  # an administrator's request does not change that
    counter = table.version.counter
    table.set_ordered({"orders"})
    assert table.version.counter == counter
    table.set_ordered(())
    assert not table.by_name["orders"].config.order
    await table.saver.finish()


def test_the_brokers_own_topics_are_system_topics(tmp_path: Path) -> None:
    table = make(tmp_path)
    assert all(table.is_system(name) for name in ("DefaultCluster", "broker-a", "TBW102", "rmq_sys_x"))
    assert not table.is_system("orders")


def test_a_topic_in_a_file_has_no_more_queues_than_a_topic_can_have(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    row = '"readQueueNums":2147483647,"writeQueueNums":-5'
    (tmp_path / "topics.json").write_text('{"topicConfigTable":{"orders":{"topicName":"orders",%s}}}' % row)  # noqa: UP031
    topics = make(tmp_path)
    topics.load()
    assert (topics.find("orders").read_queues, topics.find("orders").write_queues) == (65_535, 0)
    assert "topic with 2147483647 and -5 queues gets 65535 and 0 topic=orders" in caplog.text
