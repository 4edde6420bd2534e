"""Accounts in Spark: driver and executors sign all requests, and nothing that people read shows the secret."""

from __future__ import annotations

import io
import pickle
import re
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import BinaryType, StructField, StructType

from pyromq import AccessDenied, Credentials, Message, blocking
from pyromq.protocol.codes import RequestCode
from pyromq.spark.options.read_options import read_options
from pyromq.spark.options.write_options import write_options
from pyromq.spark.read.batch_reader import BatchReader
from pyromq.spark.read.brokers.broker_connection import give_back, take_connection
from pyromq.spark.read.brokers.broker_queues import connect
from pyromq.spark.read.stream_reader import StreamReader
from pyromq.spark.session import _OF_EVERY_SESSION
from pyromq.spark.write.sink_task import SinkTask
from pyromq.spark.write.writer import write_rows
from pyromq.testing import LocalCluster
from tests.client.signed_requests import OTHER, SHOP, Requests
from tests.client.test_credentials import refuse
from tests.spark.conftest import send

BODY = StructType([StructField("body", BinaryType())])


def account(cluster: LocalCluster, credentials: Credentials, **options: str) -> dict[str, str]:
    keys = {"accessKey": credentials.access_key, "secretKey": credentials.secret_key}
    return {"namesrv": cluster.namesrv, **keys, **options}


@pytest.fixture(scope="module")
def topic(producer: blocking.Producer) -> str:
    send(producer, [Message(topic="accounts", body=b"%d" % number) for number in range(20)])
    return "accounts"


def test_all_that_a_read_asks_is_signed(cluster: LocalCluster, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    requests = Requests(monkeypatch)
    for credentials, tags in ((SHOP, {}), (SHOP, {"sql": "TAGS IS NULL"})):  # SQL goes by plain pulls
        given = account(cluster, credentials, subscribe=topic, **tags)
        reader = pickle.loads(pickle.dumps(BatchReader(read_options(given, streaming=False))))
        assert sum(batch.num_rows for part in reader.partitions() for batch in reader.read(part)) == 20
    given = account(cluster, SHOP, subscribePattern="accounts", group="spark-accounts", startingTimestamp="0")
    stream: Any = StreamReader(read_options(given, streaming=True))
    offsets = stream.initialOffset()
    for _ in range(3):  # where it begins, what there is, and then the progress of the group
        offsets = stream.latestOffset(offsets, stream.getDefaultReadLimit())
    assert set(requests.accounts()) == {"shop-app"}
    assert requests.codes.keys() >= {
        RequestCode.PULL_QUEUES,
        RequestCode.PULL_MESSAGE,
        RequestCode.GET_MAX_OFFSET,
        RequestCode.UPDATE_CONSUMER_OFFSET,
    }


def test_all_that_a_write_sends_is_signed(cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    requests = Requests(monkeypatch)
    options = write_options(account(cluster, SHOP, topic="written-by-accounts"), BODY)
    rows = pa.record_batch({"body": pa.array([b"one", b"two"])})
    assert write_rows(iter([rows]), pickle.loads(pickle.dumps(options)), SinkTask("accounts-0-0", 0, 0)).rows == 2
    assert set(requests.accounts()) == {"shop-app"}
    assert requests.codes.keys() & {RequestCode.SEND_BATCH_MESSAGE, RequestCode.SEND_MESSAGE_V2}


def test_accounts_share_no_connection(cluster: LocalCluster) -> None:
    shop, other = (connect(cluster.namesrv, credentials) for credentials in (SHOP, OTHER))
    assert shop is connect(cluster.namesrv, SHOP)
    assert len({shop, other, connect(cluster.namesrv)}) == 3
    address = cluster.brokers[0].address
    line = take_connection(address, 10.0, SHOP)
    give_back(line)
    strange = take_connection(address, 10.0, OTHER)
    assert strange is not line
    assert take_connection(address, 10.0, SHOP) is line
    for each in (line, strange):
        each.close()


def test_a_stream_that_may_not_read_ends_with_one_line_instead_of_waiting() -> None:
    with LocalCluster() as own:
        with blocking.Producer("p", own.namesrv) as producer:
            producer.send(Message(topic="forbidden", body=b"x"))
        refuse(own, "Check signature failed for accessKey=shop-app", RequestCode.GET_MAX_OFFSET)
        given = account(own, SHOP, subscribe="forbidden", startingOffsets="earliest")
        stream: Any = StreamReader(read_options(given, streaming=True))
        begin = stream.latestOffset(stream.initialOffset(), stream.getDefaultReadLimit())
        with pytest.raises(AccessDenied, match="access denied to account 'shop-app': Check signature failed"):
            stream.latestOffset(begin, stream.getDefaultReadLimit())


def test_the_setting_of_our_sessions_takes_the_account_out_of_the_plans_that_a_connect_server_shows() -> None:
    proto = pytest.importorskip("pyspark.sql.connect.proto")
    keys = {"accessKey": "shop-app", "SECRETKEY": 'hun"ter2\\hunter2'}
    source = proto.Read.DataSource(format="pyromq", options={"namesrv": "127.0.0.1:9876", **keys})
    plan = str(proto.Relation(read=proto.Read(data_source=source)))
    assert "hunter2" in plan
    shown = re.sub(_OF_EVERY_SESSION["spark.sql.redaction.string.regex"], "*", plan)
    assert "hunter2" not in shown
    assert "shop-app" not in shown
    assert "127.0.0.1:9876" in shown


@pytest.mark.spark
def test_neither_plans_nor_progress_nor_the_checkpoint_show_the_secret(
    spark: SparkSession, cluster: LocalCluster, topic: str, tmp_path: Path
) -> None:
    given = account(cluster, Credentials("shop-app", "hunter2"))
    batch = spark.read.format("pyromq").options(**given, subscribe=topic).load().select("body")
    batch.write.format("pyromq").mode("append").options(**given, topic="accounts-copied").save()
    stream = spark.readStream.format("pyromq").options(**given, subscribe=topic, startingOffsets="earliest")
    query = (
        stream.load().select("body").writeStream.format("pyromq").options(**given, topic="accounts-copied")
        .option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
    )  # fmt: skip
    query.awaitTermination()
    shown = io.StringIO()
    with redirect_stdout(shown):
        for mode in ("extended", "formatted"):
            batch.explain(mode=mode)
        query.explain(extended=True)
    executions = spark._jsparkSession.sharedState().statusStore().executionsList()
    for number in range(executions.size()):
        execution = executions.apply(number)
        shown.write(f"{execution.description()} {execution.details()} {execution.physicalPlanDescription()}")
    shown.write(f"{batch!r} {query.lastProgress} {query.status}")
    for file in (file for file in tmp_path.rglob("*") if file.is_file()):
        shown.write(file.read_bytes().decode(errors="replace"))
    assert topic in shown.getvalue()
    assert "hunter2" not in shown.getvalue()
