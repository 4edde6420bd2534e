"""Listeners: the user's function, async or not, for one message or for batches, as its signature says."""

from __future__ import annotations

import functools
import inspect
import re
from collections import abc, deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, get_args, get_origin, get_type_hints

from pyromq.client.listener.listener_threads import ListenerThreads
from pyromq.errors import ClientError
from pyromq.protocol.messages.message import MessageExt

Listener = Callable[[MessageExt], object] | Callable[[list[MessageExt]], object]
"""Takes a message, or a list of messages if it is annotated so; may be a coroutine function."""

ListenerCall = Callable[[list[MessageExt]], Awaitable[object]]

_FORM = "write `async def listen(message: MessageExt) -> None`, or `messages: list[MessageExt]` for batches"
_SCALARS = (str, bytes, bytearray, memoryview, int, float, bool)
_CONTAINERS = (
    tuple, set, frozenset, dict, deque, abc.Iterable, abc.Iterator, abc.AsyncIterable, abc.AsyncIterator,
    abc.Collection, abc.MutableSequence, abc.Set, abc.Mapping, abc.Generator,
)  # fmt: skip
_LIST_TEXT = re.compile(r"(?:\w+\.)*(?:list|List|Sequence)(?P<element>\[|$)")


def check_listener(listener: Listener | None) -> Listener:
    """Return the listener; raise ClientError, with the right form, if it could never do its work."""
    if listener is None or not callable(listener):
        raise ClientError(f"a PushConsumer needs a listener, a function that takes a message: {_FORM}")
    name = getattr(listener, "__qualname__", repr(listener))
    if inspect.isclass(listener):
        raise ClientError(f"the listener {name} is a class, whose call only makes an object: pass an object of it")
    function = _function(listener)
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ClientError(f"the listener {name} has a `yield`, so calling it would run nothing of it: {_FORM}")
    try:
        signature = inspect.signature(listener)
    except (TypeError, ValueError):  # a built-in function
        return listener
    try:
        signature.bind(None)
    except TypeError:
        form = f"{name}({', '.join(signature.parameters)})"
        raise ClientError(f"the listener {form} must take the message as its one argument: {_FORM}") from None
    annotation = _hint(listener, next(iter(signature.parameters.values())))
    if _is_wrong(annotation):
        raise ClientError(f"the listener {name} gets a MessageExt, or a list of them, not {_text(annotation)}: {_FORM}")
    return listener


def _is_wrong(annotation: Any) -> bool:
    if isinstance(annotation, str):  # a name that its module does not define
        found = _LIST_TEXT.match(annotation)
        return found is not None and not found["element"]
    kind = get_origin(annotation) or annotation
    if kind in (list, Sequence):
        elements = get_args(annotation)
        return not elements or elements[0] in _SCALARS or (get_origin(elements[0]) or elements[0]) in _CONTAINERS
    return kind in _SCALARS or kind in _CONTAINERS


def _text(annotation: Any) -> str:
    return annotation.__name__ if isinstance(annotation, type) and not get_args(annotation) else str(annotation)


def _function(listener: Any) -> Any:
    """Return the function that a call of the listener runs."""
    while isinstance(listener, functools.partial):
        listener = listener.func
    return listener if inspect.isroutine(listener) else type(listener).__call__


def takes_batches(listener: Listener) -> bool:
    """Return True if the first parameter of the listener is annotated as a list of messages."""
    try:
        parameters = list(inspect.signature(listener).parameters.values())
    except (TypeError, ValueError):  # a built-in function
        return False
    annotation = _hint(listener, parameters[0]) if parameters else None
    if isinstance(annotation, str):  # a name that its module does not define
        return _LIST_TEXT.match(annotation) is not None
    return get_origin(annotation) in (list, Sequence)


def _hint(listener: object, parameter: inspect.Parameter) -> Any:
    try:
        return get_type_hints(_function(listener)).get(parameter.name, parameter.annotation)
    except (NameError, TypeError, AttributeError):
        return parameter.annotation


def is_async(listener: Listener) -> bool:
    """Return True if the listener is a coroutine function."""
    return inspect.iscoroutinefunction(listener) or inspect.iscoroutinefunction(type(listener).__call__)


def bind(
    listener: Listener,
    threads: ListenerThreads,
    ended: Callable[[], None] = lambda: None,
    around: Callable[[Callable[[Any], Any]], Callable[[Any], Any]] = lambda function: function,
) -> ListenerCall:
    """Return a coroutine function that calls the listener: on the loop if it is async, otherwise on a thread.

    `ended` is called after each call on a thread has returned, also if it was cancelled before. `around` wraps what
    runs on a thread.
    """
    function: Callable[[Any], Any] = listener
    batches = takes_batches(listener)
    if is_async(listener):
        return function if batches else lambda messages: function(messages[0])
    function = around(function)
    if batches:
        return lambda messages: _awaited(threads.run(function, messages, ended))
    return lambda messages: _awaited(threads.run(function, messages[0], ended))


async def _awaited(call: Awaitable[object]) -> object:
    returned = await call
    return await returned if inspect.isawaitable(returned) else returned  # such as `lambda message: handle(message)`
