"""The JSON of messages and of results of sends; the names are those of the Spark columns."""

from __future__ import annotations

import base64
from typing import Any

from pyromq.admin.views.iso_times import iso_time
from pyromq.client.send_result import SendResult
from pyromq.protocol.messages.message import MessageExt


def message_fields(message: MessageExt) -> dict[str, Any]:
    """Return the fields of a message."""
    return {
        "topic": message.topic,
        "broker_name": message.broker_name,
        "queue_id": message.queue_id,
        "queue_offset": message.queue_offset,
        "message_id": message.message_id,
        "keys": list(message.keys),
        "tags": message.tags,
        **body_fields(message.body),
        "properties": dict(message.properties),
        "born_timestamp": iso_time(message.born_timestamp_ms),
        "store_timestamp": iso_time(message.store_timestamp_ms),
        "reconsume_times": message.reconsume_times,
    }


def message_details(message: MessageExt) -> dict[str, Any]:
    """Return everything that is stored with a message."""
    return message_fields(message) | {
        "offset_message_id": message.offset_message_id,
        "physical_offset": message.physical_offset,
        "store_size": message.store_size,
        "body_size": len(message.body),
        "compressed": message.body is not message.stored_body,
        "born_host": message.born_host,
        "store_host": message.store_host,
        "flag": message.flag,
        "sys_flag": message.sys_flag,
    }


def body_fields(body: bytes) -> dict[str, str]:
    """Return a body as text, or as base64 if it is not UTF-8."""
    try:
        return {"body": body.decode()}
    except UnicodeDecodeError:
        return {"body": base64.b64encode(body).decode(), "body_encoding": "base64"}


def send_result_fields(result: SendResult) -> dict[str, Any]:
    """Return the fields of what a send returned."""
    return {
        "status": result.status,
        "message_id": result.message_id,
        "offset_message_id": result.offset_message_id,
        "topic": result.queue.topic,
        "broker_name": result.queue.broker_name,
        "queue_id": result.queue.queue_id,
        "queue_offset": result.queue_offset,
    }
