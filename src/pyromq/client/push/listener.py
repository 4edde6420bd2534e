"""The user's function: async or plain, for one message or for batches, as its signature says."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, get_origin, get_type_hints

from pyromq.client.push.listener_threads import ListenerThreads
from pyromq.errors import ClientError
from pyromq.protocol.messages.message import MessageExt

Listener = Callable[[MessageExt], object] | Callable[[list[MessageExt]], object]
"""Takes a message, or a list of them if it is annotated so; may be a coroutine function."""

ListenerCall = Callable[[list[MessageExt]], Awaitable[object]]


def takes_batches(listener: Listener) -> bool:
    """Tell whether the listener's first parameter is annotated as a list of messages."""
    try:
        parameters = list(inspect.signature(listener).parameters.values())
    except (TypeError, ValueError):  # something built in
        return False
    if not parameters:
        raise ClientError("a listener takes the message as its argument")
    annotation = _hint(listener, parameters[0])
    if isinstance(annotation, str):  # a name that is not known where the function was written
        return annotation.replace("typing.", "").startswith(("list[", "List[", "Sequence["))
    return get_origin(annotation) in (list, Sequence)


def _hint(listener: Listener, parameter: inspect.Parameter) -> Any:
    function = listener if inspect.isroutine(listener) else getattr(listener, "func", type(listener).__call__)
    try:
        return get_type_hints(function).get(parameter.name, parameter.annotation)
    except (NameError, TypeError, AttributeError):
        return parameter.annotation


def is_async(listener: Listener) -> bool:
    """Tell whether calling the listener gives something to await."""
    return inspect.iscoroutinefunction(listener) or inspect.iscoroutinefunction(type(listener).__call__)


def bind(listener: Listener, threads: ListenerThreads) -> ListenerCall:
    """Return how to call the listener with some messages: on the loop if it is async, else on a thread."""
    function: Callable[[Any], Any] = listener
    batches = takes_batches(listener)
    if is_async(listener):
        return function if batches else lambda messages: function(messages[0])
    if batches:
        return lambda messages: _on_a_thread(function, messages, threads)
    return lambda messages: _on_a_thread(function, messages[0], threads)


async def _on_a_thread(function: Callable[[Any], Any], argument: object, threads: ListenerThreads) -> object:
    returned = await threads.run(function, argument)
    return await returned if inspect.isawaitable(returned) else returned  # such as `lambda message: handle(message)`
