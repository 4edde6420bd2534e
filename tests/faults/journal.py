"""A journal: what the processes of a campaign did and saw, as JSON lines; `history.py` judges it.

Every process writes a file of its own, line by line and unbuffered, so that a killed one leaves all that it did. Times
are those of the machine's monotonic clock, which its processes share.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import Struct

from pyromq.protocol.messages.message import MessageQueue

SEND_OK = "SEND_OK"
RAISED = "raised"


class Event(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="event"):
    """Something that happened."""

    at: float = 0.0
    """When, in seconds."""
    by: str = ""
    """Who wrote it: a sender, one life of a member of a group, the operator …"""
    node: str = ""
    """The broker that it was seen on, where several share a name."""
    epoch: int = 0
    """Which reign or life of that broker."""


class Attempted(Event, frozen=True, tag="attempted"):
    """A sender is about to send a value, which it sends only once."""

    value: str
    topic: str
    how: Literal["plain", "ordered", "batch", "oneway", "level", "timed", "transaction"] = "plain"
    key: str = ""
    """Values of one key are sent one after another, each when the last one is answered."""
    copies: int = 1
    """How many requests the client may make of it: one more than its retries."""
    due: float = 0.0
    """When it may be delivered at the earliest; 0: at once."""
    rolled_back: bool = False
    """Its transaction ends with a rollback."""


class Answered(Event, frozen=True, tag="answered"):
    """What became of a send, as far as its sender knows; a send that was cut off has no such event."""

    value: str
    status: str
    """The status of the result, or `raised`."""
    queue: MessageQueue | None = None
    offset: int = -1
    """Where its topic has it; not of values that wait first."""
    error: str = ""


class Recalled(Event, frozen=True, tag="recalled"):
    """A sender cancelled a delayed message, and the broker agreed, or gave no answer."""

    value: str
    is_sure: bool = True


class Formed(Event, frozen=True, tag="formed"):
    """A group and its rules."""

    group: str
    topics: list[str]
    orderly: bool = False
    retries: bool = True
    """What fails comes again. Without, as in broadcasting, a failed message is finished."""
    limit: int | None = None
    """How often a message is retried before it becomes a dead letter."""
    parallel: bool = False
    """Its listeners run on threads, which begin in any order."""
    alone: bool = False
    """Each life of a member has its queues for itself: nothing comes to it twice, unless the position was moved."""


class Delivered(Event, frozen=True, tag="delivered"):
    """A message was handed to a listener, or returned by a poll."""

    group: str
    queue: MessageQueue
    """The queue that it was read from: its topic's or the group's retry topic's."""
    offset: int
    value: str
    times: int = 0
    """How often it was redelivered, as it says itself."""
    call: int = 0
    """Messages of one batch share the number of their call; 0: it came on its own."""


class Finished(Event, frozen=True, tag="finished"):
    """The listener is done with a message."""

    group: str
    queue: MessageQueue
    offset: int
    value: str
    result: Literal["acknowledged", "failed", "rejected", "untried"] = "acknowledged"
    """Rejected: given up at once. Untried: a message of the same batch failed before it."""
    times: int = 0


class Committed(Event, frozen=True, tag="committed"):
    """The broker says that a group continues at this offset."""

    group: str
    queue: MessageQueue
    offset: int


class Moved(Event, frozen=True, tag="moved"):
    """An operator's reset, or a seek, put a group to another offset."""

    group: str
    queue: MessageQueue
    offset: int
    since: float
    """When that was asked for; `at` is when it was answered."""


class Deleted(Event, frozen=True, tag="deleted"):
    """A topic was deleted; it may exist again later."""

    topic: str
    since: float
    """When that was asked for; `at` is when it was answered."""


class Restarted(Event, frozen=True, tag="restarted"):
    """A broker has started again."""

    saved: bool = True
    """Whether it could save its tables before; not if it was killed."""


class PowerFailed(Event, frozen=True, tag="power failed"):
    """All brokers lost their power at once, and did not wait for their disks before."""

    window: float
    """What was acknowledged in these seconds before may be gone."""


class Struck(Event, frozen=True, tag="struck"):
    """A broker was killed, paused, cut off or told to hand over: what follows may be another's reign."""

    how: str


class Reigned(Event, frozen=True, tag="reigned"):
    """A broker was seen to be master; `epoch` counts the reigns of all who share the name."""

    since: float
    """When the reign before was last seen; `at` is when this one was first seen."""


class Stored(Event, frozen=True, tag="stored"):
    """A message that a queue has in the end; of each broker that has it, where several share a name."""

    queue: MessageQueue
    offset: int
    value: str


class Buried(Event, frozen=True, tag="buried"):
    """A dead letter of a group in the end."""

    group: str
    value: str


class Drained(Event, frozen=True, tag="drained"):
    """A group had every chance to handle all messages."""

    group: str


AnyEvent = (
    Attempted | Answered | Recalled | Formed | Delivered | Finished | Committed | Moved | Deleted | Restarted | Struck
    | Reigned | PowerFailed | Stored | Buried | Drained
)  # fmt: skip
EventT = TypeVar("EventT", bound=Event)

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(AnyEvent)


class Journal:
    """The file of one writer."""

    def __init__(self, path: Path, by: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._by = by

    def write(self, kind: type[EventT], **fields: Any) -> EventT:
        """Write an event of now; return it."""
        event = kind(**{"at": time.monotonic(), "by": self._by, **fields})
        os.write(self._file, _encoder.encode(event) + b"\n")
        return event

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


class Follower:
    """Reads what is new in all journals of a directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._positions: dict[Path, int] = {}

    def read(self) -> Iterator[AnyEvent]:
        """Yield the events that were written since the last call; those of one file are in order."""
        for path in sorted(self._directory.glob("*.jsonl")):
            with path.open("rb") as file:
                file.seek(self._positions.get(path, 0))
                text = file.read()
            whole = text.rfind(b"\n") + 1  # the rest is still being written, or its writer was killed
            self._positions[path] = self._positions.get(path, 0) + whole
            for line in text[:whole].splitlines():
                yield _decoder.decode(line)


def read_journals(directory: Path) -> list[AnyEvent]:
    """Return all events of a directory, in order of time."""
    return sorted(Follower(directory).read(), key=lambda event: event.at)


def line_of(event: Event) -> str:
    """Return an event as the line of its journal."""
    return _encoder.encode(event).decode()
