"""How messages look in a terminal and as JSON; the JSON names are those of the Spark columns."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from typing import Any

from pyromq.protocol.messages.message import MessageExt


def iso_time(timestamp_ms: int) -> str:
    """Return a time as ISO 8601 in UTC with milliseconds."""
    moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def iso_moment(moment: datetime | None) -> str | None:
    """Return a moment in the same form, None for none."""
    return None if moment is None else iso_time(int(moment.timestamp() * 1000))


def message_as_json(message: MessageExt) -> str:
    """Return one JSON line."""
    return json.dumps(message_fields(message), ensure_ascii=False)


def message_fields(message: MessageExt) -> dict[str, Any]:
    """Return a message as JSON has it, by the names of the Spark columns."""
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


def body_fields(body: bytes) -> dict[str, str]:
    """Return a body as text, or as base64 if it is none."""
    try:
        return {"body": body.decode()}
    except UnicodeDecodeError:
        return {"body": base64.b64encode(body).decode(), "body_encoding": "base64"}


def message_as_line(message: MessageExt) -> str:
    """Return one line for a person; control characters of a hostile body cannot reach the terminal."""
    place = f"{message.broker_name}:{message.queue_id}:{message.queue_offset}"
    body = message.body.decode(errors="replace")
    shown = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in body)
    labels = " ".join(filter(None, [f"[{message.tags}]" if message.tags else "", ",".join(message.keys)]))
    return " ".join(filter(None, [iso_time(message.store_timestamp_ms), place, labels, shown]))
