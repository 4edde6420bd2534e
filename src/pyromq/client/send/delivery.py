"""Delivery sends one prepared message to a broker, and to another broker if the first fails."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

from msgspec import Struct

from pyromq.client.config import ClientConfig
from pyromq.client.hooks import EndContext, SendContext, SendHook, run_hooks
from pyromq.client.net.calls.answers import SendAnswer
from pyromq.client.net.calls.base import CALL_TIMEOUT
from pyromq.client.net.calls.broker_api import read_region, read_sent
from pyromq.client.net.calls.timer_calls import WaitingMessage
from pyromq.client.net.publish_info import Select, TopicPublishInfo, queue_by_choice, queue_for_key
from pyromq.client.net.route_watch import LONGEST_PAUSE
from pyromq.client.net.sharing import borrow_instance
from pyromq.client.send.fault_tolerance import LatencyFaultTolerance
from pyromq.client.send.prepare import PreparedMessage
from pyromq.client.send_result import SendResult, SendStatus
from pyromq.clock import Clock, wait_for
from pyromq.errors import (
    AccessDenied,
    BrokerError,
    ClientError,
    ConnectFailed,
    FateUnknown,
    InvalidMessage,
    NoMaster,
    NoNameServer,
    NoRoute,
    PyroMQError,
    RemotingError,
    RequestTimeout,
    ServiceNotAvailable,
)
from pyromq.protocol.codes import ResponseCode
from pyromq.protocol.headers.send import SendMessageRequestHeaderV2
from pyromq.protocol.headers.transactions import EndTransactionRequestHeader
from pyromq.protocol.messages.message import Message, MessageQueue
from pyromq.protocol.messages.record import TRANSACTION_PREPARED
from pyromq.protocol.names import TBW102, with_namespace, without_namespace
from pyromq.remoting.connection import Connection

# After these answers another broker is tried. SYSTEM_BUSY is not among them: more sends would not help.
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
_RESTART_PAUSE = 0.1  # seconds between two tries while a broker is away

Attempt = tuple[MessageQueue, SendResult | PyroMQError]
"""One attempt to send: the queue, and the result or error."""


class DeliveryRules(Struct, frozen=True, kw_only=True):
    """How a producer sends."""

    group: str
    namespace: str | None
    topic_queues: int
    retries: int
    retry_not_stored: bool
    """Also try another broker if one has stored the message, but less safely than requested."""
    hooks: Sequence[SendHook] = ()
    avoid_slow: bool = False
    """Avoid brokers that failed or answered slowly for some time."""


class Delivery:
    """Sends for one producer, while it is open; by itself the session of a simple producer."""

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
        """True if every attempt is reported, to hooks or to the fault tolerance."""

    async def start(self) -> None:
        """Join the producer group; no broker is asked before the first send."""
        self.handle.join_as_producer(self.rules.group)
        self.instance.start()

    async def close(self, *, failed: bool = False) -> None:
        """Leave the producer group."""
        await self.handle.close()

    async def queues(self, topic: str) -> list[MessageQueue]:
        """Return the queues of a topic, without namespace."""
        return self._bare_queues(await self._routes.find_queues(with_namespace(topic, self._namespace)))

    async def choose(
        self,
        message: Message,
        topic: str,
        *,
        order_key: str | None = None,
        queue: MessageQueue | None = None,
        select: Select | None = None,
        timeout: float = CALL_TIMEOUT,
    ) -> MessageQueue:
        """Return the given queue, the one that the key or function selects, or the next in turn.

        If the topic's brokers have only slaves, wait for a master, at most for `timeout`.
        """
        if (order_key is not None) + (queue is not None) + (select is not None) > 1:
            raise ClientError("give only one of order_key=, queue= and select=")
        if queue is not None:
            if not isinstance(queue, MessageQueue):
                raise ClientError(f"queue= takes one of `await producer.queues({message.topic!r})`, not {queue!r}")
            if queue.topic not in (message.topic, topic):
                raise InvalidMessage(f"the queue is one of topic {queue.topic!r}, the message has {message.topic!r}")
            return queue._replace(topic=topic)
        info = self._routes.publish_info(topic)
        if info is None:
            info = await self._await_queues(topic, timeout + self._clock.monotonic())
        if order_key is not None:
            return queue_for_key(info.queues, order_key)
        if select is not None:
            return queue_by_choice(self._bare_queues(info), message, select)._replace(topic=topic)
        return info.next()

    async def send_chosen(
        self,
        message: Message,
        prepared: PreparedMessage,
        timeout: float,
        *,
        order_key: str | None,
        queue: MessageQueue | None,
        select: Select | None,
    ) -> SendResult:
        """Send to the queue that the caller chooses in one way or another."""
        is_known = self._routes.publish_info(prepared.topic) is not None
        began = 0.0 if is_known else self._clock.monotonic()
        chosen = await self.choose(
            message, prepared.topic, order_key=order_key, queue=queue, select=select, timeout=timeout
        )
        left = timeout if is_known else timeout + began - self._clock.monotonic()
        return await self.send_to(chosen, prepared, left)

    async def announce(self, topic: str) -> None:
        """Send a heartbeat to the brokers of a topic that have had none: only then can they push requests to us."""
        await self._await_queues(topic, CALL_TIMEOUT + self._clock.monotonic())
        known = self.instance.heartbeats.brokers
        if any(address not in known for address in self._routes.addresses(slaves=False)):
            await self.instance.heartbeats.beat()

    async def send_anywhere(
        self, prepared: PreparedMessage, timeout: float, first: Attempt | None = None, began: float | None = None
    ) -> SendResult:
        """Send to the next queue in turn; if that fails, to other brokers, all within `timeout`.

        `first` is an attempt that was already made, and `began` the monotonic time at which it was.
        """
        deadline = timeout + (self._clock.monotonic() if began is None else began)
        info = self._routes.publish_info(prepared.topic) or await self._look_up(prepared, timeout, deadline)
        tried: list[str] = []
        stored: SendResult | None = None
        following: MessageQueue | None = self._next(info, tried) if first is None else first[0]
        while following is not None:
            queue, outcome = first or await self._attempt(following, prepared, timeout, deadline)
            first = None
            tried.append(queue.broker_name)
            if isinstance(outcome, SendResult):
                if self.is_final(outcome):
                    return outcome
                stored = outcome
                following = None if self._is_last(tried, deadline) else self._next(info, tried)
            else:
                following = await self._after_failure(outcome, queue, info, tried, deadline)
        if stored is not None:
            return stored
        assert isinstance(outcome, PyroMQError)
        raise await self._explained(outcome, prepared, tried) from outcome.__cause__

    async def _look_up(self, prepared: PreparedMessage, timeout: float, deadline: float) -> TopicPublishInfo:
        finding = self._await_queues(prepared.topic, deadline)
        try:
            return await wait_for(self._clock, finding, deadline - self._clock.monotonic())
        except TimeoutError:
            text = f"no name server told within {timeout:g} s where {prepared.topic!r} is; the message was not sent"
            raise await self._explained(RequestTimeout(text), prepared, []) from None

    async def _await_queues(self, topic: str, deadline: float) -> TopicPublishInfo:
        """Return the topic's queues; if its brokers have only slaves, wait until one of them is promoted."""
        while True:
            try:
                return await self._routes.find_queues(topic)
            except NoMaster as error:
                route = self._routes.known(topic)
                if route is None or deadline - self._clock.monotonic() < LONGEST_PAUSE:
                    raise with_note(error, "the message was not sent") from None
                await self._routes.watch.look(topic, route.broker_datas[0].broker_name)

    # --- after a failure ---------------------------------------------------------------------------------------------

    async def _after_failure(
        self, error: PyroMQError, queue: MessageQueue, info: TopicPublishInfo, tried: Sequence[str], deadline: float
    ) -> MessageQueue | None:
        """Return the queue to try next: of another broker at once, else of this one's new master; None to give up."""
        name = queue.broker_name
        self._api.unreachable.failed(self._routes.master(name), error)
        if not _may_work_elsewhere(error) or self._clock.monotonic() >= deadline:
            return None
        self.instance.refresh_soon()
        is_last = len(tried) > self.rules.retries
        if not is_last and any(other.broker_name not in tried for other in info.queues):
            return self._next(info, tried)
        if self._may_take_over(name, error) and (not is_last or _was_not_stored(error)):
            return queue if await self._await_master(queue, deadline) else None
        if is_last:
            if await self._has_new_slaves(queue, error, deadline):
                return queue
            return queue if _was_not_reached(error) and await self._await_restart(queue, deadline) else None
        if self._routes.watch.is_calm(name):  # it may be back elsewhere
            await self._look(queue, deadline)
        return self._next(info, tried)

    async def _await_restart(self, queue: MessageQueue, deadline: float) -> bool:
        """Wait a moment for a broker that may be restarting, and ask where it is; return False if time is up."""
        if self._clock.monotonic() + _RESTART_PAUSE >= deadline:
            return False
        await self._clock.sleep(_RESTART_PAUSE)
        if self._routes.watch.is_calm(queue.broker_name):
            await self._look(queue, deadline)
        return self._clock.monotonic() < deadline

    def _may_take_over(self, broker_name: str, error: PyroMQError) -> bool:
        """Return True if a broker failed in a way that makes a slave of it master, sooner or later."""
        failed = isinstance(error, RemotingError | NoRoute | ServiceNotAvailable)
        return failed and self._routes.has_slaves(broker_name)

    async def _has_new_slaves(self, queue: MessageQueue, error: PyroMQError, deadline: float) -> bool:
        """Return True if a broker that refused has slaves by now: one of them is the master, or will be."""
        refused = isinstance(error, ServiceNotAvailable) and _was_not_stored(error)
        return refused and await self._look(queue, deadline) and self._routes.has_slaves(queue.broker_name)

    async def _await_master(self, queue: MessageQueue, deadline: float) -> bool:
        """Ask for the route until a master is known, perhaps the same as before; return False if time is up."""
        while await self._look(queue, deadline):
            if self._routes.master(queue.broker_name) is not None:
                return True
        return False

    async def _look(self, queue: MessageQueue, deadline: float) -> bool:
        """Ask a name server where the queue's broker is now; return False if no time is left after that."""
        left = deadline - self._clock.monotonic()
        try:
            await wait_for(self._clock, self._routes.watch.look(queue.topic, queue.broker_name), left)
        except TimeoutError:
            return False
        return self._clock.monotonic() < deadline

    async def _attempt(
        self, queue: MessageQueue, prepared: PreparedMessage, timeout: float, deadline: float
    ) -> Attempt:
        try:
            return queue, await self._send_to(queue, prepared, min(timeout, deadline - self._clock.monotonic()))
        except PyroMQError as error:
            return queue, error

    def next_ready(self, topic: str) -> tuple[MessageQueue, Connection] | None:
        """Return the next queue and its connection if it is open; else the general path begins with the same queue."""
        info = self._routes.publish_info(topic)
        if info is None:
            return None
        queue = info.next()
        connection = self._api.remoting.ready(self._routes.master(queue.broker_name))
        if connection is None:
            info.give_back()
            return None
        return queue, connection

    def is_final(self, result: SendResult) -> bool:
        """Return True if no other broker needs to be tried: the message is stored, and as safely as requested."""
        return result.status is _SEND_OK or not self.rules.retry_not_stored

    def _next(self, info: TopicPublishInfo, tried: Sequence[str]) -> MessageQueue:
        if self._faults is not None:
            return self._faults.choose(info)
        unreachable = self._api.unreachable
        if tried or unreachable:
            found = info.next_where(lambda name: name not in tried and self._routes.master(name) not in unreachable)
            if found is not None:
                return found
        return info.next_elsewhere(tried[-1]) if tried else info.next()

    def _is_last(self, tried: Sequence[str], deadline: float) -> bool:
        return len(tried) > self.rules.retries or self._clock.monotonic() >= deadline

    async def cancel(self, result: SendResult) -> bool:
        """Cancel a timed message; return True if it was still waiting."""
        queue = result.queue._replace(topic=with_namespace(result.queue.topic, self._namespace))
        address = self._routes.master(queue.broker_name) or await self._routes.find_master(queue)
        await self.instance.heartbeats.require_timer(address)
        message = WaitingMessage(queue.topic, queue.broker_name, result.message_id, result.offset_message_id)
        return await self._api.cancel_waiting(address, self.rules.group, message)

    async def send_to(self, queue: MessageQueue, prepared: PreparedMessage, timeout: float) -> SendResult:
        """Send to one queue, once; again only if the broker has surely not stored it, and may come back in time."""
        deadline = timeout + self._clock.monotonic()
        tried: list[str] = []
        while True:
            _, outcome = await self._attempt(queue, prepared, timeout, deadline)
            tried.append(queue.broker_name)
            if isinstance(outcome, SendResult):
                return outcome
            self._api.unreachable.failed(self._routes.master(queue.broker_name), outcome)
            if isinstance(outcome, RemotingError | NoRoute | ServiceNotAvailable):
                self.instance.refresh_soon()
            if not _was_not_stored(outcome):
                break
            if self._may_take_over(queue.broker_name, outcome):
                may_come_back = await self._await_master(queue, deadline)
            elif _was_not_reached(outcome):
                may_come_back = await self._await_restart(queue, deadline)
            else:
                may_come_back = await self._has_new_slaves(queue, outcome, deadline)
            if not may_come_back:
                break
        if isinstance(outcome, RemotingError | NoRoute):
            raise await self._explained(outcome, prepared, tried) from outcome.__cause__
        raise outcome

    async def _send_to(self, queue: MessageQueue, prepared: PreparedMessage, timeout: float) -> SendResult:
        if timeout <= 0:
            raise RequestTimeout("no time is left to send the message; it was not sent")
        address = self._routes.master(queue.broker_name) or await self._routes.find_master(queue)
        if prepared.timed:
            await self.instance.heartbeats.require_timer(address)
        if self.is_watched:
            return await self._send_watched(queue, address, prepared, timeout)
        return await self._send(queue, address, prepared, timeout)

    async def _send(self, queue: MessageQueue, address: str, prepared: PreparedMessage, timeout: float) -> SendResult:
        answer = await self._api.send(address, self.header(prepared, queue), prepared.body, timeout=timeout)
        return self.result(queue, prepared.message_id, answer)

    def result(self, queue: MessageQueue, message_id: str, answer: SendAnswer) -> SendResult:
        """Return a broker's answer as the result for the caller."""
        if answer.queue_id != queue.queue_id or self._namespace:
            queue = self._bare(queue)._replace(queue_id=answer.queue_id)
        return SendResult(answer.status, message_id, answer.offset_message_id, queue, answer.queue_offset)

    async def _send_watched(
        self, queue: MessageQueue, address: str, prepared: PreparedMessage, timeout: float
    ) -> SendResult:
        context = self._before(queue, address, prepared)
        started = self._clock.monotonic()
        try:
            header = self.header(prepared, queue)
            answer = await self._api.send_for_answer(address, header, prepared.body, timeout=timeout)
            context.result = self.result(queue, prepared.message_id, read_sent(answer))
            context.region, context.trace_on = read_region(answer)
        except BaseException as error:
            context.error = error
            if self._faults is not None and isinstance(error, PyroMQError):
                self._faults.note(queue.broker_name, self._clock.monotonic() - started, failed=True)
            raise
        else:
            if self._faults is not None:
                self._faults.note(queue.broker_name, self._clock.monotonic() - started)
            return context.result
        finally:
            run_hooks([hook.after for hook in self._hooks], context)

    def _before(
        self, queue: MessageQueue, address: str, prepared: PreparedMessage, *, oneway: bool = False
    ) -> SendContext:
        context = SendContext(
            group=self.rules.group,
            message=prepared.source,
            message_id=prepared.message_id,
            queue=self._bare(queue),
            address=address,
            oneway=oneway,
            messages=prepared.sources,
            body_size=len(prepared.body),
            delayed=prepared.delayed,
            half=bool(prepared.sys_flag & TRANSACTION_PREPARED),
        )
        for hook in self._hooks:
            hook.check(context)
        run_hooks([hook.before for hook in self._hooks], context)
        return context

    def run_end_hooks(self, context: EndContext) -> None:
        """Report the end of a transaction to the hooks, before the broker is told."""
        run_hooks([hook.end for hook in self._hooks], context)

    async def end_transaction(
        self, queue: MessageQueue, header: EndTransactionRequestHeader, cause: str, timeout: float
    ) -> None:
        """Tell the master how a transaction ended: another one if that takes over within `timeout`."""
        deadline = timeout + self._clock.monotonic()
        while True:
            try:
                address = await self._routes.find_master(queue)
                return await self._api.end_transaction(address, header, cause)
            except (RemotingError, NoRoute) as error:
                self.instance.refresh_soon()
                if not (self._may_take_over(queue.broker_name, error) and await self._await_master(queue, deadline)):
                    raise

    async def _explained(self, error: PyroMQError, prepared: PreparedMessage, tried: Sequence[str]) -> PyroMQError:
        """Return the error with a diagnosis, if the broker was not reached, and with the brokers that were tried."""
        if isinstance(error, RemotingError | NoRoute):
            why = "" if isinstance(error, NoNameServer) else f"; {await self.instance.explain(prepared.topic)}"
            error = type(error)(f"{error}{why}")
            if isinstance(error, RemotingError):
                error.message_id = prepared.message_id
        return with_note(error, f"attempts: {len(tried)}, on {', '.join(dict.fromkeys(tried))}") if tried else error

    async def send_oneway(self, queue: MessageQueue, prepared: PreparedMessage) -> None:
        """Send to one queue without an answer."""
        try:
            address = await self._routes.find_master(queue)
            context = self._before(queue, address, prepared, oneway=True) if self._hooks else None
            await self._api.send_oneway(address, self.header(prepared, queue), prepared.body)
        except (RemotingError, NoRoute) as error:
            self.instance.refresh_soon()
            raise await self._explained(error, prepared, [queue.broker_name]) from error.__cause__
        if context is not None:
            run_hooks([hook.after for hook in self._hooks], context)

    def header(self, prepared: PreparedMessage, queue: MessageQueue) -> SendMessageRequestHeaderV2:
        """Return the header of the request that sends a message, or a batch, to a queue."""
        return SendMessageRequestHeaderV2(
            producer_group=self.rules.group,
            topic=prepared.topic,
            default_topic=TBW102,
            default_topic_queue_nums=self.rules.topic_queues,
            queue_id=queue.queue_id,
            sys_flag=prepared.sys_flag,
            born_timestamp=prepared.born_timestamp_ms,
            flag=prepared.flag,
            properties=prepared.properties,
            reconsume_times=0,
            batch=prepared.batch,
        )

    def _bare_queues(self, info: TopicPublishInfo) -> list[MessageQueue]:
        return [self._bare(queue) for queue in info.queues]

    def _bare(self, queue: MessageQueue) -> MessageQueue:
        return queue._replace(topic=without_namespace(queue.topic, self._namespace))


def with_note(error: PyroMQError, note: str) -> PyroMQError:
    """Return a copy with a note. A copy, because all requests of a lost connection share one exception."""
    noted = copy(error)
    noted.__notes__ = [*getattr(error, "__notes__", ()), note]
    return noted


def _was_not_stored(error: PyroMQError) -> bool:
    """Return True if no broker can have the message."""
    return isinstance(error, ConnectFailed | NoRoute | ServiceNotAvailable) and not isinstance(error, FateUnknown)


def _was_not_reached(error: PyroMQError) -> bool:
    """Return True if no broker was there: one that answers is not restarting."""
    return isinstance(error, ConnectFailed | NoRoute)


def _may_work_elsewhere(error: PyroMQError) -> bool:
    if isinstance(error, AccessDenied):  # all brokers of a cluster have the same accounts
        return False
    return error.code in RETRY_CODES if isinstance(error, BrokerError) else error.retriable
