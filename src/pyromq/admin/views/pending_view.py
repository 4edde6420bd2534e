"""The JSON of messages that wait: for their delivery time, or for the end of their transaction."""

from __future__ import annotations

from typing import Any

from pyromq.admin.timed_messages import TimedMessage
from pyromq.admin.transactions import HalfMessage
from pyromq.admin.views.iso_times import iso_time
from pyromq.admin.views.message_view import message_fields


def timed_message_fields(message: TimedMessage) -> dict[str, Any]:
    """Return the fields of a message that waits for its delivery time."""
    fields = message_fields(message.stored)
    fields |= {
        "topic": message.topic,
        "queue_id": message.queue_id,
        "offset_message_id": message.stored.offset_message_id,
        "deliver_timestamp": iso_time(message.due_ms),
    }
    del fields["queue_offset"]  # it gets one when it is delivered
    return fields


def half_message_fields(half: HalfMessage) -> dict[str, Any]:
    """Return the fields of a half message."""
    return message_fields(half.message) | {
        "topic": half.topic,
        "state": half_message_state(half),
        "producer_group": half.group,
        "checks": half.checks,
    }


def half_message_state(half: HalfMessage) -> str:
    """Return the state of a transaction in words."""
    return "given up" if half.given_up else "pending"
