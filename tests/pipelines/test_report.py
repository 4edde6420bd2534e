"""`report` counts what is really there, through brokers and from files."""

from __future__ import annotations

import runpy
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

import pytest

from pyromq import Message, MessageExt, blocking
from pyromq.blocking import Portal
from pyromq.client.listener.outcomes import DeadLetter
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.errors import ConfigError
from pyromq.pipelines import report
from pyromq.pipelines.outcome import Silent
from pyromq.pipelines.topic_profile.frames import rounded
from pyromq.pipelines.topic_profile.headlines import headlines
from pyromq.pipelines.topic_profile.profile import Profile, Timing, TopicProfile
from pyromq.protocol.messages.message import MessageQueue
from pyromq.protocol.names import TRACE_TOPIC
from pyromq.testing import LocalCluster
from tests.pipelines.html_page import Html

from .conftest import make_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "spark_report.py"
PARTITIONS = "spark.sql.shuffle.partitions"
TOPIC = "profiled"
HOT, COLD = 60, 40
LARGE = 4000  # not yet compressed


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("report")


@pytest.fixture(scope="module")
def namesrv(data: Path) -> Iterator[str]:
    """A cluster with a skewed topic of four queues, one of them empty, a slow group, a dead letter and traces."""
    settings = {"traceTopicEnable": "true"}
    with (
        LocalCluster(data=data, settings=settings) as cluster,
        blocking.Producer(group="g", namesrv=cluster.namesrv) as producer,
    ):
        make_topic(cluster, TOPIC, 4)
        for number in range(HOT + COLD):
            producer.send(message(number), queue=MessageQueue(TOPIC, "broker-a", queue_of(number)))
        producer.send(Message(topic=TRACE_TOPIC, body=traces()))
        producer.send(Message(topic="other", body=b"x"))
        give_one_up(cluster.namesrv)
        Portal.shared().call(commit(cluster.namesrv, "slow", 10))
        yield cluster.namesrv


def queue_of(number: int) -> int:
    return 0 if number < HOT else number % 3


def message(number: int) -> Message:
    is_hot = number < HOT
    return Message(
        topic=TOPIC,
        body=b"x" * (100 if number else LARGE),
        tags="hot" if is_hot else "cold",
        keys=["anna" if is_hot else f"k{number}", "second"],
        properties={"name": "größe"},
    )


def traces() -> bytes:
    """Return the records of three messages, sent at 1000 and taken after 20, 30 and 40 ms; one call fails."""
    records = []
    for number in range(3):
        records.append(["Pub", "1000", "R", "g", TOPIC, f"ID{number}", "t", "k", "h:1", "9", "7", "0", "OFF", "true"])
        records.append(["SubBefore", str(1020 + 10 * number), "R", "billing", "r", f"ID{number}", "0", "k"])
        records.append(["SubAfter", "r", f"ID{number}", "5", str(number > 0).lower(), "k", "0", "1100", "billing"])
    records.append(
        ["SubBefore", "99000", "R", "billing", "r", "ID0", "1", "k"]
    )  # a later attempt does not count as the first
    return "".join("\x01".join(record) + "\x02" for record in records).encode()


def give_one_up(namesrv: str) -> None:
    """Make a group fail with one message until it becomes a dead letter."""
    seen = Event()

    def listen(given: MessageExt) -> None:
        if given.keys[0] == "k60":
            seen.set()
            raise DeadLetter("order 4711 has no address")

    with blocking.PushConsumer("billing", namesrv, {TOPIC: "cold"}, listen, start_from="earliest"):
        assert seen.wait(60)


async def commit(namesrv: str, group: str, offset: int) -> None:
    async with await BrokerApi.connect(namesrv) as api:
        for broker in (await api.cluster_info()).broker_addr_table.values():
            await api.commit_offset(broker.broker_addrs[0], group, TOPIC, 0, offset)


@pytest.fixture(scope="module")
def profile(spark: SparkSession, namesrv: str) -> Profile:
    return report.take_profile(spark, report.Options(namesrv=namesrv, topics=TOPIC), Silent())


@pytest.fixture(scope="module")
def topic(profile: Profile) -> TopicProfile:
    [only] = profile.topics
    return only


def test_messages_are_counted_by_queue_tag_and_time(topic: TopicProfile) -> None:
    expected = Counter(queue_of(number) for number in range(HOT + COLD))
    assert topic.messages == HOT + COLD
    assert {queue.queue_id: queue.messages for queue in topic.queues} == {**expected, 3: 0}
    assert [sum(queue.rates.values()) for queue in topic.queues] == [queue.messages for queue in topic.queues]
    assert {tag.name: tag.messages for tag in topic.tags} == {"hot": HOT, "cold": COLD}


def test_keys_are_counted_and_the_hottest_found(topic: TopicProfile) -> None:
    assert (topic.keys[0].name, topic.keys[0].messages, topic.keys[0].queues) == ("anna", HOT, 1)
    assert (topic.key_count, topic.with_key, topic.scattered_keys) == (1 + COLD, HOT + COLD, 0)
    hottest = topic.queues[0].hottest
    assert hottest is not None
    assert (hottest.name, hottest.messages) == ("anna", HOT)


def test_bodies_are_measured_without_being_read(topic: TopicProfile) -> None:
    assert topic.bodies == LARGE + 99 * 100
    assert topic.sizes == (100, 100, 100, LARGE, LARGE)
    assert sum(weight.messages for weight in topic.size_steps.values()) == HOT + COLD


def test_numbers_are_rounded_down_to_their_first_digits(spark: SparkSession) -> None:
    numbers = [*range(-70, 1100), 1 << 31, 12_345_678, (1 << 40) - 1, -12_345_678]
    frame = spark.createDataFrame([(number,) for number in numbers], "number bigint")
    found = frame.select(rounded("number", 6).alias("rounded"), "number").collect()
    assert all(row["rounded"] == row["number"] for row in found if abs(row["number"]) < 64)
    assert all(0 <= row["number"] - row["rounded"] <= abs(row["number"]) / 32 for row in found)
    assert len({row["rounded"] for row in found}) < 350


def test_only_the_default_number_of_shuffle_partitions_is_changed_and_only_for_a_while(spark: SparkSession) -> None:
    chosen = spark.conf.get(PARTITIONS)
    try:
        for before, inside in (("200", "8"), ("7", "7")):
            spark.conf.set(PARTITIONS, before)
            with report.few_shuffle_partitions(spark, 1_000_000):
                assert spark.conf.get(PARTITIONS) == inside
            assert spark.conf.get(PARTITIONS) == before
    finally:
        spark.conf.set(PARTITIONS, str(chosen))


def test_a_sample_counts_a_share_and_says_so(spark: SparkSession, namesrv: str, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    outcome = report.run(spark, report.Options(namesrv=namesrv, topics=TOPIC, sample=0.5, out=str(page)), Silent())
    assert 20 < outcome.read < 80
    assert f"A sample: 50 % of the messages, chosen at random, {outcome.read} in all." in Html(page.read_text()).text


def test_groups_failures_and_traces_are_found(profile: Profile) -> None:
    assert profile.lags["slow", TOPIC] == next(q.messages for q in profile.topics[0].queues) - 10
    [failure] = profile.failures
    assert (failure.is_dead, failure.group, failure.topic, failure.messages) == (True, "billing", TOPIC, 1)
    assert "order # has no address" in failure.cause
    assert profile.ways == [Timing(TOPIC, "billing", 3, 30, 40, 40, 40)]
    assert profile.calls == [Timing("", "billing", 3, 5, 5, 5, 5, 1)]
    assert profile.sends == [Timing(TOPIC, "", 3, 7, 7, 7, 7)]


def test_what_stands_out_is_said(profile: Profile) -> None:
    told = "\n".join(line.text for line in headlines(profile))
    assert f"1 key makes 60 % of the messages of {TOPIC}: “anna”." in told
    assert f"1 of the 4 queues of {TOPIC} is empty: 3." in told
    assert "Group billing has given up 1 message" in told


def test_the_example_profiles_a_whole_store_from_its_files(
    spark: SparkSession, namesrv: str, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "new" / "page.html"
    runpy.run_path(str(EXAMPLE))["main"](str(data), str(page), spark)
    assert f"{HOT + COLD + 1} messages were counted. The report is in {page}" in capsys.readouterr().out
    text = Html(page.read_text()).text
    for part in (str(data), "other", "60 %", "“anna”", "order # has no address", "30 ms · 40 ms"):
        assert part in text


def test_what_cannot_be_profiled_is_said_in_one_line(spark: SparkSession, namesrv: str) -> None:
    with pytest.raises(ConfigError, match="nothing to report: no message in this time range"):
        report.run(spark, report.Options(namesrv=namesrv, topics=TOPIC, since="2100-01-01"), Silent())
    with pytest.raises(ConfigError, match="no message of any topic in the cluster at"), LocalCluster() as empty:
        report.run(spark, report.Options(namesrv=empty.namesrv), Silent())


def test_compressed_messages_are_counted(spark: SparkSession, cluster: LocalCluster) -> None:
    with blocking.Producer(group="g", namesrv=cluster.namesrv) as producer:
        for number in range(5):
            producer.send(Message(topic="squeezed", body=b"x" * (10_000 if number < 2 else 10)))
    options = report.Options(namesrv=cluster.namesrv, topics="squeezed")
    (squeezed,) = report.take_profile(spark, options, Silent()).topics
    assert squeezed.compressed == 2
    assert squeezed.sizes.most < 10_000, "what is stored, so the page must not call it the body's size"
