"""What a handler's signature asks for beside the message: a connection, a session, or nothing."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from enum import Enum
from typing import Any, get_type_hints

from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
from sqlalchemy.orm import Session

from pyromq.client.listener.listener import is_async, takes_batches
from pyromq.errors import ClientError

Handler = Callable[..., Any]


class Wants(Enum):
    """What a handler is given to write with."""

    NOTHING = "nothing"
    CONNECTION = "connection"
    SESSION = "session"


_KINDS = {
    Connection: Wants.CONNECTION,
    AsyncConnection: Wants.CONNECTION,
    Session: Wants.SESSION,
    AsyncSession: Wants.SESSION,
}
_ASYNC_KINDS = (AsyncConnection, AsyncSession)


def check_handler(handler: Handler, *, engine_is_async: bool) -> Wants:
    """Return what a handler wants; raise ClientError, with the right form, if it cannot work with the engine."""
    name = getattr(handler, "__qualname__", repr(handler))
    form = (
        "async def handle(message: MessageExt, connection: AsyncConnection)"
        if engine_is_async
        else "def handle(message: MessageExt, connection: Connection)"
    )
    if takes_batches(handler):
        raise ClientError(f"the handler {name} takes a batch, of which a part cannot be handled once: write `{form}`")
    if is_async(handler) != engine_is_async:
        kind = "an AsyncEngine" if engine_is_async else "an Engine, which would hold up the event loop"
        raise ClientError(f"the handler {name} does not go with {kind}: write `{form}`")
    parameters = list(inspect.signature(handler).parameters.values())
    if not 1 <= len(parameters) <= 2:
        raise ClientError(f"the handler {name} must take a message and a connection: write `{form}`")
    if len(parameters) == 1:
        return Wants.NOTHING
    return _wanted(name, _hint(handler, parameters[1]), form, engine_is_async=engine_is_async)


def _wanted(name: str, hint: object, form: str, *, engine_is_async: bool) -> Wants:
    if hint is inspect.Parameter.empty:
        return Wants.CONNECTION
    for kind, wants in _KINDS.items():
        if isinstance(hint, type) and issubclass(hint, kind) and (kind in _ASYNC_KINDS) == engine_is_async:
            return wants
    raise ClientError(f"the handler {name} gets no {getattr(hint, '__name__', hint)}: write `{form}`, or a session")


def _hint(handler: Handler, parameter: inspect.Parameter) -> object:
    try:
        return get_type_hints(handler).get(parameter.name, parameter.annotation)
    except (NameError, TypeError, AttributeError):  # names that its module imports for type checkers only
        return inspect.Parameter.empty
