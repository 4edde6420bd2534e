"""Lines for the terminal: JSON lines, a line for a message, and text that cannot do harm."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping

from pyromq.admin.views.iso_times import iso_time
from pyromq.protocol.messages.message import MessageExt


def json_line(fields: Mapping[str, object]) -> str:
    """Return the fields as one line of JSON; where the output is not Unicode, other characters are escaped."""
    return json.dumps(fields, ensure_ascii=not _is_unicode())


def _is_unicode() -> bool:
    return (getattr(sys.stdout, "encoding", None) or "utf-8").lower().startswith("utf")


def counted(number: int, thing: str) -> str:
    """Return `1 message`, `2 messages`, `1,200 dead letters`."""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"


def report_line(text: str, *, flush: bool = False) -> None:
    """Print what was done. The work goes on, silently, if the reader has gone (`pyromq dlq resend … | head`)."""
    try:
        print(text, flush=flush)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def printable(text: str) -> str:
    """Replace control characters: clients wrote the text, and it must not control the terminal."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def message_line(message: MessageExt) -> str:
    """Return one line for a person: time, place, tag, keys, body."""
    place = f"{message.broker_name}:{message.queue_id}:{message.queue_offset}"
    body = printable(message.body.decode(errors="replace"))
    labels = " ".join(filter(None, [f"[{message.tags}]" if message.tags else "", ",".join(message.keys)]))
    return " ".join(filter(None, [iso_time(message.store_timestamp_ms), place, labels, body]))
