"""The JSON of messages, waiting messages and dead letters."""

from __future__ import annotations

import json

import pytest

from pyromq import MessageExt, MessageQueue, SendResult, SendStatus
from pyromq.admin import HalfMessage, Letter, TimedMessage
from pyromq.admin.views.dead_letter_view import dead_letter_fields
from pyromq.admin.views.message_view import body_fields, message_fields, send_result_fields
from pyromq.admin.views.pending_view import half_message_fields, timed_message_fields
from pyromq.protocol.messages.properties import encode_properties
from pyromq.spark.schema import DEFAULT_COLUMNS

PROPERTIES = {
    "TAGS": "paid",
    "KEYS": "o-1 o-2",
    "UNIQ_KEY": "0A",
    "REAL_TOPIC": "orders",
    "PGROUP": "shop",
    "TRANSACTION_CHECK_TIMES": "3",
    "RETRY_TOPIC": "orders",
    "PYROMQ_CAUSE": "ValueError: x",
}


def stored(topic: str = "orders") -> MessageExt:
    return MessageExt(topic, b"body", encode_properties(PROPERTIES).encode(), "broker-a", queue_id=3, queue_offset=7)


def test_a_message_has_the_names_of_the_spark_columns() -> None:
    fields = message_fields(stored())
    assert list(fields) == list(DEFAULT_COLUMNS)
    assert (fields["message_id"], fields["keys"], fields["tags"]) == ("0A", ["o-1", "o-2"], "paid")
    assert json.loads(json.dumps(fields)) == fields


@pytest.mark.parametrize(("body", "fields"), [(b"\xc3\xbc", {"body": "ü"}), (b"", {"body": ""})])
def test_a_body_of_text_is_text(body: bytes, fields: dict[str, str]) -> None:
    assert body_fields(body) == fields


def test_a_body_that_is_no_text_is_base64() -> None:
    assert body_fields(b"\xff\x00\xfe") == {"body": "/wD+", "body_encoding": "base64"}


def test_a_result_names_the_queue() -> None:
    result = SendResult(SendStatus.SEND_OK, "0A", "0B", MessageQueue("orders", "broker-a", 3), 7)
    assert send_result_fields(result) == {
        "status": "SEND_OK",
        "message_id": "0A",
        "offset_message_id": "0B",
        "topic": "orders",
        "broker_name": "broker-a",
        "queue_id": 3,
        "queue_offset": 7,
    }


def test_a_timed_message_has_its_own_topic_and_no_offset_yet() -> None:
    timer = stored("rmq_sys_wheel_timer")
    fields = timed_message_fields(
        TimedMessage(topic="orders", broker_name="broker-a", queue_id=1, due_ms=1_700_000_000_000, stored=timer)
    )
    assert (fields["topic"], fields["queue_id"]) == ("orders", 1)
    assert fields["deliver_timestamp"] == "2023-11-14T22:13:20.000Z"
    assert "queue_offset" not in fields


def test_a_half_message_has_its_own_topic_and_its_group() -> None:
    fields = half_message_fields(HalfMessage(stored("RMQ_SYS_TRANS_HALF_TOPIC"), given_up=True))
    assert (fields["topic"], fields["producer_group"], fields["checks"]) == ("orders", "shop", 3)
    assert fields["state"] == "given up"


def test_a_dead_letter_says_where_it_comes_from_and_why() -> None:
    fields = dead_letter_fields(Letter(stored("%DLQ%billing")))
    assert (fields["topic"], fields["group"], fields["origin_topic"]) == ("%DLQ%billing", "billing", "orders")
    assert (fields["origin_message_id"], fields["cause"], fields["resends"]) == ("0A", "ValueError: x", 0)
