"""The table of the requests that a server answers: one row for each code, and whatever is decided by code.

    code → header type, handler, right needed, whether it writes, what it costs, how large its body may be, whether it
           reads messages, what it changes

A row names its handler as a function of a class (`SendHandler.send`). A server binds the table to the objects that it
has built: `handlers()` returns the bound methods by code, for dispatch to find with one lookup. Everything else reads
the same rows: which codes a server without a writing side refuses, which ones its fast port leaves out, who may ask,
which requests the access log has, and by which name a code is counted. To answer a new code, add one row.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Iterable, Iterator, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any, TypeAlias

from msgspec import Struct

from pyromq.errors import BrokerError
from pyromq.protocol.command import RemotingCommand
from pyromq.protocol.headers import Header
from pyromq.protocol.rights import Right
from pyromq.remoting.connection import Connection

Answer: TypeAlias = bytes | RemotingCommand | None
"""An encoded frame, a command to encode, or None: the answer comes later by `Connection.send`, or never."""

HandlerResult: TypeAlias = Answer | Coroutine[Any, Any, Answer] | Generator[None, None, Answer]
"""An answer, or what yields one later: a coroutine runs as a task, a generator in slices (slices.py)."""

Handler: TypeAlias = Callable[[RemotingCommand, Connection], HandlerResult]
"""Answers one request or raises. One-way requests get no answer."""

MAX_BODY = 16 * 1024
"""Bytes of a body that can be read at once, in whatever dialect of JSON it is written."""

_NONE: Mapping[int, tuple[str, int]] = MappingProxyType({})


class Cost(Enum):
    """What serving a request takes, at worst."""

    LIGHT = "memory, and a few reads at most: it is answered at once"
    SEND = "a message for the log: its answer leaves with the group that is written"
    PULL = "megabytes of messages, or a long wait; never on a port that must stay quick"
    HEAVY = "many reads, a thread, or other servers"


class RequestRow(Struct, frozen=True):
    """One request code, and all that is decided by it."""

    code: int
    header: type[Header] | None
    """What its ext fields are read as; None if it has none."""
    handler: Callable[..., Any] | None
    """A method of the class that answers, not bound to an object yet; None if the code is known and not answered."""
    right: Right
    writes: bool = False
    """Whether it changes what is stored: a server that only reads refuses it."""
    cost: Cost = Cost.LIGHT
    max_body: int = MAX_BODY
    """Bytes of its body; a longer one is refused unread. Messages and pulls have limits of their own."""
    reads: bool = False
    """Whether it reads messages, which may be on the disk only. Such a handler is no coroutine, and changes nothing
    before its last read: it runs again from the beginning once the bytes are in memory."""
    changes: str = ""
    """What it changes, if operators want to know who did that: `topics`, `offsets` … See access_log.py."""
    state: Callable[..., Any] | None = None
    """A method, of any class that answers, which returns what it changes as it is now: the audit log has that as it was
    before and after a request."""

    @property
    def owner(self) -> str:
        """The name of the class whose method answers."""
        return self.handler.__qualname__.rpartition(".")[0] if self.handler else ""


class RequestTable:
    """All rows of a server, by code."""

    def __init__(self, rows: Iterable[RequestRow]) -> None:
        """Take the rows; raise ValueError if a code has two."""
        self._rows: dict[int, RequestRow] = {}
        for row in rows:
            if row.code in self._rows:
                raise ValueError(f"request code {row.code} has two rows")
            self._rows[row.code] = row

    def __iter__(self) -> Iterator[RequestRow]:
        return iter(self._rows.values())

    def __len__(self) -> int:
        return len(self._rows)

    def get(self, code: int) -> RequestRow | None:
        """Return the row of a code; None if it has none."""
        return self._rows.get(code)

    def right_of(self, code: int) -> Right:
        """Return what an account needs for a code; one without a row needs admin."""
        row = self._rows.get(code)
        return Right.ADMIN if row is None else row.right

    def codes(self, wanted: Callable[[RequestRow], bool]) -> list[int]:
        """Return the codes of the wanted rows."""
        return [row.code for row in self if wanted(row)]

    def handlers(self, *owners: object, max_bodies: Mapping[int, tuple[str, int]] = _NONE) -> dict[int, Handler]:
        """Return, by code, the methods of these objects; a row whose class is not among them is left out.

        `max_bodies` has the key and the value of limits that were configured, by code.
        """
        by_class = {type(owner).__qualname__: owner for owner in owners}
        return {
            row.code: _limited(
                row, getattr(by_class[row.owner], row.handler.__name__), *max_bodies.get(row.code, ("", row.max_body))
            )
            for row in self
            if row.handler is not None and row.owner in by_class
        }

    def states(self, *owners: object) -> dict[int, Callable[[RemotingCommand], object]]:
        """Return, by code, the methods of these objects that show what a request changes."""
        by_class = {type(owner).__qualname__: owner for owner in owners}
        named = ((row.code, row.state, row.state.__qualname__.rpartition(".")[0]) for row in self if row.state)
        return {code: getattr(by_class[owner], state.__name__) for code, state, owner in named if owner in by_class}


def _limited(row: RequestRow, handler: Handler, key: str, limit: int) -> Handler:
    """Return a handler that refuses a body over its limit."""
    if row.cost in (Cost.SEND, Cost.PULL):
        return handler
    code = row.code

    def limited(request: RemotingCommand, connection: Connection) -> HandlerResult:
        if len(request.body) > limit:
            text = f"request {code} has a body of {len(request.body)} bytes, the limit is {limit}"
            raise BrokerError(f"{text} ({key})" if key else text, limit=key or "body")
        return handler(request, connection)

    return limited
