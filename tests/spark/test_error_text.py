"""How Spark wraps our errors, and the one line that users see."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pyromq import Message, blocking
from pyromq.blocking import Portal
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.errors import ConfigError
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import request
from pyromq.protocol.headers.admin import DeleteTopicInBrokerRequestHeader
from pyromq.spark.error_text import brief, brief_rows, one_line
from pyromq.spark.read.stream_reader import StreamReader
from pyromq.testing import LocalCluster

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]

PATIENCE = 90
NOBODY = "127.0.0.1:1"


@pytest.fixture(scope="module")
def shaky() -> Iterator[LocalCluster]:
    """A cluster that tests may break, with ten messages in the topic "there"."""
    with LocalCluster() as cluster:
        with blocking.Producer(group="p", namesrv=cluster.namesrv) as producer:
            for number in range(10):
                producer.send(Message(topic="there", body=b"%d" % number))
        yield cluster


def _line(work: Callable[[], object]) -> str:
    with pytest.raises(Exception, match=r".") as caught:
        work()
    line = one_line(caught.value)
    assert "\n" not in line
    return line


def _query(frame: DataFrame, directory: Path) -> StreamingQuery:
    return frame.writeStream.format("noop").option("checkpointLocation", str(directory)).start()


def _read(spark: SparkSession, options: dict[str, str]) -> None:
    spark.read.format("pyromq").options(**options).load().count()


def _stream(spark: SparkSession, options: dict[str, str], directory: Path) -> None:
    query = _query(spark.readStream.format("pyromq").options(**options).load(), directory)
    query.awaitTermination(PATIENCE)


def _write(spark: SparkSession, options: dict[str, str], mode: str = "append") -> None:
    frame = spark.range(3).selectExpr("cast(id as string) as body")
    frame.write.format("pyromq").mode(mode).options(**options).save()


WRONG_READS = [
    ({"subscribe": "there", "startingOfsets": "latest"}, "unknown option 'startingofsets'; did you mean"),
    ({"subscribe": "there", "startingOffsets": "now"}, "option startingOffsets: expected earliest, latest"),
    ({"subscribe": "nowhere"}, "no broker has the topic 'nowhere'"),
    ({"subscribe": "there", "namesrv": NOBODY}, f"no name server answers: {NOBODY}"),
]


@pytest.mark.parametrize(("options", "text"), WRONG_READS)
def test_a_wrong_read_is_one_line_in_batch_and_stream(
    spark: SparkSession, shaky: LocalCluster, tmp_path: Path, options: dict[str, str], text: str
) -> None:
    given = {"namesrv": shaky.namesrv, **options}
    assert _line(lambda: _read(spark, given)).startswith(text)
    assert _line(lambda: _stream(spark, given, tmp_path)).startswith(text)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"topik": "there"}, "unknown option 'topik'; did you mean 'topic'?"),
        ({"topic": "there", "namesrv": NOBODY, "retryTimeout": "100ms"}, f"no name server answers: {NOBODY}"),
    ],
)
def test_a_wrong_write_is_one_line(
    spark: SparkSession, shaky: LocalCluster, options: dict[str, str], text: str
) -> None:
    assert _line(lambda: _write(spark, {"namesrv": shaky.namesrv, **options})).startswith(text)


def test_what_spark_says_in_its_own_words_gets_our_advice(spark: SparkSession, shaky: LocalCluster) -> None:
    options = {"namesrv": shaky.namesrv, "topic": "there"}
    assert "write with mode('append')" in _line(lambda: _write(spark, options, mode="error"))
    assert _line(lambda: spark.range(1).select("x")).startswith("A column, variable, or function parameter")
    assert _line(lambda: spark.read.parquet("/no/such/place")) == "Path does not exist: file:/no/such/place."


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "An error occurred while calling o5.start.\n: java.io.IOException: mkdir of file:/proc/a failed\n\tat x",
            "mkdir of file:/proc/a failed: is the directory writable, and is there space?",
        ),
        ("[FIELD_NOT_FOUND] No such field `x`. SQLSTATE: 42704; line 1 pos 10;\n'Project", "No such field `x`."),
        ("\n[PARSE_SYNTAX_ERROR] Syntax error at end. SQLSTATE: 42601 (line 1, pos 7)\n", "Syntax error at end."),
        ("Python worker failed to connect back.", "a Python process of Spark took more than 10 s to start"),
    ],
)
def test_the_words_that_spark_puts_around_a_line_are_left_out(text: str, line: str) -> None:
    assert one_line(Exception(text)).startswith(line)


def test_a_users_own_error_in_a_task_is_its_last_line(spark: SparkSession) -> None:
    broken = spark.range(1).rdd.map(lambda row: 1 // 0)
    assert _line(broken.collect) == "ZeroDivisionError: integer division or modulo by zero"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pyromq", "call pyromq.spark.register(spark, ship=True)"),
        ("lz4", "pip install lz4 on every node"),
        ("x", "'x'"),
    ],
)
def test_a_package_that_a_worker_lacks_is_named(spark: SparkSession, name: str, text: str) -> None:
    def lacks(number: int) -> int:
        raise ModuleNotFoundError(f"No module named '{name}'")

    line = _line(spark.range(1).rdd.map(lambda row: lacks(row.id)).collect)
    assert line.endswith(text)


def test_our_own_exceptions_and_bare_ones_are_lines_too() -> None:
    assert one_line(ConfigError("say where")) == "say where"
    assert one_line(KeyboardInterrupt()) == "KeyboardInterrupt"


def test_a_broker_that_is_down_is_one_line_in_batch_stream_and_sink(
    spark: SparkSession, shaky: LocalCluster, tmp_path: Path
) -> None:
    given = {"namesrv": shaky.namesrv, "subscribe": "there"}
    shaky.stop_broker()
    try:
        for line in (
            _line(lambda: _read(spark, given)),
            _line(lambda: _stream(spark, given, tmp_path)),
            _line(lambda: _write(spark, {"namesrv": shaky.namesrv, "topic": "there", "retryTimeout": "100ms"})),
        ):
            assert "broker" in line
            assert "there" in line
    finally:
        shaky.start_broker()


def _delete_topic(cluster: LocalCluster, topic: str) -> None:
    async def delete() -> None:
        async with await BrokerApi.connect(cluster.namesrv) as api:
            command = request(RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicInBrokerRequestHeader(topic=topic))
            await api.remoting.request(cluster.brokers[0].address, command, 10)

    Portal.shared().call(delete())


def test_a_topic_deleted_under_a_stream_ends_it_with_one_line(
    spark: SparkSession, shaky: LocalCluster, tmp_path: Path
) -> None:
    options = {"namesrv": shaky.namesrv, "subscribe": "there", "startingOffsets": "earliest"}
    query = _query(spark.readStream.format("pyromq").options(**options).load(), tmp_path)
    try:
        query.processAllAvailable()
        _delete_topic(shaky, "there")
        line = _line(lambda: query.awaitTermination(PATIENCE))
    finally:
        query.stop()
    assert "there" in line


def test_without_one_line_our_message_is_found_at_a_glance(spark: SparkSession, shaky: LocalCluster) -> None:
    with pytest.raises(Exception, match="PYTHON_DATA_SOURCE_ERROR") as caught:
        _read(spark, {"namesrv": shaky.namesrv, "subscribe": "nowhere"})
    head, *frames, line, _ = str(caught.value).splitlines()
    assert head.endswith("Traceback (most recent call last):")
    assert len(frames) == 2, "one of our frames instead of ten"
    assert line.startswith("pyromq.errors.NoRoute: no broker has the topic 'nowhere'")


def test_errors_that_are_not_ours_keep_their_frames() -> None:
    def fails(kind: type[Exception]) -> Iterator[int]:
        yield 1
        raise kind("broken")

    for method in (brief(lambda kind: list(fails(kind))), brief_rows(fails)):
        depths = []
        for kind in (ConfigError, ValueError):
            with pytest.raises(kind) as caught:
                list(method(kind))
            depths.append(len(caught.traceback))
        assert depths[0] == 2, "this test and the wrapper"
        assert depths[1] > 2


def test_spark_still_sees_the_parameters_of_a_method() -> None:
    """It calls latestOffset without parameters if there seem to be none."""
    assert list(signature(StreamReader.latestOffset).parameters) == ["self", "start", "limit"]
