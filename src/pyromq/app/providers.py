"""Providers: values that functions get by their types, and resources that live as long as the App runs."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Generator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any, get_args, get_origin

from msgspec import Struct

from pyromq.app.signature import Signature, read_hook
from pyromq.errors import ClientError


class State:
    """Anything that the handlers of an App share: `state.cache = {}` in a hook, `state.cache` in a handler."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"the state has no {name!r}: set state.{name} in a function with @app.on_startup")

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)


class _Factory(Struct, frozen=True):
    kind: Any
    signature: Signature
    is_generator: bool


class Providers:
    """What is given by type."""

    def __init__(self, built_in: Sequence[Any]) -> None:
        self._built_in = built_in  # types whose values the session gives, such as the producer
        self._values: dict[Any, Any] = {}
        self._factories: list[_Factory] = []

    @property
    def kinds(self) -> list[Any]:
        """All types of which there is a value."""
        return [*self._built_in, *self._values, *(factory.kind for factory in self._factories)]

    def add_value(self, value: Any, kind: Any = None) -> None:
        """Give this value to parameters of its type, or of `kind`."""
        self._check_new(kind or type(value))
        self._values[kind or type(value)] = value

    def add_factory(self, function: Any, names: Mapping[str, Any]) -> None:
        """Give what a function returns, or yields, to parameters of the type that it is annotated with."""
        signature = read_hook(function, self.kinds, names)
        is_generator = inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)
        kind = signature.returns
        if is_generator and get_origin(kind) in (AsyncIterator, Iterator, Generator) and get_args(kind):
            kind = get_args(kind)[0]
        if kind in (inspect.Parameter.empty, None, type(None)):
            raise ClientError(f"{signature.name}: say what it makes: `def {signature.name}() -> Database`")
        self._check_new(kind)
        self._factories.append(_Factory(kind, signature, is_generator))

    def _check_new(self, kind: Any) -> None:
        if kind in self.kinds:
            raise ClientError(f"there is a value of type {getattr(kind, '__name__', kind)} already")

    async def open(
        self, built_in: Mapping[Any, Any], replaced: Mapping[Any, Any], stack: AsyncExitStack
    ) -> dict[Any, Any]:
        """Make all values, but those that are replaced; the stack closes what was opened."""
        found = {**built_in, **self._values, **replaced}
        for factory in self._factories:
            if factory.kind not in replaced:
                found[factory.kind] = await _made(factory, found, stack)
        return found


async def _made(factory: _Factory, found: Mapping[Any, Any], stack: AsyncExitStack) -> Any:
    signature = factory.signature
    arguments = {name: found[kind] for name, kind in signature.values.items()}
    if factory.is_generator:
        if inspect.isasyncgenfunction(signature.function):
            return await stack.enter_async_context(asynccontextmanager(signature.function)(**arguments))
        return stack.enter_context(contextmanager(signature.function)(**arguments))
    made = signature.function(**arguments)
    return await made if inspect.isawaitable(made) else made
