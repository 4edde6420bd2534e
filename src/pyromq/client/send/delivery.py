"""Delivery: takes one prepared message to a broker, or to another one if the first cannot have it."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

from msgspec import Struct

from pyromq.client.config import ClientConfig
from pyromq.client.hooks import EndContext, SendContext, SendHook, run_hooks
from pyromq.client.net.calls.answers import SendAnswer
from pyromq.client.net.calls.broker_api import read_region, read_sent
from pyromq.client.net.calls.timer_calls import WaitingMessage
from pyromq.client.net.publish_info import Select, TopicPublishInfo, queue_by_choice, queue_for_key
from pyromq.client.net.sharing import borrow_instance
from pyromq.client.send.fault_tolerance import LatencyFaultTolerance
from pyromq.client.send.prepare import PreparedMessage
from pyromq.client.send_result import SendResult, SendStatus
from pyromq.clock import Clock
from pyromq.errors import (
    AccessDenied,
    BrokerError,
    ClientError,
    InvalidMessage,
    NoRoute,
    PyroMQError,
    RemotingError,
    RequestTimeout,
)
from pyromq.protocol.codes import ResponseCode
from pyromq.protocol.headers.send import SendMessageRequestHeaderV2
from pyromq.protocol.messages.message import Message, MessageQueue
from pyromq.protocol.messages.record import TRANSACTION_PREPARED
from pyromq.protocol.names import TBW102, with_namespace, without_namespace

# Answers that another broker may not give. SYSTEM_BUSY is not among them: more sends would not help.
RETRY_CODES = frozenset(
    {
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.NO_PERMISSION,
        ResponseCode.NO_BUYER_ID,
        ResponseCode.NOT_IN_CURRENT_UNIT,
    }
)
_SEND_OK = SendStatus.SEND_OK

Attempt = tuple[MessageQueue, SendResult | PyroMQError]
"""One try to send: where, and what came of it."""


class DeliveryRules(Struct, frozen=True, kw_only=True):
    """What a producer was told about its sends."""

    group: str
    namespace: str | None
    topic_queues: int
    retries: int
    retry_not_stored: bool
    """Try another broker also when one has stored the message, but not as safely as it should."""
    hooks: Sequence[SendHook] = ()
    avoid_slow: bool = False
    """Keep away for a while from brokers that failed or answered slowly."""


class Delivery:
    """Sends on behalf of one producer, while it is open: the session of a plain one."""

    def __init__(self, config: ClientConfig, rules: DeliveryRules, clock: Clock) -> None:
        self.handle = borrow_instance(config, clock)
        instance = self.instance = self.handle.instance
        self._api = instance.api
        self._routes = instance.routes
        self._clock = instance.clock
        self.rules = rules
        self._namespace = rules.namespace
        self._hooks = rules.hooks
        self._faults = LatencyFaultTolerance(instance.clock) if rules.avoid_slow else None
        self.is_watched = bool(rules.hooks) or rules.avoid_slow
        """Whether somebody wants to hear of every attempt."""

    async def start(self) -> None:
        """Join the producer group; no broker is asked before the first send."""
        self.handle.join_as_producer(self.rules.group)
        self.instance.start()

    async def close(self, *, failed: bool = False) -> None:
        """Leave the producer group."""
        await self.handle.close()

    async def queues(self, topic: str) -> list[MessageQueue]:
        """Return the queues that a topic's messages go to, as the caller knows them."""
        return self._bare_queues(await self._routes.find_queues(with_namespace(topic, self._namespace)))

    async def choose(
        self,
        message: Message,
        topic: str,
        *,
        order_key: str | None = None,
        queue: MessageQueue | None = None,
        select: Select | None = None,
    ) -> MessageQueue:
        """Return the queue that the caller named, the one its key or function picks, or else the next in turn."""
        if (order_key is not None) + (queue is not None) + (select is not None) > 1:
            raise ClientError("give only one of order_key=, queue= and select=")
        if queue is not None:
            if queue.topic not in (message.topic, topic):
                raise InvalidMessage(f"the queue is one of topic {queue.topic!r}, the message has {message.topic!r}")
            return queue._replace(topic=topic)
        info = self._routes.publish_info(topic) or await self._routes.find_queues(topic)
        if order_key is not None:
            return queue_for_key(info.queues, order_key)
        if select is not None:
            return queue_by_choice(self._bare_queues(info), message, select)._replace(topic=topic)
        return info.next()

    async def be_known(self, topic: str) -> None:
        """Have every broker that may get a message of this topic know this producer, so that it can push replies."""
        await self._routes.find_queues(topic)
        known = self.instance.heartbeats.brokers
        if any(address not in known for address in self._routes.addresses(slaves=False)):
            await self.instance.heartbeats.beat()

    async def send_anywhere(
        self, outgoing: PreparedMessage, timeout: float, first: Attempt | None = None
    ) -> SendResult:
        """Send to the next queue in turn; if that fails, to other brokers, all within `timeout`.

        `first` is an attempt that was made already, at the time the message was.
        """
        deadline = timeout + (self._clock.now() if first is None else outgoing.born_timestamp_ms / 1000)
        info = self._routes.publish_info(outgoing.topic) or await self._routes.find_queues(outgoing.topic)
        tried: list[str] = []
        stored: SendResult | None = None
        while True:
            queue, outcome = first or await self._attempt(self._next(info, tried), outgoing, timeout, deadline)
            first = None
            tried.append(queue.broker_name)
            if isinstance(outcome, SendResult):
                if self.is_final(outcome):
                    return outcome
                stored = outcome
                if self._is_last(tried, deadline):
                    return stored
            elif not _may_work_elsewhere(outcome) or self._is_last(tried, deadline):
                if stored is not None:
                    return stored
                raise await self._explained(outcome, outgoing, tried) from outcome.__cause__
            else:
                self.instance.refresh_soon()

    async def _attempt(
        self, queue: MessageQueue, outgoing: PreparedMessage, timeout: float, deadline: float
    ) -> Attempt:
        try:
            return queue, await self._send_to(queue, outgoing, min(timeout, deadline - self._clock.now()))
        except PyroMQError as error:
            return queue, error

    def is_final(self, result: SendResult) -> bool:
        """Tell whether a message is stored as safely as it was asked for, so that no other broker need be tried."""
        return result.status is _SEND_OK or not self.rules.retry_not_stored

    def _next(self, info: TopicPublishInfo, tried: Sequence[str]) -> MessageQueue:
        if self._faults is not None:
            return self._faults.choose(info)
        return info.next_elsewhere(tried[-1]) if tried else info.next()

    def _is_last(self, tried: Sequence[str], deadline: float) -> bool:
        return len(tried) > self.rules.retries or self._clock.now() >= deadline

    async def cancel(self, result: SendResult) -> bool:
        """Cancel a message that waits for its time; return whether it still did."""
        queue = result.queue._replace(topic=with_namespace(result.queue.topic, self._namespace))
        address = self._routes.master(queue.broker_name) or await self._routes.find_master(queue)
        await self.instance.heartbeats.require_timer(address)
        message = WaitingMessage(queue.topic, queue.broker_name, result.message_id, result.offset_message_id)
        return await self._api.cancel_waiting(address, self.rules.group, message)

    async def send_to(self, queue: MessageQueue, outgoing: PreparedMessage, timeout: float) -> SendResult:
        """Send to one queue, once."""
        try:
            return await self._send_to(queue, outgoing, timeout)
        except (RemotingError, NoRoute) as error:
            self.instance.refresh_soon()
            raise await self._explained(error, outgoing, [queue.broker_name]) from error.__cause__

    async def _send_to(self, queue: MessageQueue, outgoing: PreparedMessage, timeout: float) -> SendResult:
        if timeout <= 0:
            raise RequestTimeout("no time is left to send the message; it was not sent")
        address = self._routes.master(queue.broker_name) or await self._routes.find_master(queue)
        if outgoing.timed:
            await self.instance.heartbeats.require_timer(address)
        if self.is_watched:
            return await self._send_watched(queue, address, outgoing, timeout)
        return await self._send(queue, address, outgoing, timeout)

    async def _send(self, queue: MessageQueue, address: str, outgoing: PreparedMessage, timeout: float) -> SendResult:
        answer = await self._api.send(address, self._header(outgoing, queue), outgoing.body, timeout=timeout)
        return self.result(queue, outgoing.message_id, answer)

    def result(self, queue: MessageQueue, message_id: str, answer: SendAnswer) -> SendResult:
        """Return a broker's answer as the caller sees it."""
        if answer.queue_id != queue.queue_id or self._namespace:
            queue = self._bare(queue)._replace(queue_id=answer.queue_id)
        return SendResult(answer.status, message_id, answer.offset_message_id, queue, answer.queue_offset)

    async def _send_watched(
        self, queue: MessageQueue, address: str, outgoing: PreparedMessage, timeout: float
    ) -> SendResult:
        context = self._before(queue, address, outgoing)
        started = self._clock.now()
        try:
            header = self._header(outgoing, queue)
            answer = await self._api.send_for_answer(address, header, outgoing.body, timeout=timeout)
            context.result = self.result(queue, outgoing.message_id, read_sent(answer))
            context.region, context.trace_on = read_region(answer)
        except BaseException as error:
            context.error = error
            if self._faults is not None and isinstance(error, PyroMQError):
                self._faults.note(queue.broker_name, self._clock.now() - started, failed=True)
            raise
        else:
            if self._faults is not None:
                self._faults.note(queue.broker_name, self._clock.now() - started)
            return context.result
        finally:
            run_hooks([hook.after for hook in self._hooks], context)

    def _before(
        self, queue: MessageQueue, address: str, outgoing: PreparedMessage, *, oneway: bool = False
    ) -> SendContext:
        context = SendContext(
            group=self.rules.group,
            message=outgoing.source,
            message_id=outgoing.message_id,
            queue=self._bare(queue),
            address=address,
            oneway=oneway,
            messages=outgoing.sources,
            body_size=len(outgoing.body),
            delayed=outgoing.delayed,
            half=bool(outgoing.sys_flag & TRANSACTION_PREPARED),
        )
        for hook in self._hooks:
            hook.check(context)
        run_hooks([hook.before for hook in self._hooks], context)
        return context

    def tell_end(self, context: EndContext) -> None:
        """Have hooks hear of a transaction's end, before the broker does."""
        run_hooks([hook.end for hook in self._hooks], context)

    async def _explained(self, error: PyroMQError, outgoing: PreparedMessage, tried: Sequence[str]) -> PyroMQError:
        """Return the error with what is wrong on the way to the topic, if it was the way, and with who was tried."""
        if isinstance(error, RemotingError | NoRoute):
            error = type(error)(f"{error}; {await self.instance.explain(outgoing.topic)}")
            if isinstance(error, RemotingError):
                error.message_id = outgoing.message_id
        return with_note(error, f"attempts: {len(tried)}, on {', '.join(tried)}")

    async def send_oneway(self, queue: MessageQueue, outgoing: PreparedMessage) -> None:
        """Send to one queue and hear nothing of it."""
        try:
            address = await self._routes.find_master(queue)
            context = self._before(queue, address, outgoing, oneway=True) if self._hooks else None
            await self._api.send_oneway(address, self._header(outgoing, queue), outgoing.body)
        except (RemotingError, NoRoute) as error:
            self.instance.refresh_soon()
            raise await self._explained(error, outgoing, [queue.broker_name]) from error.__cause__
        if context is not None:
            run_hooks([hook.after for hook in self._hooks], context)

    def _header(self, outgoing: PreparedMessage, queue: MessageQueue) -> SendMessageRequestHeaderV2:
        return SendMessageRequestHeaderV2(
            producer_group=self.rules.group,
            topic=outgoing.topic,
            default_topic=TBW102,
            default_topic_queue_nums=self.rules.topic_queues,
            queue_id=queue.queue_id,
            sys_flag=outgoing.sys_flag,
            born_timestamp=outgoing.born_timestamp_ms,
            flag=outgoing.flag,
            properties=outgoing.properties,
            reconsume_times=0,
            batch=outgoing.batch,
        )

    def _bare_queues(self, info: TopicPublishInfo) -> list[MessageQueue]:
        return [self._bare(queue) for queue in info.queues]

    def _bare(self, queue: MessageQueue) -> MessageQueue:
        return queue._replace(topic=without_namespace(queue.topic, self._namespace))


def with_note(error: PyroMQError, note: str) -> PyroMQError:
    """Return a copy with a note: a lost connection ends all its requests with one and the same exception."""
    noted = copy(error)
    noted.__notes__ = [*getattr(error, "__notes__", ()), note]
    return noted


def _may_work_elsewhere(error: PyroMQError) -> bool:
    if isinstance(error, AccessDenied):  # all brokers of a cluster have the same accounts
        return False
    return error.code in RETRY_CODES if isinstance(error, BrokerError) else error.retriable
