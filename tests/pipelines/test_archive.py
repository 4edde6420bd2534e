"""Topics archived as Parquet, from a real broker and from its files, run after run."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pyromq import Message, PyroMQError, blocking
from pyromq.errors import ConfigError
from pyromq.pipelines import archive
from pyromq.pipelines.common.message_selection import SelectionOptions, choose
from pyromq.pipelines.common.pipeline_session import one_line_errors
from pyromq.pipelines.outcome import Silent, Stopped
from pyromq.testing import LocalCluster
from tests.pipelines.conftest import make_topic, numbered
from tests.spark.read.sample_store import wait_for_entries

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


def _rows(spark: SparkSession, directory: Path) -> list[Row]:
    return sorted(spark.read.parquet(str(directory)).collect(), key=lambda row: row.flag)


def test_every_message_is_archived_once_with_all_that_belongs_to_it_run_after_run(
    spark: SparkSession, cluster: LocalCluster, producer: blocking.Producer, tmp_path: Path
) -> None:
    options = archive.Options(namesrv=cluster.namesrv, topics="kept", to=str(tmp_path / "a"), batch=40, group="keeper")
    make_topic(cluster, "kept", 4)
    for message in numbered("kept", range(1, 61)):
        producer.send(message, order_key=message.keys[0])
    first = archive.run(spark, options, Silent())
    assert (first.read, first.written, first.dropped) == (60, 60, {})
    for message in numbered("kept", range(61, 71)):
        producer.send(message, order_key=message.keys[0])
    assert archive.run(spark, options, Silent()).written == 10
    assert archive.run(spark, options, Silent()).written == 0

    rows = _rows(spark, tmp_path / "a")
    assert [row.flag for row in rows] == list(range(1, 71))
    row, message = rows[4], numbered("kept", range(5, 6))[0]
    assert bytes(row.body) == message.body
    assert (row["keys"], row.tags, row.topic) == (list(message.keys), message.tags, "kept")
    assert (row.properties["color"], row.properties["__SHARDINGKEY"]) == ("blue", "k5")
    assert row.day == row.store_timestamp.date()
    assert (tmp_path / "a" / "topic=kept" / f"day={row.day}").is_dir()


def test_days_are_utc_whatever_the_zone_of_the_session(
    spark: SparkSession, cluster: LocalCluster, producer: blocking.Producer, tmp_path: Path
) -> None:
    now = datetime.now(UTC)
    zone = "-12:00" if now.hour < 12 else "+14:00"  # where it is another day now
    usual = spark.conf.get("spark.sql.session.timeZone")
    for message in numbered("zoned", range(1, 4)):
        producer.send(message)
    options = archive.Options(namesrv=cluster.namesrv, topics="zoned", to=str(tmp_path / "a"))
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        archive.run(spark, options, Silent())
        near = {"since": str(now - timedelta(minutes=9)), "until": str(now + timedelta(minutes=9))}
        chosen = choose(spark, SelectionOptions(archive=str(tmp_path / "a"), **near))
        assert chosen.kept.count() == 3
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(usual))
    days = {path.name for path in (tmp_path / "a" / "topic=zoned").iterdir()}
    assert days == {f"day={row.store_timestamp.date()}" for row in _rows(spark, tmp_path / "a")}


def test_an_archive_is_made_from_files_and_goes_on_through_the_broker(spark: SparkSession, tmp_path: Path) -> None:
    with LocalCluster(data=tmp_path / "data") as own, blocking.Producer("g", own.namesrv) as producer:
        for message in numbered("filed", range(1, 9)):
            producer.send(message)
        wait_for_entries(own.brokers[0].store_path, "filed", 8)
        to = str(tmp_path / "a")
        files = archive.Options(store=str(tmp_path / "data"), broker_name="broker-a", topics="filed", to=to)
        assert archive.run(spark, files, Silent()).written == 8
        producer.send(numbered("filed", range(9, 10))[0])
        through_broker = archive.Options(namesrv=own.namesrv, topics="filed", to=to)
        assert archive.run(spark, through_broker, Silent()).written == 1
        both = archive.Options(store=str(tmp_path / "data"), namesrv=own.namesrv, topics="filed", to=to)
        with pytest.raises(ConfigError, match="not both"):
            archive.run(spark, both, Silent())
        nameless = archive.Options(store=str(tmp_path / "data"), topics="filed", to=to)
        with pytest.raises(ConfigError, match="everything would be read again"):
            archive.run(spark, nameless, Silent())
    assert [row.flag for row in _rows(spark, tmp_path / "a")] == list(range(1, 10))


def test_patterns_and_dead_letters_are_archived(
    spark: SparkSession, cluster: LocalCluster, producer: blocking.Producer, tmp_path: Path
) -> None:
    for topic in ("pattern-a", "pattern-b"):
        producer.send(Message(topic=topic, body=b"x"))
    make_topic(cluster, "%DLQ%patterns", 1)
    producer.send(Message(topic="%DLQ%patterns", body=b"dead"))
    options = archive.Options(namesrv=cluster.namesrv, pattern="pattern-.*", to=str(tmp_path / "a"))
    assert archive.run(spark, options, Silent()).written == 2
    letters = archive.Options(namesrv=cluster.namesrv, topics="%DLQ%patterns", to=str(tmp_path / "b"))
    assert archive.run(spark, letters, Silent()).written == 1
    assert [row.topic for row in _rows(spark, tmp_path / "b")] == ["%DLQ%patterns"]


def test_a_checkpoint_of_other_topics_is_refused_in_one_line(
    spark: SparkSession, cluster: LocalCluster, producer: blocking.Producer, tmp_path: Path
) -> None:
    for topic in ("mine", "yours"):
        producer.send(Message(topic=topic, body=b"x"))
    archive.run(spark, archive.Options(namesrv=cluster.namesrv, topics="mine", to=str(tmp_path)), Silent())
    with pytest.raises(ConfigError, match="belongs to a run that reads 'mine'"):
        archive.run(spark, archive.Options(namesrv=cluster.namesrv, topics="yours", to=str(tmp_path)), Silent())
    both = archive.Options(namesrv=cluster.namesrv, topics="mine,yours", to=str(tmp_path))
    assert archive.run(spark, both, Silent()).written == 1, "topics may be added"


class StopAtOnce:
    """A Progress that stops the run at the first report."""

    def reached(self, done: int, total: int | None, doing: str = "") -> None:
        raise Stopped


def test_an_archive_that_is_stopped_goes_on_later(
    spark: SparkSession, cluster: LocalCluster, producer: blocking.Producer, tmp_path: Path
) -> None:
    for message in numbered("stopped", range(1, 41)):
        producer.send(message)
    options = archive.Options(namesrv=cluster.namesrv, topics="stopped", to=str(tmp_path), batch=5, follow=True)
    following = archive.Options(namesrv=cluster.namesrv, topics="stopped", to=str(tmp_path), batch=5)
    stopped = archive.run(spark, options, StopAtOnce())
    rest = archive.run(spark, following, Silent())
    assert stopped.remarks[0].startswith("Stopped")
    assert stopped.written + rest.written >= 40  # an interrupted batch is counted by both
    assert [row.flag for row in _rows(spark, tmp_path)] == list(range(1, 41))


def test_a_topic_that_is_not_there_is_one_line(spark: SparkSession, cluster: LocalCluster, tmp_path: Path) -> None:
    options = archive.Options(namesrv=cluster.namesrv, topics="nowhere", to=str(tmp_path))
    with pytest.raises(PyroMQError, match="nowhere") as caught, one_line_errors():
        archive.run(spark, options, Silent())
    assert "\n" not in str(caught.value)
    assert "Traceback" not in str(caught.value)
