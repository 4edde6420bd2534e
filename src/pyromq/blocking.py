"""The client without `async`: the same names, for scripts, threads and Spark workers.

>>> from pyromq import Message, blocking
>>> with blocking.Producer(group="shop", namesrv="127.0.0.1:9876") as producer:
...     producer.send(Message(topic="orders", body=b"..."))

One background thread with an event loop serves all clients of a process. A process that forks must make new clients in
the child: the old ones raise ClientError there.
"""

from __future__ import annotations

import asyncio
import atexit
import functools
import os
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, Unpack

from pyromq.client import producer as producer_module
from pyromq.client import pull_consumer as pull_consumer_module
from pyromq.client import push_consumer as push_consumer_module
from pyromq.client import transaction_producer as transaction_module
from pyromq.client.address import DEFAULT_NAMESRV
from pyromq.client.blocked import BlockedQueue
from pyromq.client.config import LitePullConsumerOptions, ProducerOptions, PushConsumerOptions
from pyromq.client.listener import Listener
from pyromq.client.local_transactions import Judge
from pyromq.client.subscriptions import Expression
from pyromq.errors import ClientError
from pyromq.protocol.message import MessageExt, MessageQueue
from pyromq.remoting.loop import run

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

    def __init__(self) -> None:
        self._process = os.getpid()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event
        self._started = threading.Event()
        # A daemon: a script that ends without closing its clients must not hang.
        self._thread = threading.Thread(target=run, args=(self._serve(),), name="pyromq portal", daemon=True)
        self._thread.start()
        self._started.wait()
        atexit.register(self.close)

    @classmethod
    def shared(cls) -> Portal:
        """Return the portal of this process, made on first use and anew after a fork."""
        # Without a lock on purpose: a lock that another thread holds during a fork stays locked in the child for ever.
        if cls._shared is None or cls._shared.foreign or cls._shared._loop is None:
            cls._shared = Portal()
        return cls._shared

    @property
    def foreign(self) -> bool:
        """Whether this process was forked from the one that made the portal, whose thread it does not have."""
        return os.getpid() != self._process

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the portal's loop and wait for it; an interrupt of the wait cancels it."""
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

    def close(self) -> None:
        """End the thread, cancelling what runs there; in a forked child do nothing."""
        atexit.unregister(self.close)
        if self.foreign or self._loop is None:
            return
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(_EXIT_TIMEOUT)

    def _usable_loop(self) -> asyncio.AbstractEventLoop:
        if self.foreign:
            raise ClientError("this client was made before the process forked; make a new one in the child process")
        if self._loop is None:
            raise ClientError("the background thread of this client was closed")
        if threading.current_thread() is self._thread:
            raise ClientError("a blocking call inside the background loop would wait for itself")
        return self._loop

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._started.set()
        try:
            await self._stop.wait()
        finally:
            self._loop = None


async def _on_the_loop(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    return function(*args, **kwargs)


def _waits(method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[Any, P], T]:
    """Return the method that waits for this one of the wrapped client."""

    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        result: T = self._portal.call(method(self._client, *args, **kwargs))
        return result

    functools.update_wrapper(call, method)
    return call


class _Client:
    """What the clients here share: a portal, a wrapped client, and opening and closing it."""

    _client: producer_module.Producer | pull_consumer_module.LitePullConsumer | push_consumer_module.PushConsumer

    def __init__(self) -> None:
        self._portal = Portal.shared()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._portal.foreign:
            self._portal.call(self._client.__aexit__(kind, error, trace))

    def start(self) -> None:
        """Open the client; `with` does it for you."""
        self._portal.call(self._client.start())

    def close(self) -> None:
        """Close the client; `with` does it for you. In a forked child do nothing."""
        if not self._portal.foreign:
            self._portal.call(self._client.close())

    @property
    def client_id(self) -> str:
        """The id by which brokers know this client."""
        return self._portal.call(_on_the_loop(lambda: self._client.client_id))


class Producer(_Client):
    """Sends messages; `pyromq.Producer` without `await`, safe to use from any number of threads."""

    _client: producer_module.Producer

    def __init__(
        self, group: str, namesrv: str | Sequence[str] = DEFAULT_NAMESRV, **options: Unpack[ProducerOptions]
    ) -> None:
        super().__init__()
        self._client = producer_module.Producer(group, namesrv, **options)
        self.group = self._client.group

    send = _waits(producer_module.Producer.send)
    cancel = _waits(producer_module.Producer.cancel)
    send_oneway = _waits(producer_module.Producer.send_oneway)
    send_batch = _waits(producer_module.Producer.send_batch)
    request = _waits(producer_module.Producer.request)
    find = _waits(producer_module.Producer.find)
    queues = _waits(producer_module.Producer.queues)


class TransactionProducer(Producer):
    """Sends messages together with local transactions; `pyromq.TransactionProducer` without `await`.

    >>> def pay(message: MessageExt) -> TransactionState: ...
    >>> with TransactionProducer("payers", "127.0.0.1:9876", check=was_paid) as producer:
    ...     producer.send_in_transaction(Message(topic="payments", body=b"...", keys=["o-1"]), pay)

    Plain functions run on threads and may use the other clients of this module.
    """

    _client: transaction_module.TransactionProducer

    def __init__(
        self,
        group: str,
        namesrv: str | Sequence[str] = DEFAULT_NAMESRV,
        *,
        check: Judge,
        **options: Unpack[ProducerOptions],
    ) -> None:
        _Client.__init__(self)
        self._client = transaction_module.TransactionProducer(group, namesrv, check=check, **options)
        self.group = self._client.group

    send_in_transaction = _waits(transaction_module.TransactionProducer.send_in_transaction)


class PushConsumer(_Client):
    """Calls a listener with every message; `pyromq.PushConsumer` without `await`.

    >>> def bill(message: MessageExt) -> None: ...
    >>> with PushConsumer("billing", "127.0.0.1:9876", {"orders": "created || paid"}, bill) as consumer:
    ...     consumer.run()

    Plain listeners run on threads and may use the other clients of this module; an async one runs on the background
    thread, where it must not block.
    """

    _client: push_consumer_module.PushConsumer

    def __init__(
        self,
        group: str,
        namesrv: str | Sequence[str] = DEFAULT_NAMESRV,
        subscriptions: Mapping[str, Expression] | None = None,
        listener: Listener | None = None,
        **options: Unpack[PushConsumerOptions],
    ) -> None:
        super().__init__()
        self._client = push_consumer_module.PushConsumer(group, namesrv, subscriptions, listener, **options)
        self.group = self._client.group

    run = _waits(push_consumer_module.PushConsumer.run)
    commit = _waits(push_consumer_module.PushConsumer.commit)
    subscribe = _waits(push_consumer_module.PushConsumer.subscribe)
    unsubscribe = _waits(push_consumer_module.PushConsumer.unsubscribe)

    @property
    def assignment(self) -> list[MessageQueue]:
        """The queues that this consumer has now, without those that messages come again from."""
        return self._portal.call(_on_the_loop(lambda: self._client.assignment))

    @property
    def blocked(self) -> list[BlockedQueue]:
        """The queues that do not go on, with `orderly`: each with the message that its listener fails with."""
        return self._portal.call(_on_the_loop(lambda: self._client.blocked))

    def pause(self) -> None:
        """Give the listener nothing more, and pull nothing, until it is resumed; its queues stay its own."""
        self._portal.call(_on_the_loop(self._client.pause))

    def resume(self) -> None:
        """Go on where it was paused."""
        self._portal.call(_on_the_loop(self._client.resume))


class LitePullConsumer(_Client):
    """Reads topics at the caller's pace; `pyromq.LitePullConsumer` without `await`.

    >>> with LitePullConsumer(group="audit", namesrv="127.0.0.1:9876", subscriptions={"orders": "*"}) as consumer:
    ...     for message in consumer:
    ...         print(message.body)

    `poll` is faster than iterating: each call crosses over to the background thread once.
    """

    _client: pull_consumer_module.LitePullConsumer

    def __init__(
        self,
        group: str,
        namesrv: str | Sequence[str] = DEFAULT_NAMESRV,
        subscriptions: Mapping[str, Expression] | None = None,
        **options: Unpack[LitePullConsumerOptions],
    ) -> None:
        super().__init__()
        self._client = pull_consumer_module.LitePullConsumer(group, namesrv, subscriptions, **options)
        self.group = self._client.group

    poll = _waits(pull_consumer_module.LitePullConsumer.poll)
    commit = _waits(pull_consumer_module.LitePullConsumer.commit)
    committed = _waits(pull_consumer_module.LitePullConsumer.committed)
    queues = _waits(pull_consumer_module.LitePullConsumer.queues)
    assign = _waits(pull_consumer_module.LitePullConsumer.assign)
    seek = _waits(pull_consumer_module.LitePullConsumer.seek)
    seek_to_begin = _waits(pull_consumer_module.LitePullConsumer.seek_to_begin)
    seek_to_end = _waits(pull_consumer_module.LitePullConsumer.seek_to_end)
    seek_to_time = _waits(pull_consumer_module.LitePullConsumer.seek_to_time)

    @property
    def assignment(self) -> list[MessageQueue]:
        """The queues that this consumer reads now."""
        return self._portal.call(_on_the_loop(lambda: self._client.assignment))

    def position(self, queue: MessageQueue) -> int | None:
        """Return the offset of the next message to be handed out; None while it is not known where to start."""
        return self._portal.call(_on_the_loop(self._client.position, queue))

    def pause(self, *queues: MessageQueue) -> None:
        """Hand out nothing of these queues, and pull nothing more, until they are resumed."""
        self._portal.call(_on_the_loop(self._client.pause, *queues))

    def resume(self, *queues: MessageQueue) -> None:
        """Go on with paused queues where they were."""
        self._portal.call(_on_the_loop(self._client.resume, *queues))

    def __iter__(self) -> Iterator[MessageExt]:
        return self

    def __next__(self) -> MessageExt:
        try:
            return self._portal.call(self._client.__anext__())
        except StopAsyncIteration:
            raise StopIteration from None
