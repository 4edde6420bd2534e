"""PushConsumer: calls a listener with every message."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from datetime import timedelta
from functools import partial

from msgspec.structs import replace

from pyromq.client.config import ClientConfig, FlowControl, check_options
from pyromq.client.consume.offset_store import OffsetStore
from pyromq.client.consume.queue_changes import OnQueues, QueueChanges
from pyromq.client.consume.stall_report import BlockedQueue
from pyromq.client.consume.start_from import StartFrom, check_start_from
from pyromq.client.consume.subscriptions import Expression, subscribe, subscribe_all
from pyromq.client.group.allocation import Allocate, allocate_averagely
from pyromq.client.hooks import ConsumeHook
from pyromq.client.lifecycle import ClientLifecycle
from pyromq.client.listener.listener import Listener, check_listener
from pyromq.client.net.address import chosen_namesrv
from pyromq.client.push.push_session import PushSession
from pyromq.client.push.push_settings import PushSettings, timeout_seconds
from pyromq.client.push.termination import on_sigterm
from pyromq.client.trace.client_metrics import ClientMetrics, consume_hooks
from pyromq.client.trace.config import Trace, chosen_trace
from pyromq.client.trace.dispatcher import TraceCounts
from pyromq.client.trace.tracing import Tracing
from pyromq.clock import Clock, SystemClock
from pyromq.errors import ClientError
from pyromq.protocol.acl import Credentials
from pyromq.protocol.messages.message import MessageQueue
from pyromq.protocol.names import DEFAULT_CONSUMER_GROUP, check_group, with_namespace, without_namespace
from pyromq.remoting.tls.client_tls import Tls

logger = logging.getLogger(__name__)

CONSUME_TIMEOUT = timedelta(minutes=15)
CLOSE_TIMEOUT = timedelta(seconds=30)
_BROADCASTING_NAME = "DEFAULT"  # the same after a restart, as in Java's clients: offsets are kept under it


class PushConsumer(ClientLifecycle[PushSession]):
    """Calls a listener with every message of some topics; all consumers of the group share the queues.

    >>> async def bill(message: MessageExt) -> None: ...
    >>> async with PushConsumer("billing", "127.0.0.1:9876", {"orders": "created || paid"}, bill) as consumer:
    ...     await consumer.run()

    Returning from the listener acknowledges the message. If it raises, the message is redelivered up to 16 times with
    increasing delays; RetryLater sets the delay, DeadLetter gives the message up. A listener annotated
    `list[MessageExt]` gets up to `batch_size` messages and may return Ack(first=n). With `orderly` the messages of a
    queue come one after another, and a failure blocks the queue. With `broadcasting` every member gets every message
    once. Listeners that are not async run on threads, up to `concurrency` at a time. `trace` writes message traces and
    OpenTelemetry spans. `metrics` is "prometheus" or "opentelemetry": what it consumes is counted there.

    `on_assigned` and `on_revoked` are called with the queues that the consumer has got and is about to give up to
    another member, not when it is closed. A listener that needs longer than `consume_timeout` asks for more time with
    `message.extend(seconds)`.

    A message may be delivered more than once, after a failure or a crash. The consumer works while it is open; `run()`
    waits until it is closed.

    `start` raises ConnectFailed if no name server answers. A topic that does not exist yet is read as soon as it does.
    `close` waits for the listener, commits and leaves the group. A listener that takes longer than `close_timeout` is
    cancelled, and another member gets its messages.
    """

    def __init__(
        self,
        group: str,
        namesrv: str | Sequence[str] | None = None,
        subscriptions: Mapping[str, Expression] | None = None,
        listener: Listener | None = None,
        *,
        orderly: bool = False,
        broadcasting: bool = False,
        start_from: StartFrom = "latest",
        concurrency: int = 20,
        batch_size: int = 1,
        pull_batch: int = 32,
        pull_interval: float = 0.0,
        rate: float | None = None,
        max_reconsume: int | None = None,
        consume_timeout: timedelta | float = CONSUME_TIMEOUT,
        close_timeout: timedelta | float = CLOSE_TIMEOUT,
        flow_control: FlowControl | None = None,
        allocate: Allocate = allocate_averagely,
        on_assigned: OnQueues | None = None,
        on_revoked: OnQueues | None = None,
        hooks: Sequence[ConsumeHook] = (),
        trace: bool | Trace = False,
        metrics: ClientMetrics | None = None,
        offset_store: OffsetStore | None = None,
        namespace: str | None = None,
        credentials: Credentials | None = None,
        tls: bool | Tls | None = None,
        instance_name: str | None = None,
        clock: Clock | None = None,
    ) -> None:
        check_options(locals())
        namesrv = chosen_namesrv(namesrv)
        wanted = subscribe_all(subscriptions, namespace)
        listener = check_listener(listener)
        if group == DEFAULT_CONSUMER_GROUP:
            raise ClientError(f"the group name {group} is reserved; choose one of your own")
        check_group(group)
        self._namespace = namespace
        self._clock = clock or SystemClock()
        name = instance_name or (_BROADCASTING_NAME if broadcasting else None)
        client = ClientConfig(
            namesrv=namesrv, instance_name=name, namespace=namespace, credentials=credentials, tls=tls
        )
        self.group = with_namespace(group, namespace)
        chosen = chosen_trace(trace)
        self._tracing = Tracing(chosen, client, self.group, "CONSUME", self._clock) if chosen else None
        self._spans = self._tracing.consume_spans(broadcasting=broadcasting) if self._tracing else None
        self._settings = PushSettings(
            client=client,
            group=self.group,
            subscriptions=wanted,
            listener=listener,
            start=check_start_from(start_from),
            orderly=orderly,
            broadcasting=broadcasting,
            concurrency=concurrency,
            batch_size=batch_size,
            pull_batch=pull_batch,
            pull_interval=pull_interval,
            rate=rate,
            max_reconsume=max_reconsume,
            consume_timeout=timeout_seconds("consume_timeout", consume_timeout),
            close_timeout=timeout_seconds("close_timeout", close_timeout),
            flow_control=flow_control or FlowControl(),
            allocate=allocate,
            changes=QueueChanges(on_assigned, on_revoked),
            hooks=(*hooks, *self._own_hooks(), *consume_hooks(metrics, self._clock)),
            offset_store=offset_store,
        )
        new_session = partial(PushSession, self._settings, self._clock, self._tracing, self._spans)
        super().__init__("consumer", new_session)

    def _own_hooks(self) -> list[ConsumeHook]:
        hooks = self._tracing.consume_hooks() if self._tracing else []
        return hooks if self._spans is None else [*hooks, self._spans]

    async def run(self, *, stop_on_sigterm: bool = True) -> None:
        """Wait until this is cancelled, the consumer is closed, or the process gets SIGTERM.

        `async with` then closes the consumer: it finishes and commits the messages in hand, and leaves its group.
        SIGTERM is left alone with `stop_on_sigterm=False`, if the program handles it, and outside the main thread.
        """
        loop = asyncio.get_running_loop()
        stopping = on_sigterm(partial(loop.call_soon_threadsafe, self._stop_running))
        with stopping if stop_on_sigterm else nullcontext():
            await self._session.closing.wait()

    def _stop_running(self) -> None:
        logger.info("the consumer of group=%s finishes what it has in hand and leaves", self.group)
        self._session.closing.set()

    @property
    def client_id(self) -> str:
        """The id by which brokers and the other members know this consumer."""
        return self._session.instance.client_id

    @property
    def trace_counts(self) -> TraceCounts:
        """What became of the trace records that this consumer wrote."""
        return self._tracing.counts if self._tracing else TraceCounts()

    # --- while it runs -----------------------------------------------------------------------------------------------

    def pause(self) -> None:
        """Stop calling the listener and stop pulling, until `resume`; the consumer keeps its queues."""
        self._session.pause()

    def resume(self) -> None:
        """Continue where the consumer was paused."""
        self._session.resume()

    async def commit(self) -> None:
        """Commit now, instead of within 5 s; on return the brokers have the offsets."""
        session = self._session
        await session.commits.commit_consumed(session.assignment)

    async def subscribe(self, topic: str, expression: Expression = "*") -> None:
        """Consume another topic, or a topic with another filter; all members of the group should do the same."""
        session = self._session
        subscription = subscribe(with_namespace(topic, self._namespace), expression, self._clock.now_ms())
        await session.subscribe(subscription)

    async def unsubscribe(self, topic: str) -> None:
        """Stop consuming a topic."""
        await self._session.unsubscribe(with_namespace(topic, self._namespace))

    @property
    def assignment(self) -> list[MessageQueue]:
        """The queues that this consumer has now, without those of the retry topic."""
        session = self._session
        queues = [held.queue for held in session.assignment if held.queue.topic != session.retry_topic]
        return sorted(self._bare(queue) for queue in queues)

    @property
    def blocked(self) -> list[BlockedQueue]:
        """With `orderly`, the queues that do not advance, each with the message that its listener fails with."""
        return [replace(found, queue=self._bare(found.queue)) for found in self._session.blocked]

    def _bare(self, queue: MessageQueue) -> MessageQueue:
        return queue._replace(topic=without_namespace(queue.topic, self._namespace))
