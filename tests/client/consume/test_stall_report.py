from __future__ import annotations

import logging
from datetime import UTC, datetime

import pytest

from pyromq.client.consume.stall_report import (
    MessageInProgress,
    blocked_by,
    blocked_property,
    blocked_queues,
    idle_caller_property,
    idle_caller_since_ms,
    in_progress_property,
    messages_in_progress,
)
from pyromq.protocol.bodies import ConsumerRunningInfo
from pyromq.protocol.messages.message import MessageExt, MessageQueue

QUEUE = MessageQueue("orders", "broker-a", 3)
MESSAGE = MessageExt(topic="orders", stored_body=b"x", queue_offset=7)
NOW = 1_700_000_000.0


def test_tools_read_what_consumers_write() -> None:
    blocked = blocked_by(MESSAGE, QUEUE, "ValueError: no such order", NOW, None)
    head = MessageInProgress(**QUEUE._asdict(), queue_offset=7, message_id="ABC", since_ms=5)
    properties = blocked_property([blocked]) | in_progress_property([head]) | idle_caller_property(NOW)
    info = ConsumerRunningInfo(properties=properties)
    assert blocked_queues(info) == {QUEUE: blocked}
    assert messages_in_progress(info) == {QUEUE: head}
    assert idle_caller_since_ms(info) == int(NOW * 1000)


def test_without_anything_to_report_there_is_no_property() -> None:
    assert blocked_property([]) | in_progress_property([]) | idle_caller_property(None) == {}
    assert idle_caller_since_ms(ConsumerRunningInfo()) == 0


def test_the_first_failure_of_a_message_is_logged_and_the_others_are_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        first = blocked_by(MESSAGE, QUEUE, "no", NOW, None)
        second = blocked_by(MESSAGE, QUEUE, "still no", NOW + 9, first)
    assert (second.times, second.cause, second.since) == (2, "still no", datetime.fromtimestamp(NOW, UTC))
    assert len(caplog.records) == 1
    other = blocked_by(MessageExt(topic="orders", stored_body=b"y", queue_offset=8), QUEUE, "no", NOW + 10, second)
    assert (other.times, other.since) == (1, datetime.fromtimestamp(NOW + 10, UTC))
