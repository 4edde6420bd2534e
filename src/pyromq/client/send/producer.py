"""Producer: sends messages."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Unpack

from pyromq.client.config import ClientConfig, SendOptions, check_options
from pyromq.client.hooks import SendHook
from pyromq.client.lifecycle import ClientLifecycle
from pyromq.client.net.address import chosen_namesrv
from pyromq.client.net.publish_info import Select
from pyromq.client.send.delays import delay_properties, is_timed, without_times
from pyromq.client.send.delivery import Delivery, DeliveryRules, with_note
from pyromq.client.send.fast_send import settle
from pyromq.client.send.find_message import find_message
from pyromq.client.send.in_flight import InFlightLimit
from pyromq.client.send.prepare import MessagePreparer, body_size
from pyromq.client.send.producer_session import ProducerSession, ProducerSettings, send_batch
from pyromq.client.send.values import MISSING, message_of
from pyromq.client.send_result import PendingResult, Promise, SendResult, alone, results_of_batch
from pyromq.client.trace.client_metrics import ClientMetrics, send_hooks
from pyromq.client.trace.config import Trace, chosen_trace
from pyromq.client.trace.dispatcher import TraceCounts
from pyromq.client.trace.tracing import Tracing
from pyromq.clock import Clock, SystemClock
from pyromq.codecs.topic_codecs import CodecChoice, TopicCodecs
from pyromq.errors import ClientError, PyroMQError
from pyromq.protocol.acl import Credentials
from pyromq.protocol.messages.message import MAX_BODY_SIZE, Message, MessageExt, MessageQueue
from pyromq.protocol.names import DEFAULT_PRODUCER_GROUP, check_group, with_namespace, without_namespace
from pyromq.remoting.tls.client_tls import Tls

_WHERE = {"order_key", "queue", "select"}
"""The options of a send that do not keep it from travelling with others."""

_MAX_BYTES_IN_FLIGHT = 64 * 1024 * 1024


class Producer(ClientLifecycle[ProducerSession]):
    """Sends messages to any topic; safe to use from any number of tasks of one event loop.

    >>> async with Producer(group="shop", namesrv="127.0.0.1:9876") as producer:
    ...     result = await producer.send(Message(topic="orders", body=b"...", tags="created", keys=["o-1"]))

    After a failure a send is retried on other brokers, up to `retries` times, all within `send_timeout`. At most
    `max_in_flight` sends run at a time; further calls wait, and their waiting does not count towards `send_timeout`.
    `send("orders", value)` encodes a value by `codec`: JSON by default, one for all topics, or one for each by name.
    With `linger`, small messages that are sent within so many seconds travel as one batch. `latency_fault_tolerance`
    avoids brokers that failed or answered slowly. `trace` writes message traces and OpenTelemetry spans.
    `metrics` is "prometheus" or "opentelemetry": what it sends is counted there.

    Nothing is sent to any broker before the first send. `close` waits for the sends that are in flight.
    """

    def __init__(
        self,
        group: str,
        namesrv: str | Sequence[str] | None = None,
        *,
        send_timeout: float = 3.0,
        retries: int = 2,
        retry_other_broker_when_not_stored: bool = False,
        latency_fault_tolerance: bool = False,
        compress_over: int = 4096,
        topic_queues: int = 4,
        max_message_size: int = MAX_BODY_SIZE,
        max_in_flight: int = 1024,
        linger: float | None = None,
        codec: CodecChoice = None,
        hooks: Sequence[SendHook] = (),
        trace: bool | Trace = False,
        metrics: ClientMetrics | None = None,
        namespace: str | None = None,
        credentials: Credentials | None = None,
        tls: bool | Tls | None = None,
        instance_name: str | None = None,
        clock: Clock | None = None,
    ) -> None:
        check_options(locals())
        if group == DEFAULT_PRODUCER_GROUP:
            raise ClientError(f"the group name {group} is reserved; choose one of your own")
        check_group(group)
        self.group = with_namespace(group, namespace)
        self._config = ClientConfig(
            namesrv=chosen_namesrv(namesrv),
            instance_name=instance_name,
            namespace=namespace,
            credentials=credentials,
            tls=tls,
            topic_queues=topic_queues,
        )
        self.codecs = TopicCodecs(codec)
        self._clock = clock or SystemClock()
        chosen = chosen_trace(trace)
        self._tracing = Tracing(chosen, self._config, self.group, "PRODUCE", self._clock) if chosen else None
        self._spans = self._tracing.send_spans() if self._tracing else None
        rules = DeliveryRules(
            group=self.group,
            namespace=namespace,
            topic_queues=topic_queues,
            retries=retries,
            retry_not_stored=retry_other_broker_when_not_stored,
            hooks=(
                *hooks,
                *(self._tracing.send_hooks() if self._tracing else ()),
                *send_hooks(metrics, self._clock),
            ),
            avoid_slow=latency_fault_tolerance,
        )
        self._settings = ProducerSettings(
            client=self._config,
            rules=rules,
            send_timeout=send_timeout,
            linger=linger,
            compress_over=compress_over,
            max_message_size=max_message_size,
        )
        self._send_timeout = send_timeout
        self._compress_over = compress_over
        self._preparer = MessagePreparer(
            self._clock,
            max_message_size=max_message_size,
            compress_over=compress_over,
            namespace=namespace,
            context=self._spans.context if self._spans else None,
        )
        self._in_flight = InFlightLimit(max_in_flight, _MAX_BYTES_IN_FLIGHT)
        super().__init__("producer", self._make_session)

    def _make_session(self) -> ProducerSession:
        return ProducerSession(self._settings, self._preparer, self._in_flight, self._clock, self._tracing, self._spans)

    @property
    def client_id(self) -> str:
        """The id by which brokers know this producer."""
        return self._delivery.instance.client_id

    @property
    def trace_counts(self) -> TraceCounts:
        """How many trace records of this producer were written, dropped and failed."""
        return self._tracing.counts if self._tracing else TraceCounts()

    @property
    def _delivery(self) -> Delivery:
        return self._session.delivery

    # --- sending -----------------------------------------------------------------------------------------------------

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
        return message_of(self.codecs, topic, value, tags, keys, properties)

    async def send(
        self,
        message: Message | str,
        value: object = MISSING,
        *,
        tags: str | None = None,
        keys: Sequence[str] | str = (),
        properties: Mapping[str, str] | None = None,
        order_key: str | None = None,
        queue: MessageQueue | None = None,
        select: Select | None = None,
        timeout: float | None = None,
        delay: timedelta | float | None = None,
        at: datetime | None = None,
        level: int | None = None,
        message_id: str | None = None,
    ) -> SendResult:
        """Send a message, or a value to a topic, and return where it was stored.

        `send("orders", order, tags="created", keys="o-1")` encodes the value by the topic's codec, JSON by default.

        Messages with the same `order_key` go to the same queue, the one that Java's clients choose for that key. A send
        with `order_key`, `queue` or `select` is tried once; others are retried up to `retries` times.

        With `delay` (a number is in seconds) or `at`, consumers receive it that much later, up to 40 days ahead; until
        then it can be cancelled. Both need PyroMQ's brokers and raise NotSupported with others. `level` is one of the
        delays that every broker has: by default 18, from 1 s (level 1) over 10 s (level 3) to 2 h (level 18).

        `message_id` is an id that was made before, as an outbox does: `find` then tells whether an earlier attempt,
        perhaps of another process, was stored.

        Raises InvalidMessage, NoRoute, or BrokerError with the broker's code if nothing was stored; RemotingError if it
        is unknown whether the message was stored. The text of a RemotingError says what is wrong on the way to the
        broker; finding that out may take 2 s more. A cancelled send may have been stored.
        """
        if type(message) is not Message or value is not MISSING or tags is not None or keys or properties:
            message = message_of(self.codecs, message, value, tags, keys, properties)
        anywhere = order_key is None and queue is None and select is None
        simply = timeout is None and delay is None and at is None and level is None and message_id is None
        session = self._opened
        if session is not None and anywhere and simply:
            if session.fast_send is not None:
                return await session.fast_send.send(message)
            if session.join is not None:
                future: asyncio.Future[SendResult] = asyncio.get_running_loop().create_future()
                if session.join(message, future) is not None:
                    return await future
        system = delay_properties(delay, at, level)
        sending = self._send(message, order_key, queue, select, timeout, system, message_id)
        if self._spans is None:
            return await sending
        kind = "fifo" if order_key is not None else "delay" if system else "normal"
        return await self._spans.around([message], sending, kind, order_key, system)

    async def send_soon(
        self,
        message: Message | str,
        value: object = MISSING,
        *,
        tags: str | None = None,
        keys: Sequence[str] | str = (),
        properties: Mapping[str, str] | None = None,
        **options: Unpack[SendOptions],
    ) -> PendingResult:
        """Send without waiting for the result: return what to await for it, which raises the errors of `send`.

        The cheapest way to send many messages, most of all with `linger`: no task has to wait for each of them. The
        call itself waits only while `max_in_flight` sends are on their way. Sends begin in the order of the calls.
        `flush` waits for all of them, and so does `async with` at its end.
        """
        if type(message) is not Message or value is not MISSING or tags is not None or keys or properties:
            message = message_of(self.codecs, message, value, tags, keys, properties)
        session = self._opened
        if session is not None and session.join is not None and not options:
            pending = session.join(message, None)
            if pending is not None:
                if not pending.number:  # the first of a batch: let others run, and answers come in
                    await self._clock.sleep(0)
                return pending
        return await self._send_soon(message, options)

    async def _send_soon(self, message: Message, options: SendOptions) -> PendingResult:
        session, size = self._session, body_size(message)
        pending = alone()
        if session.join is not None and options.keys() <= _WHERE and size < self._compress_over:
            try:
                where = options.get("order_key"), options.get("queue"), options.get("select")
                return await self._send_with_others(session, message, *where)
            except PyroMQError as error:
                pending.outcome.set_exception(error)
                return pending
        await self._in_flight.room(size)
        if options or not self._start_send(message, pending.outcome):
            task = asyncio.ensure_future(self.send(message, **options))
            session.started.add(task)
            task.add_done_callback(session.started.discard)
            task.add_done_callback(partial(settle, pending.outcome))
            await self._clock.sleep(0)  # now it has begun, and counts as in flight
        return pending

    async def flush(self) -> None:
        """Wait until no send is on its way any more, and every `send_soon` before this call has its result."""
        await self._session.flush()

    def _start_send(self, message: Message, promise: Promise) -> bool:
        """Start a plain send without a task, and give `promise` its outcome; return False if `send` must do it."""
        session = self._session
        if session.fast_send is not None:
            return session.fast_send.start(message, promise)
        is_small = self._spans is None and len(message.body) < self._compress_over
        return is_small and session.linger is not None and session.linger.start(message, promise)

    async def _send(
        self,
        message: Message,
        order_key: str | None,
        queue: MessageQueue | None,
        select: Select | None,
        timeout: float | None,
        system: Mapping[str, str] | None,
        message_id: str | None,
    ) -> SendResult:
        session = self._session
        delivery = session.delivery
        size = body_size(message)
        made = None if message_id is None else (message_id, self._clock.now_ms())
        goes_alone = timeout is not None or system is not None or made is not None
        if session.linger is not None and not goes_alone and size < self._compress_over:
            return await (await self._send_with_others(session, message, order_key, queue, select))
        if not self._in_flight.try_enter(size):
            await self._in_flight.enter(size)
        try:
            timeout = self._send_timeout if timeout is None else timeout
            if system is None:
                prepared = self._preparer.prepare(message, order_key, made=made)
            else:
                prepared = self._preparer.prepare(without_times(message), order_key, system, made)
                prepared.delayed, prepared.timed = bool(system), is_timed(system)
            await self._preparer.compress(prepared)
            if order_key is None and queue is None and select is None:
                return await delivery.send_anywhere(prepared, timeout)
            return await delivery.send_chosen(
                message, prepared, timeout, order_key=order_key, queue=queue, select=select
            )
        finally:
            self._in_flight.leave(size)

    async def cancel(self, result: SendResult) -> bool:
        """Cancel a message that was sent with `delay` or `at`; return True if it was still waiting.

        If it was, the cancellation is stored as safely as a send. Raises NotSupported if the broker is not PyroMQ's,
        otherwise the errors of `send`.
        """
        return await self._delivery.cancel(result)

    async def _send_with_others(
        self,
        session: ProducerSession,
        message: Message,
        order_key: str | None,
        queue: MessageQueue | None,
        select: Select | None,
    ) -> PendingResult:
        assert session.linger is not None
        if order_key is None and queue is None and select is None:
            return await session.linger.add(message)
        topic = with_namespace(message.topic, self._config.namespace)
        choose = partial(session.delivery.choose, message, topic, order_key=order_key, queue=queue, select=select)
        return await session.linger.add(message, order_key, choose)

    async def send_oneway(
        self,
        message: Message | str,
        value: object = MISSING,
        *,
        tags: str | None = None,
        keys: Sequence[str] | str = (),
        properties: Mapping[str, str] | None = None,
        order_key: str | None = None,
        queue: MessageQueue | None = None,
        select: Select | None = None,
    ) -> None:
        """Send a message without waiting for an answer; there is no way to know whether it was stored."""
        message = message_of(self.codecs, message, value, tags, keys, properties)
        sending = self._send_oneway(message, order_key, queue, select)
        await (sending if self._spans is None else self._spans.around([message], sending))

    async def _send_oneway(
        self, message: Message, order_key: str | None, queue: MessageQueue | None, select: Select | None
    ) -> None:
        delivery = self._delivery
        size = body_size(message)
        await self._in_flight.enter(size)
        try:
            prepared = self._preparer.prepare(message, order_key)
            await self._preparer.compress(prepared)
            chosen = await delivery.choose(message, prepared.topic, order_key=order_key, queue=queue, select=select)
            await delivery.send_oneway(chosen, prepared)
        finally:
            self._in_flight.leave(size)

    async def send_batch(
        self, messages: Sequence[Message], *, queue: MessageQueue | None = None, timeout: float | None = None
    ) -> list[SendResult]:
        """Send messages of one topic together, in as few requests as the size limit allows.

        Return a result for each message, in their order. A request is stored as a whole or not at all. If one fails, a
        note of its exception says how many messages were stored before.
        """
        timeout = self._send_timeout if timeout is None else timeout
        sending = self._send_batches(messages, queue, timeout)
        return await (sending if self._spans is None else self._spans.around(messages, sending))

    async def _send_batches(
        self, messages: Sequence[Message], queue: MessageQueue | None, timeout: float
    ) -> list[SendResult]:
        delivery = self._delivery
        results: list[SendResult] = []
        for prepared in self._preparer.prepare_batches(messages):
            size = len(prepared.body)
            await self._in_flight.enter(size)
            try:
                chosen = queue and await delivery.choose(messages[0], prepared.topic, queue=queue)
                results += results_of_batch(await send_batch(delivery, timeout, prepared, chosen))
            except PyroMQError as error:
                note = f"{len(results)} of {len(messages)} messages of the batch were stored before this"
                raise with_note(error, note) from error.__cause__
            finally:
                self._in_flight.leave(size)
        return results

    async def request(
        self,
        message: Message | str,
        timeout: float = 3.0,
        *,
        value: object = MISSING,
        tags: str | None = None,
        keys: Sequence[str] | str = (),
        properties: Mapping[str, str] | None = None,
        order_key: str | None = None,
        queue: MessageQueue | None = None,
        select: Select | None = None,
    ) -> MessageExt:
        """Send a message that asks for a reply, and return the reply; a consumer replies with `message.reply(body)`.

        `request("prices", value={"id": 1})` encodes the value by the topic's codec.
        Raises RequestTimeout if the request was stored and no reply came in time, otherwise the errors of `send`.
        """
        message = message_of(self.codecs, message, value, tags, keys, properties)
        asking = self._request(message, timeout, order_key, queue, select)
        return await (asking if self._spans is None else self._spans.around([message], asking))

    async def _request(
        self,
        message: Message,
        timeout: float,
        order_key: str | None,
        queue: MessageQueue | None,
        select: Select | None,
    ) -> MessageExt:
        delivery = self._delivery

        async def send(asking: Mapping[str, str], left: float) -> SendResult:
            prepared = self._preparer.prepare(message, order_key, asking)
            await self._preparer.compress(prepared)
            await delivery.announce(prepared.topic)
            if order_key is None and queue is None and select is None:
                return await delivery.send_anywhere(prepared, left)
            chosen = await delivery.choose(message, prepared.topic, order_key=order_key, queue=queue, select=select)
            return await delivery.send_to(chosen, prepared, left)

        return await delivery.instance.replies.request(timeout, send)

    async def find(self, topic: str, message_id: str) -> MessageExt | None:
        """Return a stored message by its id, None if no broker of the topic has it; useful after a time-out.

        The id of a send that timed out is `message_id` of its exception; it may still be stored later. Raises the error
        of a broker that could not be asked if no other one has the message.
        """
        delivery = self._delivery
        topic = with_namespace(topic, self._config.namespace)
        instance = delivery.instance
        found = await find_message(instance.api, instance.routes, topic, message_id, self._clock.now_ms())
        if found is not None:
            found.topic = without_namespace(found.topic, self._config.namespace)
        return found

    async def queues(self, topic: str) -> list[MessageQueue]:
        """Return the queues that this topic's messages go to."""
        return await self._delivery.queues(topic)
