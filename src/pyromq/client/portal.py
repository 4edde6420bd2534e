"""Portal: the background thread on which clients without `async` run, and the methods that wait for it."""

from __future__ import annotations

import asyncio
import atexit
import functools
import logging
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator
from types import TracebackType
from typing import Any, Concatenate, Never, ParamSpec, Protocol, Self, TypeVar

from pyromq.client.lifecycle import ClientLifecycle, ForkGuard
from pyromq.errors import ClientError
from pyromq.remoting.loop import new_loop

logger = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

_EXIT_TIMEOUT = 2.0


class Portal:
    """One background thread with an event loop: `call` runs a coroutine there and returns its result.

    >>> portal = Portal.shared()
    >>> api = portal.call(BrokerApi.connect("127.0.0.1:9876"))
    >>> route = portal.call(api.route("orders"))
    """

    _shared: Portal | None = None

    def __init__(self, loop_factory: Callable[[], asyncio.AbstractEventLoop] = new_loop) -> None:
        self._loop_factory = loop_factory
        self._guard = ForkGuard()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = asyncio.Event()
        self._started = threading.Event()
        # A daemon: a script that ends without closing its clients must not hang.
        self._thread = threading.Thread(target=self._run, name="pyromq portal", daemon=True)
        self._thread.start()
        self._started.wait()
        atexit.register(self.close)

    @classmethod
    def shared(cls) -> Portal:
        """Return the portal of this process, created on first use and again after a fork."""
        # No lock, on purpose: one that another thread holds during a fork would stay locked in the child.
        if cls._shared is None or cls._shared.foreign or cls._shared._loop is None:
            cls._shared = Portal()
        return cls._shared

    @property
    def foreign(self) -> bool:
        """True in a forked child of the process that created the portal: the thread is not there."""
        return self._guard.forked

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the portal's loop and wait for it; an interrupt cancels it."""
        try:
            loop = self._usable_loop()
        except ClientError:
            coroutine.close()
            raise
        future = asyncio.run_coroutine_threadsafe(coroutine, loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def soon(self, callback: Callable[[], object]) -> None:
        """Call a function on the portal's loop soon, without waiting for it."""
        self._usable_loop().call_soon_threadsafe(callback)

    def close(self) -> None:
        """End the thread and cancel all that runs on it; in a forked child do nothing."""
        atexit.unregister(self.close)
        if self.foreign or self._loop is None:
            return
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(_EXIT_TIMEOUT)

    def _usable_loop(self) -> asyncio.AbstractEventLoop:
        self._guard.check()
        if self._loop is None:
            raise ClientError("the background thread of this client was closed")
        if threading.current_thread() is self._thread:
            raise ClientError("a blocking call inside the background loop would wait for itself")
        return self._loop

    def _run(self) -> None:
        """Run the loop until `close`. What ends a program, such as sys.exit() in a user's function, does not end it."""
        with asyncio.Runner(loop_factory=self._loop_factory) as runner:
            while not self._stop.is_set():
                try:
                    runner.run(self._serve())
                except (SystemExit, KeyboardInterrupt) as error:
                    logger.error("%r on the thread that all blocking clients share is ignored", error)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._started.set()
        try:
            await self._stop.wait()
        finally:
            self._loop = None


class Bridge(Protocol):
    """What a blocking client needs of the loop that its async one lives on."""

    @property
    def foreign(self) -> bool: ...

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T: ...

    def soon(self, callback: Callable[[], object]) -> None: ...


class LoopPortal:
    """Lets threads call into the event loop on which this is made, for as long as it runs."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._guard = ForkGuard()

    @property
    def foreign(self) -> bool:
        """True in a forked child."""
        return self._guard.forked

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop and wait for it."""
        if threading.get_ident() == self._thread:
            coroutine.close()
            raise ClientError("a blocking call on the event loop would wait for itself: use the async client")
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def soon(self, callback: Callable[[], object]) -> None:
        """Call a function on the loop soon, without waiting for it."""
        self._loop.call_soon_threadsafe(callback)


class BlockingClient:
    """A client without `async`: the client it wraps lives on the portal's loop."""

    def __init__(self, client: ClientLifecycle[Any], portal: Bridge | None = None) -> None:
        self._portal: Bridge = Portal.shared() if portal is None else portal
        self._client = client

    def start(self) -> None:
        """Open the client; `with` does it for you."""
        self._portal.call(self._client.start())

    def close(self) -> None:
        """Close the client; `with` does it for you. In a forked child do nothing."""
        if not self._portal.foreign:
            self._portal.call(self._client.close())

    def __enter__(self) -> Self:
        self.start()
        return self

    async def __aenter__(self) -> Never:
        raise ClientError("this client is a blocking one: write `with`, or use the one of `pyromq`")

    async def __aexit__(self, *error: object) -> None:
        """Exist, so that `async with` calls __aenter__, which says what to write."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._portal.foreign:
            self._portal.call(self._client.__aexit__(kind, error, trace))


async def on_the_loop(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a plain function, as a coroutine that a portal can run."""
    return function(*args, **kwargs)


def waits(method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[Any, P], T]:
    """Return a blocking method for an async one of `self._client`; its class has `_portal` and `_client`."""

    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        result: T = self._portal.call(getattr(self._client, method.__name__)(*args, **kwargs))
        return result

    functools.update_wrapper(call, method)
    return call


def iterates(
    method: Callable[Concatenate[Any, P], AsyncIterator[T]],
) -> Callable[Concatenate[Any, P], Iterator[T]]:
    """Return a method that yields the items of an async one of `self._client`."""

    def walk(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        items = method(self._client, *args, **kwargs)
        try:
            while True:
                try:
                    yield self._portal.call(_next(items))
                except StopAsyncIteration:
                    return
        finally:
            self._portal.call(_end(items))

    functools.update_wrapper(walk, method)
    return walk


async def _next(items: AsyncIterator[T]) -> T:
    return await anext(items)


async def _end(items: AsyncIterator[object]) -> None:
    if isinstance(items, AsyncGenerator):  # one that is left half-way has to release what it holds
        await items.aclose()
