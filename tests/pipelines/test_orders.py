"""`orders` keeps each state of an order once, rejects what is not an order, and sums what it keeps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from pyromq import Message, blocking
from pyromq.errors import ConfigError
from pyromq.pipelines import orders
from pyromq.pipelines.common.streams import REPEATED
from pyromq.pipelines.demo.books import read_books
from pyromq.pipelines.demo.shop import RUBBISH
from pyromq.pipelines.orders import REASONS
from pyromq.pipelines.outcome import Silent
from pyromq.testing import LocalCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

TOPIC = "orders-in"


def order(number: int, state: str = "created") -> bytes:
    return json.dumps({"order_id": number, "state": state, "cents": 100 + number}).encode()


def send(producer: blocking.Producer, *bodies: bytes) -> None:
    for body in bodies:
        producer.send(Message(topic=TOPIC, body=body, tags="any", keys=["key"]))


def test_orders_are_kept_once_rubbish_is_put_aside_and_a_second_run_goes_on(
    spark: SparkSession, cluster: LocalCluster, producer: blocking.Producer, tmp_path: Path
) -> None:
    options = orders.Options(
        namesrv=cluster.namesrv, topic=TOPIC, rejects="orders-bad", totals="orders-sums", out=str(tmp_path), parts=1
    )
    send(
        producer, *map(order, range(10)), *map(order, range(3)), order(0, "paid"), *RUBBISH, b"[]", b'{"order_id": "x"}'
    )
    outcome = orders.run(spark, options, Silent())
    assert (outcome.read, outcome.written) == (20, 11)
    rejected = {REASONS[0]: 3, REASONS[1]: 1, REASONS[2]: 1, REASONS[3]: 1}
    assert outcome.dropped in ({**rejected, REPEATED: 3}, {**rejected, REASONS[0]: 2, REASONS[1]: 2, REPEATED: 3})

    send(producer, order(5), order(5, "paid"), b"more rubbish")
    outcome = orders.run(spark, options, Silent())
    assert (outcome.read, outcome.written, outcome.dropped) == (3, 1, {REASONS[0]: 1, REPEATED: 1})

    books = read_books(spark, options, outcome)
    assert books.kept == {"created": (10, 1045), "paid": (2, 205)}
    assert sum(one.messages for one in books.sums) == 12
    assert sum(one.cents for one in books.sums) == 1250
    assert sum(books.rejected.values()) == 7
    sample = spark.read.format("pyromq").options(namesrv=cluster.namesrv, subscribe="orders-bad").load()
    row = sample.where("properties['reason'] = 'unknown state'").first()
    assert row is not None
    assert bytes(row["body"]) == RUBBISH[2], "as it came"
    assert row["properties"]["origin"].startswith(f"{TOPIC}/")

    with pytest.raises(ConfigError, match=f"belongs to a run that reads '{TOPIC}': choose another --out"):
        orders.run(spark, msgspec.structs.replace(options, topic="orders-bad"), Silent())
