"""A whole message for people: its fields, its body in a readable form, and what became of it in each group."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Final

import msgspec
from rich.table import Table
from rich.text import Text

from pyromq.admin import ConsumptionState, GroupConsumption, MessageSearch, SearchStop, TimeRange
from pyromq.admin.views.iso_times import iso_time
from pyromq.cli.show.lines import printable
from pyromq.errors import ClientError, MalformedHeader
from pyromq.protocol.messages.message import MessageExt
from pyromq.protocol.unreadable import UNREADABLE

_IN_A_LINE: Final = 16


class BodyForm(StrEnum):
    """How to show a body."""

    AUTO = "auto"
    TEXT = "text"
    JSON = "json"
    HEX = "hex"


def message_as_lines(message: MessageExt, form: BodyForm) -> Iterator[str]:
    """Yield the fields of a message and its body; raises ClientError if the body does not have this form."""
    body, remark = _inflated(message)
    fields = {
        "topic": message.topic,
        "message id": message.message_id,
        "offset message id": message.offset_message_id,
        "queue": f"{message.broker_name}:{message.queue_id}, offset {message.queue_offset:,}",
        "physical offset": f"{message.physical_offset:,}, {message.store_size:,} bytes",
        "tag": message.tags or "-",
        "keys": " ".join(message.keys) or "-",
        "born": f"{iso_time(message.born_timestamp_ms)} at {message.born_host}",
        "stored": f"{iso_time(message.store_timestamp_ms)} at {message.store_host}",
        "retries": f"{message.reconsume_times}",
        "flags": f"{message.flag}, system {message.sys_flag}",
    }
    for name, value in fields.items():
        yield f"{name:18} {printable(value)}"
    for name, value in sorted(message.properties.items()):
        yield f"{'property':18} {printable(name)} = {printable(value)}"
    yield f"{'body':18} {len(body):,} bytes{remark}"
    yield ""
    yield from body_as_lines(body, form)


def _inflated(message: MessageExt) -> tuple[bytes, str]:
    try:
        body = message.body
    except MalformedHeader as error:
        return message.stored_body, f", as stored: {error}"
    return body, "" if body is message.stored_body else f", {len(message.stored_body):,} compressed"


def body_as_lines(body: bytes, form: BodyForm) -> Iterator[str]:
    """Yield a body in a form; AUTO is JSON if it is an object or list, text if it is text, else hex digits."""
    if form is BodyForm.AUTO:
        form = _form_of(body)
    if form is BodyForm.HEX:
        return _hex_lines(body)
    text = _pretty(body) if form is BodyForm.JSON else body.decode(errors="replace")
    return (printable(line.replace("\t", "    ")) for line in text.splitlines())


def _form_of(body: bytes) -> BodyForm:
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return BodyForm.HEX
    if text.lstrip()[:1] in ("{", "[") and _is_json(body):
        return BodyForm.JSON
    return BodyForm.TEXT if all(c.isprintable() or c in "\n\r\t" for c in text) else BodyForm.HEX


def _is_json(body: bytes) -> bool:
    try:
        msgspec.json.decode(body)
    except UNREADABLE:
        return False
    return True


def _pretty(body: bytes) -> str:
    if not _is_json(body):
        raise ClientError("the body is not JSON: show it with --as text or --as hex")
    return json.dumps(json.loads(body), indent=2, ensure_ascii=False)


def _hex_lines(body: bytes) -> Iterator[str]:
    for start in range(0, len(body), _IN_A_LINE):
        row = body[start : start + _IN_A_LINE]
        shown = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        yield f"{start:08x}  {row.hex(' '):{3 * _IN_A_LINE - 1}}  {shown}"


_STYLES: Final = {
    ConsumptionState.DEAD_LETTER: "red",
    ConsumptionState.RETRYING: "yellow",
    ConsumptionState.OFFLINE: "yellow",
}


def consumption_as_table(groups: list[GroupConsumption]) -> Table:
    """Return what became of a message, one row for each group."""
    table = Table("group", "state", "members", "committed", "remark")
    for each in groups:
        cells = (
            each.group,
            each.state.value,
            "-" if each.members is None else str(each.members),
            "-" if each.committed_offset is None else f"{each.committed_offset:,}",
            each.remark or "",
        )
        table.add_row(*(Text(printable(cell)) for cell in cells), style=_STYLES.get(each.state))
    return table


def stop_as_text(stop: SearchStop, *, oldest_first: bool) -> str:
    """Return why a search stopped, where, and how to go on."""
    at_ms = stop.rest.since_ms if oldest_first else stop.rest.until_ms
    return f"stopped at {iso_time(at_ms)}: {stop.reason}; go on with --time {range_as_text(stop.rest)}"


def range_as_text(time: TimeRange) -> str:
    """Return a range of time as `--time` takes it."""
    begin = "" if time.since is None else iso_time(time.since_ms)
    end = "" if time.until is None else iso_time(time.until_ms)
    return f"{begin}..{end}"


@contextmanager
def search_progress(search: MessageSearch) -> Iterator[None]:
    """Show on a terminal how far a search is."""
    from rich.progress import ProgressColumn, SpinnerColumn, Task

    from pyromq.cli.show.progress import progress

    class LookedAt(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(f"looked at {search.looked_at:,}, found {search.found:,}")

    with progress(SpinnerColumn(), LookedAt()) as bar:
        bar.add_task("", total=None)
        yield
