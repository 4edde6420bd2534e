from __future__ import annotations

import pickle

import pytest

from pyromq.errors import ConfigError, PyroMQError
from pyromq.protocol.acl import Credentials
from pyromq.protocol.messages.message import MessageQueue
from pyromq.spark.options.read_options import AtTime, ReadOptions, read_options, schema_options
from pyromq.spark.schema import DEFAULT_COLUMNS, ddl

GIVEN = {"namesrv": "127.0.0.1:9876", "subscribe": "orders"}


def _batch(**options: str) -> ReadOptions:
    return read_options(GIVEN | options, streaming=False)


def _stream(**options: str) -> ReadOptions:
    return read_options(GIVEN | options, streaming=True)


def test_two_options_suffice_and_the_start_differs_between_batch_and_stream() -> None:
    assert _batch() == ReadOptions(namesrv="127.0.0.1:9876", topics=("orders",), start="earliest")
    assert _stream() == ReadOptions(namesrv="127.0.0.1:9876", topics=("orders",), start="latest")


def test_every_option_is_read_in_any_case() -> None:
    options = read_options(
        {
            "NAMESRV": "a:1; b:2",
            "subscribe": "orders, refunds,orders",
            "startingoffsets": "Committed",
            "ENDINGTIMESTAMP": "1700000000000",
            "maxoffsetspertrigger": "100",
            "minPartitions": "8",
            "maxRecordsPerPartition": "5000",
            "failOnDataLoss": "FALSE",
            "group": "audit",
            "tags": "created || paid",
            "columns": "body, tags",
            "propertiesAs": "string",
            "decompress": "false",
            "readFrom": "master",
            "pullBatchSize": "32",
            "pullTimeout": "500ms",
            "retryTimeout": "2m",
            "batchRows": "2000",
            "batchBytes": "1.5m",
            "path": "ignored",
        },
        streaming=False,
    )
    assert options == ReadOptions(
        namesrv="a:1;b:2",
        topics=("orders", "refunds"),
        start="committed",
        end=AtTime(1700000000000),
        max_offsets_per_trigger=100,
        min_partitions=8,
        max_records_per_partition=5000,
        fail_on_data_loss=False,
        group="audit",
        tags="created || paid",
        columns=("body", "tags"),
        properties_as_text=True,
        decompress=False,
        read_from="master",
        pull_batch_size=32,
        pull_timeout=0.5,
        retry_timeout=120.0,
        batch_rows=2000,
        batch_bytes=3 << 19,
    )
    assert pickle.loads(pickle.dumps(options)) == options


def test_topic_is_another_name_for_subscribe() -> None:
    assert read_options({"namesrv": "a:1", "topic": "orders"}, streaming=True).topics == ("orders",)


def test_offsets_may_be_given_queue_by_queue() -> None:
    options = _batch(startingOffsets='{"orders": {"broker-a": {"0": 12, "1": -2}}}', endingOffsets="latest")
    assert options.start == {MessageQueue("orders", "broker-a", 0): 12, MessageQueue("orders", "broker-a", 1): -2}


@pytest.mark.parametrize("text", ["2023-11-14T22:13:20", "2023-11-14T22:13:20Z", "2023-11-15T00:13:20+02:00"])
def test_a_time_wins_over_offsets_and_is_utc_unless_it_says_otherwise(text: str) -> None:
    assert _stream(startingTimestamp=text, startingOffsets="earliest").start == AtTime(1_700_000_000_000)


def test_a_time_between_two_milliseconds_is_the_later_one() -> None:
    times = {text: _batch(startingTimestamp=f"2023-11-14T22:13:20.{text}Z").start for text in ("001", "000001", "2")}
    assert times == {"001": AtTime(1_700_000_000_001), "000001": times["001"], "2": AtTime(1_700_000_000_200)}
    assert _batch(startingTimestamp="1969-12-31").start == AtTime(0)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"startingOffset": "earliest"}, "unknown option 'startingOffset'; did you mean 'startingOffsets'?"),
        ({"subscribepatern": "x"}, "unknown option 'subscribepatern'; did you mean 'subscribePattern'?"),
        ({"zzz": "x"}, "unknown option 'zzz'; known are "),
        ({"topic": "orders"}, "options subscribe and topic mean the same: set one"),
        ({"subscribePattern": "o.*"}, "set one of the options subscribe"),
        ({"startingOffsets": "newest"}, "option startingOffsets: expected earliest, latest, committed or JSON"),
        ({"startingOffsets": "[1]"}, "option startingOffsets: offsets have the form"),
        ({"startingOffsets": '{"o": {"b": {"x": 1}}}'}, "'x' is not a queue id"),
        ({"startingOffsets": '{"o": {"b": {"0": -3}}}'}, "-3 is not an offset"),
        ({"startingOffsets": '{"o": {"b": {"0": true}}}'}, "True is not an offset"),
        ({"startingOffsets": "committed"}, "set the option group"),
        ({"endingOffsets": "committed"}, "set the option group"),
        ({"startingTimestamp": "yesterday"}, "option startingTimestamp: expected milliseconds"),
        ({"maxOffsetsPerTrigger": "0"}, "option maxOffsetsPerTrigger: expected a number from 1, not '0'"),
        ({"batchRows": "many"}, "option batchRows: expected a number from 1, not 'many'"),
        ({"batchBytes": "2000m"}, "option batchBytes: expected at most 1 GB"),
        ({"pullTimeout": "0"}, "option pullTimeout: expected a value such as 500ms, 10s or 2m, not '0'"),
        ({"pullTimeout": "10 parsecs"}, "not '10 parsecs'"),
        ({"failOnDataLoss": "no"}, "option failOnDataLoss: expected true or false, not 'no'"),
        ({"tags": "||"}, "option tags: no tag in the expression"),
        ({"group": "a b"}, "option group: the group name 'a b'"),
        ({"subscribe": "a b"}, "option subscribe: the topic name 'a b'"),
        ({"subscribe": " , "}, "option subscribe: expected topics"),
        ({"namesrv": "nowhere"}, "option namesrv: not a name server's address"),
        ({"columns": "bodies"}, "option columns: unknown column 'bodies'; did you mean 'body'?"),
        ({"columns": "body,body"}, "option columns: column 'body' is named twice"),
        ({"columns": ","}, "option columns: no column chosen"),
        ({"propertiesAs": "json"}, "option propertiesAs: expected map or string"),
        ({"readFrom": "any"}, "option readFrom: expected master, slave or suggested, not 'any'"),
        ({"sql": "a >"}, "option sql: "),
        (
            {"startingTimestamp": "1700000000"},
            "1700000000 looks like seconds, expected milliseconds since 1970: 1700000000000",
        ),
        ({"startingTimestamp": "9" * 20}, "option startingTimestamp: expected milliseconds since 1970"),
        ({"minPartitions": "9" * 20}, "option minPartitions: expected a number up to 2147483647"),
        ({"kafka.bootstrap.servers": "a:1"}, "unknown option 'kafka.bootstrap.servers'; did you mean 'namesrv'?"),
        ({"maxTriggerDelay": "1m"}, "option maxTriggerDelay is for streams; leave it out of a batch read"),
    ],
)
def test_a_wrong_option_is_named_in_one_line(options: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        _batch(**options)
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_pattern_is_checked() -> None:
    assert read_options({"namesrv": "a:1", "subscribePattern": "ord.*"}, streaming=True).pattern == "ord.*"
    with pytest.raises(ConfigError, match="option subscribePattern: not a regular expression"):
        read_options({"namesrv": "a:1", "subscribePattern": "("}, streaming=True)


def test_the_name_server_must_be_named() -> None:
    with pytest.raises(ConfigError, match="option namesrv is missing: host:port"):
        read_options({"subscribe": "orders"}, streaming=False)


def test_a_table_which_spark_gives_no_options_is_told_what_to_do() -> None:
    for call in (
        lambda: read_options({}, streaming=False),
        lambda: schema_options({"provider": "pyromq", "owner": "me"}),
    ):
        with pytest.raises(ConfigError, match="make a temporary view"):
            call()


@pytest.mark.parametrize("name", ["endingOffsets", "endingTimestamp"])
def test_a_stream_has_no_end(name: str) -> None:
    with pytest.raises(ConfigError, match=f"option {name} is for batch reads"):
        _stream(**{name: "latest"})


def test_a_batch_that_waits_for_more_than_it_may_have_is_refused() -> None:
    options = _stream(minOffsetsPerTrigger="10", maxOffsetsPerTrigger="10", maxTriggerDelay="2m")
    assert (options.min_offsets_per_trigger, options.max_trigger_delay) == (10, 120.0)
    with pytest.raises(ConfigError, match="option minOffsetsPerTrigger is 11, more than maxOffsetsPerTrigger"):
        _stream(minOffsetsPerTrigger="11", maxOffsetsPerTrigger="10")


def test_an_account_is_two_options_which_travel_and_do_not_show() -> None:
    options = _stream(accesskey="shop-app", SecretKey=" hunter2 ")
    assert options.credentials == Credentials("shop-app", "hunter2")
    assert pickle.loads(pickle.dumps(options)) == options
    assert "hunter2" not in repr(options)


@pytest.mark.parametrize("half", [{"accessKey": "hunter2"}, {"secretKey": "hunter2", "accessKey": ""}])
def test_half_an_account_is_refused(half: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="options accessKey and secretKey belong together: set both or neither"):
        _batch(**half)


def test_files_need_no_account() -> None:
    files = {"store": "/data", "subscribe": "orders", "accessKey": "shop-app", "secretKey": "hunter2"}
    with pytest.raises(ConfigError, match="option accessKey is for reads through brokers"):
        read_options(files, streaming=False)


def test_an_error_never_shows_a_secret() -> None:
    for options in ({"secretkey": "hunter2"}, {"accesskey": "hunter2"}, {"secretKeys": "hunter2"}):
        with pytest.raises(PyroMQError) as caught:
            _batch(**options)
        assert "hunter2" not in str(caught.value)


def test_a_schema_follows_the_options() -> None:
    assert schema_options({}) == (DEFAULT_COLUMNS, False)
    columns, as_text = schema_options({"columns": "queue_offset,properties", "propertiesas": "string"})
    assert ddl(columns, properties_as_text=as_text) == "queue_offset bigint, properties string"
    with pytest.raises(ConfigError, match="unknown option 'colums'"):
        schema_options({"colums": "body"})
