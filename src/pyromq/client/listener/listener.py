"""Listeners: the user's function, async or not, for one message or for batches, as its signature says."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, get_origin, get_type_hints

from pyromq.client.listener.listener_threads import ListenerThreads
from pyromq.errors import ClientError
from pyromq.protocol.messages.message import MessageExt

Listener = Callable[[MessageExt], object] | Callable[[list[MessageExt]], object]
"""Takes a message, or a list of messages if it is annotated so; may be a coroutine function."""

ListenerCall = Callable[[list[MessageExt]], Awaitable[object]]


def takes_batches(listener: Listener) -> bool:
    """Return True if the first parameter of the listener is annotated as a list of messages."""
    try:
        parameters = list(inspect.signature(listener).parameters.values())
    except (TypeError, ValueError):  # a built-in function
        return False
    if not parameters:
        raise ClientError("a listener must take the message as its argument")
    annotation = _hint(listener, parameters[0])
    if isinstance(annotation, str):  # a name that its module does not define
        return annotation.replace("typing.", "").startswith(("list[", "List[", "Sequence["))
    return get_origin(annotation) in (list, Sequence)


def _hint(listener: Listener, parameter: inspect.Parameter) -> Any:
    function = listener if inspect.isroutine(listener) else getattr(listener, "func", type(listener).__call__)
    try:
        return get_type_hints(function).get(parameter.name, parameter.annotation)
    except (NameError, TypeError, AttributeError):
        return parameter.annotation


def is_async(listener: Listener) -> bool:
    """Return True if the listener is a coroutine function."""
    return inspect.iscoroutinefunction(listener) or inspect.iscoroutinefunction(type(listener).__call__)


def bind(listener: Listener, threads: ListenerThreads, ended: Callable[[], None] = lambda: None) -> ListenerCall:
    """Return a coroutine function that calls the listener: on the loop if it is async, otherwise on a thread.

    `ended` is called after each call on a thread has returned, also if it was cancelled before.
    """
    function: Callable[[Any], Any] = listener
    batches = takes_batches(listener)
    if is_async(listener):
        return function if batches else lambda messages: function(messages[0])
    if batches:
        return lambda messages: _awaited(threads.run(function, messages, ended))
    return lambda messages: _awaited(threads.run(function, messages[0], ended))


async def _awaited(call: Awaitable[object]) -> object:
    returned = await call
    return await returned if inspect.isawaitable(returned) else returned  # such as `lambda message: handle(message)`
