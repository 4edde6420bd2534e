"""Our clients, commands and Spark on Apache's broker with access control: an administrator and a restricted account.

No address is let in without keys: the first test proves that, and with it that the others prove something.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from interop.conftest import Cluster
from interop.inbox import Inbox
from interop.servers import Broker, NameServer
from interop.toolkit import Toolkit
from pyromq import (
    COMMIT,
    UNKNOWN,
    AccessDenied,
    Credentials,
    LitePullConsumer,
    Message,
    MessageExt,
    Producer,
    PushConsumer,
    RetryLater,
    TransactionProducer,
    TransactionState,
)
from pyromq.admin import AdminClient
from pyromq.spark.error_text import one_line
from pyromq.spark.session import local_session
from pyromq.testing import eventually

ADMIN = Credentials("acl-admin", "the-admin's-secret")
SHOP = Credentials("acl-shop", "the-shop's-sécret")
FORGED = Credentials("acl-shop", "some-other-secret")
UNKNOWN_ACCOUNT = Credentials("acl-nobody", "some-other-secret")
ACCOUNTS = f"""\
globalWhiteRemoteAddresses: []
accounts:
  - accessKey: {ADMIN.access_key}
    secretKey: {ADMIN.secret_key}
    admin: true
  - accessKey: {SHOP.access_key}
    secretKey: {SHOP.secret_key}
    admin: false
    defaultTopicPerm: DENY
    defaultGroupPerm: DENY
    topicPerms: [ "acl-orders=PUB|SUB", "acl-alerts=PUB|SUB", "acl-audit=SUB" ]
    groupPerms: [ "acl-billing=SUB", "acl-retrying=SUB", "TOOLS_CONSUMER=SUB" ]
"""


@pytest.fixture(scope="module")
def guarded(toolkit: Toolkit, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Apache's servers; the broker has access control."""
    directory = tmp_path_factory.mktemp("acl")
    home = directory / "home"
    shutil.copytree(toolkit.home, home)
    (home / "conf" / "plain_acl.yml").write_text(ACCOUNTS)
    with (
        NameServer("apache", toolkit, directory / "namesrv") as namesrv,
        Broker(
            "apache",
            toolkit,
            directory,
            namesrv.address,
            {"aclEnable": "true"},
            options=[f"-Drocketmq.home.dir={home}", "-Dfile.encoding=UTF-8"],
        ) as broker,
    ):
        yield Cluster("apache", namesrv.address, broker.address)


async def send(cluster: Cluster, credentials: Credentials | None, topic: str = "acl-orders") -> None:
    async with Producer("acl-producers", cluster.namesrv, credentials=credentials) as producer:
        await producer.send(Message(topic=topic, body=b"x"))


@pytest.mark.parametrize(
    ("credentials", "topic", "line"),
    [
        (None, "acl-orders", "access denied to a client without credentials: No accessKey is configured"),
        (FORGED, "acl-orders", "access denied to account 'acl-shop': Check signature failed for accessKey=acl-shop"),
        (UNKNOWN_ACCOUNT, "acl-orders", "access denied to account 'acl-nobody': No acl config for acl-nobody"),
        (SHOP, "acl-audit", "access denied to account 'acl-shop': No default permission for topic:acl-audit"),
        (SHOP, "acl-other", "access denied to account 'acl-shop': No default permission for topic:acl-other"),
    ],
)
async def test_a_send_without_the_right_to_it_is_one_clear_line(
    guarded: Cluster, credentials: Credentials | None, topic: str, line: str
) -> None:
    with pytest.raises(AccessDenied) as caught:
        await send(guarded, credentials, topic)
    assert str(caught.value) == line


async def test_every_kind_of_send_is_taken_and_every_message_found(guarded: Cluster) -> None:
    topic = "acl-orders"
    async with Producer("acl-producers", guarded.namesrv, credentials=SHOP) as producer:
        sent = await producer.send(Message(topic=topic, body=b"plain 0", tags="täg", keys=["k-1"]))
        for number in range(1, 5):  # from the second on by the fast path
            await producer.send(Message(topic=topic, body=b"plain %d" % number, tags="täg", keys=[f"k-{number}"]))
        await producer.send(Message(topic=topic, body=b"large" * 10_000, properties={"name": "\U0001f600 %s"}))
        await producer.send_batch([Message(topic=topic, body=b"batch %d" % number) for number in range(5)])
        await producer.send_oneway(Message(topic=topic, body=b"one-way"))
        await producer.send(Message(topic=topic, body=b"last"), level=1)

        await eventually(lambda: producer.find(topic, sent.message_id), "the index has the message", pause=0.05)
    bodies = [message.body for message in await everything(guarded, topic)]
    assert {b"plain 4", b"large" * 10_000, b"batch 4", b"one-way"} <= set(bodies)


async def everything(cluster: Cluster, topic: str) -> list[MessageExt]:
    async with AdminClient(cluster.namesrv, credentials=ADMIN) as admin:
        return [message async for message in admin.read(topic)]


async def test_push_consumers_consume_retry_and_lock_queues(guarded: Cluster) -> None:
    topic, failed = "acl-orders", set[str]()

    def once(message: MessageExt) -> Exception | None:
        if message.body != b"again" or message.message_id in failed:
            return None
        failed.add(message.message_id)
        return RetryLater()

    retrying, orderly = Inbox(once), Inbox()
    shop = {"subscriptions": {topic: "*"}, "start_from": "earliest", "credentials": SHOP}
    async with (
        Producer("acl-producers", guarded.namesrv, credentials=SHOP) as producer,
        PushConsumer("acl-retrying", guarded.namesrv, listener=retrying, **shop),  # type: ignore[arg-type]
        PushConsumer("acl-billing", guarded.namesrv, listener=orderly, orderly=True, **shop),  # type: ignore[arg-type]
    ):
        await producer.send(Message(topic=topic, body=b"again"))
        await orderly.take_all({b"again"})
        again: list[MessageExt] = []
        while len(again) < 2:
            again += [message for message in await retrying.take(1) if message.body == b"again"]
    assert again[0].message_id == again[1].message_id
    assert [message.reconsume_times for message in again] == [0, 1]


async def test_a_lite_pull_consumer_reads_and_commits(guarded: Cluster) -> None:
    await send(guarded, SHOP)
    options = {"subscriptions": {"acl-orders": "*"}, "start_from": "earliest", "credentials": SHOP}
    async with LitePullConsumer("acl-billing", guarded.namesrv, auto_commit=False, **options) as consumer:  # type: ignore[arg-type]
        assert await consumer.poll(timeout=20.0)
        await consumer.commit()
        assert any([await consumer.committed(queue) for queue in consumer.assignment])


@pytest.mark.parametrize(
    ("credentials", "group", "reason"),
    [
        (None, "acl-billing", "a client without credentials: No accessKey is configured"),
        (FORGED, "acl-billing", "account 'acl-shop': Check signature failed for accessKey=acl-shop"),
        (SHOP, "acl-other", "account 'acl-shop': No default permission for group:acl-other"),
    ],
)
async def test_a_consumer_without_the_right_to_its_group_does_not_start(
    guarded: Cluster, credentials: Credentials | None, group: str, reason: str
) -> None:
    await send(guarded, ADMIN)
    with pytest.raises(AccessDenied) as caught:
        await LitePullConsumer(group, guarded.namesrv, {"acl-orders": "*"}, credentials=credentials).start()
    assert str(caught.value) == f"access denied to {reason}"


async def test_transactions_end_at_once_and_when_the_broker_asks(guarded: Cluster) -> None:
    topic = "acl-alerts"

    def judge(state: TransactionState, message: MessageExt) -> TransactionState:
        return state

    async with TransactionProducer(
        "acl-paying", guarded.namesrv, check=partial(judge, COMMIT), credentials=SHOP
    ) as producer:
        for body, state in ((b"at once", COMMIT), (b"asked for", UNKNOWN)):
            await producer.send_in_transaction(Message(topic=topic, body=body), partial(judge, state))
        async with asyncio.timeout(60):
            found = set[bytes]()
            while not found >= {b"at once", b"asked for"}:
                found |= {message.body for message in await everything(guarded, topic)}


async def test_only_the_administrator_makes_topics(guarded: Cluster) -> None:
    async with AdminClient(guarded.namesrv, credentials=SHOP) as shop:
        with pytest.raises(AccessDenied, match="account 'acl-shop': Need admin permission for request code=17"):
            await shop.api.create_topic(guarded.broker, "acl-new")
    async with AdminClient(guarded.namesrv, credentials=ADMIN) as admin:
        await admin.api.create_topic(guarded.broker, "acl-new")
        assert (await admin.topics.describe("acl-new")).queues
        assert (await admin.groups.list()).groups


# --- commands ---------------------------------------------------------------------------------------------------------


def pyromq(cluster: Cluster, credentials: Credentials | None, *arguments: str) -> tuple[int, str, str]:
    """Run a command with an account in its environment; return exit code, output and errors."""
    account = {} if credentials is None else as_variables(credentials)
    done = subprocess.run(
        [sys.executable, "-m", "pyromq.cli.main", *arguments, "-n", cluster.namesrv],
        env={**os.environ, **account},
        capture_output=True,
        text=True,
        timeout=120,
    )
    return done.returncode, done.stdout, done.stderr


def as_variables(credentials: Credentials) -> dict[str, str]:
    return {"PYROMQ_ACCESS_KEY": credentials.access_key, "PYROMQ_SECRET_KEY": credentials.secret_key}


async def test_commands_sign_with_the_account_of_their_environment(guarded: Cluster) -> None:
    await send(guarded, ADMIN)
    await send(guarded, ADMIN, "acl-hidden")
    code, out, _ = pyromq(guarded, ADMIN, "topic", "list", "--json")
    assert code == 0
    assert '"acl-orders"' in out
    assert pyromq(guarded, SHOP, "send", "acl-orders", "by command")[0] == 0
    code, out, errors = pyromq(guarded, SHOP, "tail", "acl-orders", "--from", "earliest", "--count", "1", "--json")
    assert (code, errors) == (0, "")
    assert '"topic":"acl-orders"' in out.replace(" ", "")


@pytest.mark.parametrize(
    ("credentials", "command", "reason"),
    [
        (None, ("send", "acl-orders", "x"), "a client without credentials: No accessKey is configured"),
        (FORGED, ("send", "acl-orders", "x"), "account 'acl-shop': Check signature failed for accessKey=acl-shop"),
        (FORGED, ("topic", "list"), "account 'acl-shop': Check signature failed for accessKey=acl-shop"),
        (SHOP, ("tail", "acl-hidden"), "account 'acl-shop': No default permission for topic:acl-hidden"),
        (SHOP, ("tail", "acl-orders", "--group", "g"), "account 'acl-shop': No default permission for group:g"),
    ],
)
async def test_a_command_that_is_refused_says_so_in_one_line(
    guarded: Cluster, credentials: Credentials | None, command: tuple[str, ...], reason: str
) -> None:
    await send(guarded, ADMIN)
    await send(guarded, ADMIN, "acl-hidden")
    assert pyromq(guarded, credentials, *command) == (1, "", f"pyromq: access denied to {reason}\n")


# --- Spark ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def spark(guarded: Cluster) -> Iterator[SparkSession]:
    """A session inside the network of the servers."""
    session = local_session("pyromq interop", "local[2]")
    yield session
    session.stop()


def options(cluster: Cluster, credentials: Credentials) -> dict[str, str]:
    return {
        "namesrv": cluster.namesrv,
        "accessKey": credentials.access_key,
        "secretKey": credentials.secret_key,
        "retryTimeout": "20s",
    }


async def test_spark_reads_and_writes_as_an_account(guarded: Cluster, spark: SparkSession, tmp_path: Path) -> None:
    async with Producer("acl-producers", guarded.namesrv, credentials=SHOP) as producer:
        for number in range(50):
            await producer.send(Message(topic="acl-orders", body=b"spark %d" % number))
    account = options(guarded, SHOP)
    rows = spark.read.format("pyromq").options(**account, subscribe="acl-orders").load()
    sent = rows.where("cast(body as string) like 'spark %'").select("body")
    assert sent.distinct().count() == 50
    sent.write.format("pyromq").mode("append").options(**account, topic="acl-alerts").save()
    stream = spark.readStream.format("pyromq").options(**account, subscribe="acl-alerts", startingOffsets="earliest")
    query = (
        stream.load().select("body").writeStream.format("parquet")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(tmp_path / "rows"))
    )  # fmt: skip
    query.awaitTermination()
    copied = spark.read.parquet(str(tmp_path / "rows")).where("cast(body as string) like 'spark %'")
    assert copied.distinct().count() == 50


@pytest.mark.parametrize(
    ("credentials", "topic", "reason"),
    [
        (FORGED, "acl-orders", "Check signature failed for accessKey=acl-shop"),
        (SHOP, "acl-hidden", "No default permission for topic:acl-hidden"),
    ],
)
async def test_what_spark_may_not_read_is_one_line(
    guarded: Cluster, spark: SparkSession, credentials: Credentials, topic: str, reason: str
) -> None:
    await send(guarded, ADMIN)
    await send(guarded, ADMIN, "acl-hidden")
    with pytest.raises(PySparkException) as caught:
        spark.read.format("pyromq").options(**options(guarded, credentials), subscribe=topic).load().collect()
    assert one_line(caught.value) == f"access denied to account 'acl-shop': {reason}"
    assert credentials.secret_key not in str(caught.value)


async def test_what_spark_may_not_write_is_one_line(guarded: Cluster, spark: SparkSession) -> None:
    # With a valid account Apache's broker accepts batches to any topic: it checks the rights of single sends only.
    body = spark.createDataFrame([("x",)], "body string")
    with pytest.raises(PySparkException) as caught:
        body.write.format("pyromq").mode("append").options(**options(guarded, FORGED), topic="acl-orders").save()
    line = "access denied to account 'acl-shop': Check signature failed for accessKey=acl-shop"
    assert one_line(caught.value) == line
    assert FORGED.secret_key not in str(caught.value)
