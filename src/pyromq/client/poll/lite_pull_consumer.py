"""LitePullConsumer: the caller polls for messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Never, Self

from pyromq.client.config import ClientConfig, FlowControl, check_options
from pyromq.client.consume.offset_store import OffsetStore
from pyromq.client.consume.queue_changes import OnQueues, QueueChanges
from pyromq.client.consume.start_from import StartFrom, check_start_from, first_offset_since, to_ms
from pyromq.client.consume.subscriptions import Expression, subscribe, subscribe_all
from pyromq.client.group.allocation import Allocate, allocate_averagely
from pyromq.client.lifecycle import ClientLifecycle
from pyromq.client.net.address import chosen_namesrv
from pyromq.client.net.routes import read_queues
from pyromq.client.poll.poll_session import PollSession, next_offsets
from pyromq.client.poll.poll_settings import PollSettings
from pyromq.client.trace.client_metrics import ClientMetrics, recorder_for, report_received
from pyromq.clock import Clock, SystemClock, wait_for
from pyromq.errors import ClientError
from pyromq.protocol.acl import Credentials
from pyromq.protocol.messages.message import MessageExt, MessageQueue
from pyromq.protocol.names import DEFAULT_CONSUMER_GROUP, check_group, with_namespace, without_namespace
from pyromq.protocol.tag_filter import EVERYTHING
from pyromq.remoting.tls.client_tls import Tls


class LitePullConsumer(ClientLifecycle[PollSession]):
    """Reads topics when the caller asks for messages; all consumers of the group share the queues.

    >>> async with LitePullConsumer(group="audit", namesrv="127.0.0.1:9876", subscriptions={"orders": "*"}) as consumer:
    ...     async for message in consumer:
    ...         print(message.body)

    With `auto_commit` messages are committed after the caller has asked for more, so that a message whose handling
    raised is delivered again. Without it, `commit()` covers what was returned before the call, or a part of it.
    `on_assigned` and `on_revoked` are called with the queues that the consumer has got, such as to `seek`, and with
    those that it is about to give up to another member, such as to `commit`; not when it is closed. `start_from`
    applies only to queues without a committed offset. Only one task or thread may poll or iterate, because each poll
    acknowledges what the last one returned; for more, use several consumers of the group.

    After `start` a consumer with subscriptions has its queues; ConnectFailed is raised if no name server answers. A
    topic that does not exist yet is read as soon as it does. `close` commits what was returned (with `auto_commit`) and
    leaves the group. `metrics` is "prometheus" or "opentelemetry": what it returns is counted there.
    """

    def __init__(
        self,
        group: str,
        namesrv: str | Sequence[str] | None = None,
        subscriptions: Mapping[str, Expression] | None = None,
        *,
        start_from: StartFrom = "latest",
        auto_commit: bool = True,
        auto_commit_interval: float = 5.0,
        pull_batch: int = 32,
        poll_timeout: float = 5.0,
        flow_control: FlowControl | None = None,
        allocate: Allocate = allocate_averagely,
        on_assigned: OnQueues | None = None,
        on_revoked: OnQueues | None = None,
        metrics: ClientMetrics | None = None,
        offset_store: OffsetStore | None = None,
        namespace: str | None = None,
        credentials: Credentials | None = None,
        tls: bool | Tls | None = None,
        instance_name: str | None = None,
        clock: Clock | None = None,
    ) -> None:
        check_options(locals())
        if group == DEFAULT_CONSUMER_GROUP:
            raise ClientError(f"the group name {group} is reserved; choose one of your own")
        check_group(group)
        self._namespace = namespace
        self._settings = PollSettings(
            client=ClientConfig(
                namesrv=chosen_namesrv(namesrv),
                instance_name=instance_name,
                namespace=namespace,
                credentials=credentials,
                tls=tls,
            ),
            group=with_namespace(group, namespace),
            subscriptions=subscribe_all(subscriptions, namespace),
            start=check_start_from(start_from),
            auto_commit=auto_commit,
            auto_commit_interval=auto_commit_interval,
            pull_batch=pull_batch,
            flow_control=flow_control or FlowControl(),
            allocate=allocate,
            changes=QueueChanges(on_assigned, on_revoked, self._bare_queue),
            offset_store=offset_store,
        )
        self.group = self._settings.group
        self._poll_timeout = poll_timeout
        self._clock = clock or SystemClock()
        self._recorder = recorder_for(metrics)
        super().__init__("consumer", partial(PollSession, self._settings, self._clock))

    @property
    def client_id(self) -> str:
        """The id by which brokers and the other members know this consumer."""
        return self._session.instance.client_id

    # --- messages ----------------------------------------------------------------------------------------------------

    async def poll(self, timeout: float | None = None, max_messages: int | None = None) -> list[MessageExt]:
        """Return the next messages, at most `max_messages` (default: `pull_batch`); an empty list after `timeout`.

        Raises AccessDenied if the account may not read a queue and no other queue has messages, and ClientError while
        another task or thread polls.
        """
        session = self._session
        session.ready.begin_poll()
        try:
            most = self._settings.pull_batch if max_messages is None else max_messages
            messages = session.ready.take(most)
            if not messages:
                with suppress(TimeoutError):
                    patience = self._poll_timeout if timeout is None else timeout
                    await wait_for(self._clock, session.ready.arrival.wait(), patience)
                messages = session.ready.take(most)
            return self._counted(messages)
        finally:
            session.ready.end_poll(self._clock.now())

    def __iter__(self) -> Never:
        raise ClientError("this consumer is async: write `async for message in consumer`, or use pyromq.blocking")

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> MessageExt:
        """Wait for the next message and return it; the iteration ends when the consumer is closed."""
        session = self._session
        session.ready.begin_poll()
        try:
            while not (messages := session.ready.take(1)):
                if self._opened is not session:
                    raise StopAsyncIteration
                await session.ready.arrival.wait()
            return self._counted(messages)[0]
        finally:
            session.ready.end_poll(self._clock.now())

    def _counted(self, messages: list[MessageExt]) -> list[MessageExt]:
        if self._recorder is not None:
            report_received(self._recorder, self._clock, self.group, messages)
        return messages

    async def commit(self, upto: Mapping[MessageQueue, int] | MessageExt | Iterable[MessageExt] | None = None) -> None:
        """Commit everything that was returned before this call; on return the brokers have the offsets.

        `upto` commits a part of it: a message, or messages, up to and including the last of each queue; or for each
        queue the offset to continue at. A committed offset moves back only after a `seek`. Raises ClientError for a
        queue that is not assigned, or an offset behind what was returned.
        """
        if upto is None:
            await self._session.commit_handed_out()
        else:
            offsets = {self._full_queue(queue): offset for queue, offset in next_offsets(upto).items()}
            await self._session.commit_offsets(offsets)

    async def subscribe(self, topic: str, expression: Expression = "*") -> None:
        """Read another topic, or a topic with another filter; all members of the group should do the same.

        It cannot be combined with `assign`.
        """
        await self._session.subscribe(subscribe(self._full(topic), expression, self._clock.now_ms()))

    async def unsubscribe(self, topic: str) -> None:
        """Give up the queues of a topic; with `auto_commit`, what was handled is committed."""
        await self._session.unsubscribe(self._full(topic))

    async def committed(self, queue: MessageQueue) -> int | None:
        """Return the group's committed offset of a queue, or None if it has none."""
        return await self._session.offsets.load(self._full_queue(queue))

    # --- queues ------------------------------------------------------------------------------------------------------

    async def queues(self, topic: str) -> list[MessageQueue]:
        """Return all queues of a topic; raises NoRoute if there is no such topic."""
        route = await self._session.instance.routes.find(self._full(topic))
        return [self._bare_queue(queue) for queue in read_queues(self._full(topic), route)]

    @property
    def assignment(self) -> list[MessageQueue]:
        """The queues that this consumer reads now."""
        return sorted(self._bare_queue(held.queue) for held in self._session.assignment)

    async def assign(self, queues: Iterable[MessageQueue], tags: Expression = EVERYTHING) -> None:
        """Read only these queues; the consumer uses the offsets of its group but is not a member of it.

        It cannot be combined with `subscriptions`.
        """
        session = self._session
        if session.subscribed:
            raise ClientError("assign() is not possible with subscriptions: the group shares out the queues")
        await session.assign([self._full_queue(queue) for queue in queues], tags)

    def pause(self, *queues: MessageQueue) -> None:
        """Stop pulling and returning messages of these queues until they are resumed."""
        for queue in queues:
            self._session.assignment.loop(self._full_queue(queue)).held.paused = True

    def resume(self, *queues: MessageQueue) -> None:
        """Continue paused queues where they were."""
        session = self._session
        for queue in queues:
            held = session.assignment.loop(self._full_queue(queue)).held
            held.paused = False
            held.room.set()
            session.ready.note_messages(held)

    def position(self, queue: MessageQueue) -> int | None:
        """Return the offset of the next message to be returned; None if it is not known yet where to start."""
        return self._session.assignment.loop(self._full_queue(queue)).held.position

    async def seek(self, queue: MessageQueue, offset: int) -> None:
        """Continue at an offset; raises ClientError unless the queue is assigned and has that offset.

        The next commit follows it, also backwards.
        """
        begin, end = await self._bounds(queue)
        if not begin <= offset <= end:
            raise ClientError(f"{queue} has offsets from {begin} to {end}, not {offset}")
        self._jump(queue, offset)

    async def seek_to_begin(self, queue: MessageQueue) -> None:
        """Continue at the first message that still exists."""
        self._jump(queue, (await self._bounds(queue))[0])

    async def seek_to_end(self, queue: MessageQueue) -> None:
        """Continue at the next message that will be stored."""
        self._jump(queue, (await self._bounds(queue))[1])

    async def seek_to_time(self, queue: MessageQueue, time: datetime) -> None:
        """Continue at the first message stored at or after a time; a datetime without a zone is local time."""
        session, full = self._session, self._full_queue(queue)
        session.assignment.loop(full)
        address = (await session.instance.routes.find_reader(full)).address
        offset = await first_offset_since(
            session.instance.api, address, self.group, full.topic, full.queue_id, to_ms(time)
        )
        self._jump(queue, offset)

    async def _bounds(self, queue: MessageQueue) -> tuple[int, int]:
        session, full = self._session, self._full_queue(queue)
        session.assignment.loop(full)
        address = (await session.instance.routes.find_reader(full)).address
        api = session.instance.api
        begin = await api.min_offset(address, full.topic, full.queue_id)
        return begin, await api.max_offset(address, full.topic, full.queue_id)

    def _jump(self, queue: MessageQueue, offset: int) -> None:
        self._session.assignment.loop(self._full_queue(queue)).restart_at(offset)

    # --- namespaces --------------------------------------------------------------------------------------------------

    def _full(self, topic: str) -> str:
        return with_namespace(topic, self._namespace)

    def _full_queue(self, queue: MessageQueue) -> MessageQueue:
        return queue._replace(topic=self._full(queue.topic))

    def _bare_queue(self, queue: MessageQueue) -> MessageQueue:
        return queue._replace(topic=without_namespace(queue.topic, self._namespace))
