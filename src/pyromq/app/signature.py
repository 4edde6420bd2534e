"""Signatures: what the parameters of a function ask for, by their types."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any, get_args, get_type_hints

from msgspec import Struct

from pyromq.client.send.producer import Producer
from pyromq.errors import ClientError
from pyromq.protocol.messages.message import MessageExt

_FORM = "write `async def bill(order: Order) -> None`"
_PLAIN_FORM = "take pyromq.blocking.Producer, or write `async def`"


class Signature(Struct, frozen=True):
    """What a function is given."""

    function: Callable[..., Any]
    name: str
    is_async: bool
    values: dict[str, Any]
    """Parameters that get a value by its type."""
    messages: tuple[str, ...] = ()
    """Parameters that get the message, or a list of messages."""
    payload: str | None = None
    """The parameter that gets the decoded body."""
    kind: Any = None
    """The payload's type."""
    returns: Any = inspect.Parameter.empty
    in_batches: bool = False
    """It takes a list of messages."""

    @property
    def where(self) -> str:
        """Where the function is, for people."""
        code = getattr(self.function, "__code__", None)
        return f"{code.co_filename}:{code.co_firstlineno}" if code else self.name


def read_hook(function: Any, known: Collection[Any], names: Mapping[str, Any]) -> Signature:
    """Return what a hook or a factory asks for; raises ClientError if a parameter has no value."""
    hints = _checked_hints(function, names)
    for parameter, kind in hints.parameters.items():
        if kind not in known:
            raise ClientError(
                f"{hints.name}({parameter}: {_text(kind)}): nothing of this type is given; {_provide(kind)}"
            )
    _check_producer(hints)
    return Signature(function, hints.name, hints.is_async, hints.parameters, returns=hints.returns)


def read_handler(function: Any, known: Collection[Any], names: Mapping[str, Any], *, batches: bool) -> Signature:
    """Return what a handler asks for; raises ClientError, with the right form, if it could never be called."""
    hints = _checked_hints(function, names)
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ClientError(f"{hints.name} has a `yield`, so calling it would run nothing of it: {_FORM}")
    given = {name: kind for name, kind in hints.parameters.items() if kind in known}
    messages = tuple(name for name, kind in hints.parameters.items() if kind in (MessageExt, list[MessageExt]))
    rest = {name: kind for name, kind in hints.parameters.items() if name not in given and name not in messages}
    _check_producer(hints)
    in_batches = any(hints.parameters[name] is not MessageExt for name in messages)
    _check_batches(hints, messages, rest, batches=batches, in_batches=in_batches)
    if len(rest) > 1:
        raise ClientError(_too_many(hints.name, rest))
    if not rest and not messages:
        raise ClientError(f"{hints.name}() takes neither a payload nor the message: {_FORM}")
    payload, kind = next(iter(rest.items()), (None, None))
    return Signature(
        function, hints.name, hints.is_async, given, messages, payload, kind, hints.returns, in_batches=in_batches
    )


def _check_batches(
    hints: _Hints, messages: Collection[str], rest: Mapping[str, Any], *, batches: bool, in_batches: bool
) -> None:
    if batches and not in_batches:
        raise ClientError(
            f"batch_size needs a handler of batches: `async def {hints.name}(messages: list[MessageExt])`"
        )
    if in_batches and (rest or len(messages) > 1):
        # One body that cannot be decoded would decide about all messages of its batch.
        first = next(iter(rest or messages))
        raise ClientError(
            f"{hints.name} takes batches, so {first!r} cannot be given: decode each with app.decode(message, Order)"
        )


class _Hints(Struct, frozen=True):
    name: str
    is_async: bool
    parameters: dict[str, Any]
    returns: Any


def _checked_hints(function: Any, names: Mapping[str, Any]) -> _Hints:
    if not callable(function) or inspect.isclass(function):
        raise ClientError(f"a handler is a function, not {function!r:.80}: {_FORM}")
    name = getattr(function, "__name__", type(function).__name__)
    call = function if inspect.isroutine(function) else type(function).__call__
    try:
        hints = get_type_hints(call, localns=dict(names), include_extras=False)
    except NameError as error:
        raise ClientError(f"{name}: the type {error.name!r} in its signature is not known here; import it") from None
    except TypeError as error:
        raise ClientError(f"{name}: its signature cannot be read: {error}") from None
    parameters = {}
    for each in inspect.signature(function).parameters.values():
        if each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD, each.POSITIONAL_ONLY):
            raise ClientError(f"{name}: the parameter {each} cannot be given; parameters are given by name: {_FORM}")
        if each.name not in hints:
            if each.default is not each.empty:
                continue  # its default serves
            raise ClientError(f"{name}: say what {each.name!r} is, such as `{each.name}: dict`, `bytes` or MessageExt")
        parameters[each.name] = hints[each.name]
    returns = hints.get("return", inspect.Parameter.empty)
    return _Hints(name, inspect.iscoroutinefunction(call), parameters, returns)


def _check_producer(hints: _Hints) -> None:
    if not hints.is_async and Producer in hints.parameters.values():
        raise ClientError(f"{hints.name} is a plain function, which cannot await a Producer: {_PLAIN_FORM}")


def _too_many(name: str, rest: Mapping[str, Any]) -> str:
    shown = ", ".join(f"{parameter}: {_text(kind)}" for parameter, kind in rest.items())
    last = list(rest.values())[-1]
    return f"{name}({shown}): one of them is the payload, and nothing is known of the others; {_provide(last)}"


def _provide(kind: Any) -> str:
    return f"register it before this line: app.provide(a_{_text(kind).rpartition('.')[2].lower()})"


def _text(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type) and not get_args(kind) else str(kind)
