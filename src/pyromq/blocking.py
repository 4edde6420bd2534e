"""The client without `async`: the same names, for scripts, threads and Spark workers.

>>> from pyromq import Message, blocking
>>> with blocking.Producer(group="shop", namesrv="127.0.0.1:9876") as producer:
...     producer.send(Message(topic="orders", body=b"..."))

One background thread with an event loop serves all clients of a process. A process that forks must make new clients in
the child: the old ones raise ClientError there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import nullcontext
from importlib import import_module
from types import TracebackType
from typing import TYPE_CHECKING, Unpack

from pyromq.client.config import ProducerOptions, SendOptions
from pyromq.client.consume.stall_report import BlockedQueue
from pyromq.client.consume.subscriptions import Expression
from pyromq.client.listener.listener import Listener
from pyromq.client.poll import lite_pull_consumer as pull_consumer_module
from pyromq.client.poll.poll_settings import LitePullConsumerOptions
from pyromq.client.portal import BlockingClient, LoopPortal, Portal, on_the_loop, waits
from pyromq.client.push import push_consumer as push_consumer_module
from pyromq.client.push.push_settings import PushConsumerOptions
from pyromq.client.push.termination import on_sigterm
from pyromq.client.send import producer as producer_module
from pyromq.client.send import transaction_producer as transaction_module
from pyromq.client.send.local_transactions import TransactionFunction
from pyromq.client.send.send_soon import SendSoon
from pyromq.client.send.values import MISSING, message_of
from pyromq.client.send_result import SendResult
from pyromq.client.trace.dispatcher import TraceCounts
from pyromq.protocol.messages.message import Message, MessageExt, MessageQueue

if TYPE_CHECKING:
    from pyromq.admin.blocking_client import AdminClient

__all__ = ["AdminClient", "LitePullConsumer", "Portal", "Producer", "PushConsumer", "TransactionProducer"]


def __getattr__(name: str) -> object:
    if name != "AdminClient":  # loaded on first use: Spark workers start often and do not need it
        raise AttributeError(f"module 'pyromq.blocking' has no attribute {name!r}")
    value = globals()[name] = import_module("pyromq.admin.blocking_client").AdminClient
    return value


class _MessagingClient(BlockingClient):
    """A producer or consumer: a client that brokers know by an id."""

    _client: producer_module.Producer | pull_consumer_module.LitePullConsumer | push_consumer_module.PushConsumer

    @property
    def client_id(self) -> str:
        """The id by which brokers know this client."""
        return self._portal.call(on_the_loop(lambda: self._client.client_id))


class Producer(_MessagingClient):
    """Sends messages; `pyromq.Producer` without `await`, safe to use from any number of threads."""

    _client: producer_module.Producer

    def __init__(
        self, group: str, namesrv: str | Sequence[str] | None = None, **options: Unpack[ProducerOptions]
    ) -> None:
        super().__init__(producer_module.Producer(group, namesrv, **options))
        self.group = self._client.group
        self._soon = SendSoon(self._client, self._portal.soon)

    @classmethod
    def around(cls, producer: producer_module.Producer, portal: LoopPortal) -> Producer:
        """Return a face for threads of a producer that lives on another event loop, such as the producer of an App."""
        made = cls.__new__(cls)
        BlockingClient.__init__(made, producer, portal)
        made.group = producer.group
        made._soon = SendSoon(producer, portal.soon)
        return made

    def message(
        self,
        topic: str,
        value: object,
        *,
        tags: str | None = None,
        keys: Sequence[str] | str = (),
        properties: Mapping[str, str] | None = None,
    ) -> Message:
        """Return the Message that `send(topic, value)` sends, such as for `send_batch`; raises PayloadError."""
        return self._client.message(topic, value, tags=tags, keys=keys, properties=properties)

    send = waits(producer_module.Producer.send)

    def send_soon(
        self,
        message: Message | str,
        value: object = MISSING,
        *,
        tags: str | None = None,
        keys: Sequence[str] | str = (),
        properties: Mapping[str, str] | None = None,
        **options: Unpack[SendOptions],
    ) -> Future[SendResult]:
        """Send without waiting: return a future of the result, whose `result()` raises the errors of `send`.

        As fast as the async producer, because many sends travel at a time. The call waits only while 1,024 of them are
        on their way. Sends begin in the order of the calls. `flush` waits for all of them, and so does `with` at its
        end.
        """
        if value is not MISSING or type(message) is not Message or tags is not None or keys or properties:
            message = message_of(self._client.codecs, message, value, tags, keys, properties)
        return self._soon.add(message, options)

    def flush(self, timeout: float | None = None) -> None:
        """Wait until every `send_soon` before this call has ended; the futures have the results.

        Raises TimeoutError if that takes longer than `timeout`.
        """
        self._soon.flush(timeout)

    def close(self) -> None:
        """Wait for the sends that are on their way, and close the producer; `with` does it for you."""
        if not self._portal.foreign:
            self.flush()
        super().close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._portal.foreign:
            self.flush()
        super().__exit__(kind, error, trace)

    cancel = waits(producer_module.Producer.cancel)
    send_oneway = waits(producer_module.Producer.send_oneway)
    send_batch = waits(producer_module.Producer.send_batch)
    request = waits(producer_module.Producer.request)
    find = waits(producer_module.Producer.find)
    queues = waits(producer_module.Producer.queues)

    @property
    def trace_counts(self) -> TraceCounts:
        """How many trace records of this producer were written, dropped and failed."""
        return self._portal.call(on_the_loop(lambda: self._client.trace_counts))


class TransactionProducer(Producer):
    """Sends messages with local transactions; `pyromq.TransactionProducer` without `await`.

    >>> def pay(message: MessageExt) -> TransactionState: ...
    >>> with TransactionProducer("payers", "127.0.0.1:9876", check=was_paid) as producer:
    ...     producer.send_in_transaction(Message(topic="payments", body=b"...", keys=["o-1"]), pay)

    Plain functions run on threads and may use the other clients of this module.
    """

    _client: transaction_module.TransactionProducer

    def __init__(
        self,
        group: str,
        namesrv: str | Sequence[str] | None = None,
        *,
        check: TransactionFunction,
        **options: Unpack[ProducerOptions],
    ) -> None:
        client = transaction_module.TransactionProducer(group, namesrv, check=check, **options)
        BlockingClient.__init__(self, client)
        self.group = self._client.group
        self._soon = SendSoon(self._client, self._portal.soon)

    send_in_transaction = waits(transaction_module.TransactionProducer.send_in_transaction)


class PushConsumer(_MessagingClient):
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
        namesrv: str | Sequence[str] | None = None,
        subscriptions: Mapping[str, Expression] | None = None,
        listener: Listener | None = None,
        **options: Unpack[PushConsumerOptions],
    ) -> None:
        super().__init__(push_consumer_module.PushConsumer(group, namesrv, subscriptions, listener, **options))
        self.group = self._client.group

    def run(self, *, stop_on_sigterm: bool = True) -> None:
        """Wait until the consumer is closed or the process gets SIGTERM; then leave `with`, which closes it in order.

        SIGTERM is left alone with `stop_on_sigterm=False`, if the program handles it, and outside the main thread.
        """
        stopping = on_sigterm(lambda: self._portal.soon(self._client._stop_running))
        with stopping if stop_on_sigterm else nullcontext():
            self._portal.call(self._client.run(stop_on_sigterm=False))

    commit = waits(push_consumer_module.PushConsumer.commit)
    subscribe = waits(push_consumer_module.PushConsumer.subscribe)
    unsubscribe = waits(push_consumer_module.PushConsumer.unsubscribe)

    @property
    def trace_counts(self) -> TraceCounts:
        """How many trace records of this consumer were written, dropped and failed."""
        return self._portal.call(on_the_loop(lambda: self._client.trace_counts))

    @property
    def assignment(self) -> list[MessageQueue]:
        """The queues that this consumer has now, without those of its retry topic."""
        return self._portal.call(on_the_loop(lambda: self._client.assignment))

    @property
    def blocked(self) -> list[BlockedQueue]:
        """The blocked queues, with `orderly`: each with the message that the listener fails on."""
        return self._portal.call(on_the_loop(lambda: self._client.blocked))

    def pause(self) -> None:
        """Pause the listener and the pulls; the consumer keeps its queues."""
        self._portal.call(on_the_loop(self._client.pause))

    def resume(self) -> None:
        """Resume after a pause."""
        self._portal.call(on_the_loop(self._client.resume))


class LitePullConsumer(_MessagingClient):
    """Reads topics at the caller's pace; `pyromq.LitePullConsumer` without `await`.

    >>> with LitePullConsumer(group="audit", namesrv="127.0.0.1:9876", subscriptions={"orders": "*"}) as consumer:
    ...     for message in consumer:
    ...         print(message.body)

    `poll` is faster than iterating: each call crosses over to the background thread once. Only one thread may poll:
    each poll acknowledges what the last one returned. Give every thread a consumer of its own, in the same group.
    """

    _client: pull_consumer_module.LitePullConsumer

    def __init__(
        self,
        group: str,
        namesrv: str | Sequence[str] | None = None,
        subscriptions: Mapping[str, Expression] | None = None,
        **options: Unpack[LitePullConsumerOptions],
    ) -> None:
        super().__init__(pull_consumer_module.LitePullConsumer(group, namesrv, subscriptions, **options))
        self.group = self._client.group

    poll = waits(pull_consumer_module.LitePullConsumer.poll)
    commit = waits(pull_consumer_module.LitePullConsumer.commit)
    subscribe = waits(pull_consumer_module.LitePullConsumer.subscribe)
    unsubscribe = waits(pull_consumer_module.LitePullConsumer.unsubscribe)
    committed = waits(pull_consumer_module.LitePullConsumer.committed)
    queues = waits(pull_consumer_module.LitePullConsumer.queues)
    assign = waits(pull_consumer_module.LitePullConsumer.assign)
    seek = waits(pull_consumer_module.LitePullConsumer.seek)
    seek_to_begin = waits(pull_consumer_module.LitePullConsumer.seek_to_begin)
    seek_to_end = waits(pull_consumer_module.LitePullConsumer.seek_to_end)
    seek_to_time = waits(pull_consumer_module.LitePullConsumer.seek_to_time)

    @property
    def assignment(self) -> list[MessageQueue]:
        """The queues that this consumer reads now."""
        return self._portal.call(on_the_loop(lambda: self._client.assignment))

    def position(self, queue: MessageQueue) -> int | None:
        """Return the offset of the next message to be returned; None while the start is not known."""
        return self._portal.call(on_the_loop(self._client.position, queue))

    def pause(self, *queues: MessageQueue) -> None:
        """Pause these queues: return no messages of them, and pull no more."""
        self._portal.call(on_the_loop(self._client.pause, *queues))

    def resume(self, *queues: MessageQueue) -> None:
        """Resume paused queues where they were."""
        self._portal.call(on_the_loop(self._client.resume, *queues))

    def __iter__(self) -> Iterator[MessageExt]:
        return self

    def __next__(self) -> MessageExt:
        try:
            return self._portal.call(self._client.__anext__())
        except StopAsyncIteration:
            raise StopIteration from None
