"""The access log: one line for each request that changes what operators look after.

    change subject=topics request=UPDATE_AND_CREATE_TOPIC result=SUCCESS account=- from=10.0.0.7:40112 at=…

and an entry in the audit log of the server (audit_trail.py), which also has what was there before and after it.

A row of the table of requests says what it `changes`; requests that change nothing, and the messages and commits of
applications, are not logged. The line is written when the request has its answer, whether it was obeyed or refused.
The account is the one that the request names: access control checks it, where there is any.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Callable, Coroutine, Generator, Mapping
from itertools import islice
from types import MappingProxyType
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from pyromq.errors import BrokerError, ProtocolError
from pyromq.protocol.acl import ACCESS_KEY, CODE, NONCE, SECURITY_TOKEN, SIGNATURE, TIME
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import RemotingCommand
from pyromq.protocol.unreadable import UNREADABLE
from pyromq.remoting.audit.audit_trail import AuditTrail
from pyromq.remoting.connection import Connection
from pyromq.remoting.requests import Answer, Handler, HandlerResult, RequestTable

logger = logging.getLogger("pyromq.access")

LONGEST_VALUE: Final = 200
MOST_DETAILS: Final = 30
LARGEST_BODY: Final = 16 * 1024
"""Bytes of a body that are looked at: what an operator changes is smaller, and the loop waits for this."""
UNFINISHED: Final = "UNFINISHED"
"""The result of a request that was given up when the server stopped."""

_NOT_SHOWN: Final = frozenset({ACCESS_KEY, SIGNATURE, SECURITY_TOKEN, CODE, NONCE, TIME})
_SECRET: Final = re.compile(r"secret|password|passwd|token", re.IGNORECASE)
_FREE_TEXT: Final = "value"  # of a KV setting: it may be anything, so only its length is logged
_PLAIN: Final = re.compile(r"[\w.%:;/@+\-\[\]*|#,]+")


State = Callable[[RemotingCommand], object]
"""Returns what a request changes as it is now, ready for JSON; None if it does not exist."""

LARGEST_STATE: Final = 16 * 1024
"""Bytes of what was there before or after; of more, only the size is kept."""


class AccessLog:
    """Makes handlers that log what they did.

    `not_yet` is what a handler raises that will run again from the beginning: it has done nothing. `states` has, by
    code, what shows the state before and after a request; it may grow while handlers are made.
    """

    def __init__(
        self,
        table: RequestTable,
        not_yet: type[Exception] | tuple[type[Exception], ...] = (),
        *,
        trail: AuditTrail | None = None,
        states: Mapping[int, State] = MappingProxyType({}),
    ) -> None:
        self._changes = {row.code: row.changes for row in table if row.changes}
        self._not_yet = not_yet
        self._trail = trail
        self._states = states

    def logged(self, code: int, handler: Handler) -> Handler:
        """Return the handler of a code with a line for each request; the handler itself if it changes nothing."""
        changes = self._changes.get(code)
        if changes is None:
            return handler
        not_yet = self._not_yet

        def serve(request: RemotingCommand, connection: Connection) -> HandlerResult:
            change = Change(changes, request, connection, self._states.get(code), self._trail)
            try:
                answer = handler(request, connection)
            except not_yet:
                raise
            except Exception as error:
                change.note(error)
                raise
            if answer is None:
                return None  # it is held, and comes again
            if isinstance(answer, (bytes, RemotingCommand)):
                change.note(answer)
                return answer
            return _all_steps(answer, change) if isinstance(answer, Generator) else _finish(answer, change)

        return serve

    def refused(self, request: RemotingCommand, connection: Connection, error: BrokerError) -> None:
        """Log a change that was refused before its handler ran; nobody reads the body of a stranger."""
        changes = self._changes.get(request.code)
        if changes is not None:
            Change(changes, replace(request, body=b""), connection, None, self._trail).note(error)

    def started(self, changes: str, request: RemotingCommand, connection: Connection, state: State) -> Change:
        """Return a change that a handler notes by itself: only it can tell that its request is one."""
        return Change(changes, request, connection, state, self._trail)

    def all_logged(self, handlers: Mapping[int, Handler]) -> dict[int, Handler]:
        """Return handlers by code, each with its log."""
        return {code: self.logged(code, handler) for code, handler in handlers.items()}


def _all_steps(steps: Generator[None, None, Answer], change: Change) -> Generator[None, None, Answer]:
    try:
        answer = yield from steps
    except Exception as error:
        change.note(error)
        raise
    change.note(answer)
    return answer


async def _finish(work: Coroutine[Any, Any, Answer], change: Change) -> Answer:
    try:
        answer = await work
    except (Exception, asyncio.CancelledError) as error:
        change.note(error)
        raise
    change.note(answer)
    return answer


class Change:
    """A request that changes something, from its arrival to its answer."""

    __slots__ = ("_before", "_changes", "_connection", "_request", "_state", "_trail")

    def __init__(
        self,
        changes: str,
        request: RemotingCommand,
        connection: Connection,
        state: State | None,
        trail: AuditTrail | None,
    ) -> None:
        self._changes = changes
        self._request = request
        self._connection = connection
        self._state = state if trail is not None else None
        self._trail = trail
        self._before = self._look()

    def note(self, outcome: Answer | BaseException) -> None:
        """Log the request, and what became of it."""
        result, reason = _result(outcome)
        fields = {
            "subject": self._changes,
            "request": _name(RequestCode, self._request.code),
            "result": result,
            "account": _short(self._request.ext_fields.get(ACCESS_KEY) or "-"),
            "from": self._connection.peer,
            "at": self._connection.local,
        }
        if reason:
            fields["reason"] = _short(reason)
        details = _details(self._request)
        line = " ".join(f"{key}={_quoted(value)}" for key, value in (*fields.items(), *details.items()))
        happened = result == ResponseCode.SUCCESS.name
        logger.log(
            logging.INFO if happened else logging.WARNING,
            "change %s" if happened else "change refused %s",
            line,
            extra={"access": {**fields, "details": details}, "never_left_out": happened},
        )
        if self._trail is not None:
            entry = {**fields, "details": details, "before": self._before, "after": self._look()}
            self._trail.write(entry, has_happened=happened)

    def _look(self) -> object:
        """Return what the request changes as it is now; a request that cannot be read has changed nothing."""
        if self._state is None or len(self._request.body) > LARGEST_BODY:
            return None
        try:
            state = msgspec.to_builtins(self._state(self._request), str_keys=True)
        except (BrokerError, ProtocolError):
            return None
        size = len(msgspec.json.encode(state))
        return state if size <= LARGEST_STATE else f"({size} bytes)"


def _result(outcome: Answer | BaseException) -> tuple[str, str]:
    match outcome:
        case RemotingCommand():
            return _name(ResponseCode, outcome.code), outcome.remark or ""
        case BrokerError():
            return _name(ResponseCode, outcome.code), outcome.remark
        case asyncio.CancelledError():
            return UNFINISHED, ""
        case BaseException():
            return ResponseCode.SYSTEM_ERROR.name, f"{type(outcome).__name__}: {outcome}"
    return ResponseCode.SUCCESS.name, ""


def _name(codes: type[RequestCode] | type[ResponseCode], code: int) -> str:
    try:
        return codes(code).name
    except ValueError:
        return str(code)


def _details(request: RemotingCommand) -> dict[str, str]:
    """Return what the request says, as far as it fits, without secrets."""
    told = {key: value for key, value in request.ext_fields.items() if key not in _NOT_SHOWN}
    told |= _in_body(request.body)
    return {key: _shown(key, value) for key, value in ((_short(key), told[key]) for key in islice(told, MOST_DETAILS))}


def _in_body(body: bytes) -> dict[str, str]:
    """Return the fields of a JSON object, or the lines `key=value`."""
    if not body:
        return {}
    if len(body) > LARGEST_BODY:
        return {"body": f"({len(body)} bytes)"}
    try:
        text = body.decode()
        if text.lstrip().startswith("{"):
            values = msgspec.json.decode(body, type=dict[str, Any])
            return {key: _as_text(value) for key, value in values.items()}
    except UNREADABLE:
        return {"body": f"({len(body)} bytes)"}
    pairs = (line.partition("=") for line in text.splitlines() if line.strip())
    return {key.strip(): value.strip() for key, _, value in pairs}


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _shown(key: str, value: str) -> str:
    if _SECRET.search(key):
        return "******"
    return f"({len(value)} characters)" if key == _FREE_TEXT else _short(value)


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_VALUE else f"{text[:LONGEST_VALUE]}…"


def _quoted(value: str) -> str:
    """Return a value that cannot be taken for another field."""
    return value if _PLAIN.fullmatch(value) else json.dumps(value, ensure_ascii=False)
