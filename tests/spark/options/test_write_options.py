from __future__ import annotations

import pickle

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DoubleType,
    IntegerType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from pyromq.errors import ConfigError
from pyromq.protocol.acl import Credentials
from pyromq.spark.options.write_options import WriteOptions, write_options

GIVEN = {"namesrv": "127.0.0.1:9876", "topic": "alerts"}


def _schema(**types: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in types.items()])


BODY = _schema(body=BinaryType())


def test_two_options_and_a_body_suffice() -> None:
    options = write_options(GIVEN, BODY)
    assert options == WriteOptions(namesrv="127.0.0.1:9876", topic="alerts", columns={"body": "body"})
    assert pickle.loads(pickle.dumps(options)) == options


def test_every_option_is_read_in_any_case_and_sparks_own_are_passed_over() -> None:
    given = {
        "NAMESRV": "a:1; b:2",
        "topic": "alerts",
        "producergroup": "copier",
        "orderKey": "customer",
        "idcolumn": "number",
        "sendTimeout": "500ms",
        "retryTimeout": "2m",
        "inFlight": "8",
        "ratePerSecond": "100",
        "sendAgain": "false",
        "path": "ignored",
        "checkpointLocation": "/tmp/x",
        "queryName": "alerts",
    }
    schema = _schema(value=StringType(), customer=StringType(), number=IntegerType())
    assert write_options(given, schema) == WriteOptions(
        namesrv="a:1;b:2",
        topic="alerts",
        producer_group="copier",
        order_key="customer",
        id_column="number",
        send_timeout=0.5,
        retry_timeout=120.0,
        in_flight=8,
        rate_per_second=100,
        send_again=False,
        columns={"body": "value", "order_key": "customer", "id": "number"},
    )


def test_what_else_the_source_gives_is_passed_over() -> None:
    schema = _schema(body=BinaryType(), queue_offset=IntegerType(), store_host=StringType())
    assert write_options(GIVEN, schema).columns == {"body": "body"}


@pytest.mark.parametrize(
    ("given", "schema", "text"),
    [
        ({"namesrv": "a:1"}, BODY, "no topic: set the option topic, or add a column topic"),
        ({"topic": "x"}, BODY, "option namesrv is missing"),
        (GIVEN | {"topics": "x"}, BODY, "unknown option 'topics'; did you mean 'topic'?"),
        (GIVEN | {"topic": "a b"}, BODY, "option topic: the topic name 'a b'"),
        (GIVEN | {"inFlight": "0"}, BODY, "option inFlight: expected a number from 1, not '0'"),
        (GIVEN | {"orderKey": "who"}, BODY, "option orderKey: there is no column 'who'; there are body"),
        (GIVEN | {"idColumn": "who"}, BODY, "option idColumn: there is no column 'who'; there are body"),
        (GIVEN, _schema(tags=StringType()), "the column body is missing"),
        (GIVEN, _schema(body=DoubleType()), "column 'body' has type double, a sink accepts binary or string"),
        (GIVEN, _schema(body=StringType(), tagss=StringType()), "not use the column 'tagss'; did you mean 'tags'?"),
        (
            GIVEN,
            _schema(body=StringType(), keys=ArrayType(IntegerType())),
            "column 'keys' has type array<int>, a sink accepts array<string> or string",
        ),
        (
            GIVEN,
            _schema(body=StringType(), properties=MapType(StringType(), IntegerType())),
            "column 'properties' has type map<string,int>",
        ),
    ],
)
def test_a_wrong_option_or_column_is_named_in_one_line(given: dict[str, str], schema: StructType, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        write_options(given, schema)
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_account_is_two_options_and_its_secret_is_never_shown() -> None:
    with pytest.raises(ConfigError, match="options accessKey and secretKey belong together") as caught:
        write_options(GIVEN | {"secretKey": "hunter2"}, BODY)
    options = write_options(GIVEN | {"secretKey": "hunter2", "accessKey": "shop-app"}, BODY)
    assert options.credentials == Credentials("shop-app", "hunter2")
    assert "hunter2" not in str(caught.value) + repr(options)
