"""Topics, queues and offsets as the brokers report them, for Spark's processes, which have no event loop."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from pyromq.client.consume.start_from import first_offset_since
from pyromq.client.net.calls.answers import PullAnswer, PullStatus
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.client.net.diagnosis import diagnose, explain
from pyromq.client.net.routes import Routes, read_queues
from pyromq.client.portal import Portal
from pyromq.errors import AccessDenied, NoRoute, PyroMQError
from pyromq.protocol.acl import Credentials
from pyromq.protocol.codes import MASTER_ID, PULL_SUBSCRIPTION_FLAG, PULL_SUSPEND_FLAG
from pyromq.protocol.headers.pull import PullMessageRequestHeader
from pyromq.protocol.messages.message import MessageQueue
from pyromq.protocol.names import REPLY_SUFFIX, TOOLS_CONSUMER_GROUP
from pyromq.protocol.tag_filter import EVERYTHING, TAG
from pyromq.remoting.tls.client_tls import Tls
from pyromq.spark.offsets import Offsets, queue_name
from pyromq.spark.read.plan.queue_source import is_for_patterns

logger = logging.getLogger(__name__)

_COMMIT_TIMEOUT = 1.0
_MOST_POLLS = 64
"""Queues watched at once while a stream is idle; messages in other queues are seen when the wait ends."""

Answers = dict[MessageQueue, int | PyroMQError]


class Pull(NamedTuple):
    """One pull: which queue, from where, and how much."""

    queue: MessageQueue
    offset: int
    broker_id: int = MASTER_ID
    """Which broker of the group to ask; if it is gone, another one is asked."""
    group: str | None = None
    expression: str = EVERYTHING
    expression_type: str = TAG
    max_count: int = 1
    max_bytes: int | None = None
    """Size limit, for PyroMQ brokers only; other brokers stop at 32 messages or 256 KiB."""
    wait_ms: int = 0
    timeout: float = 10.0

    def header(self) -> PullMessageRequestHeader:
        """Return the request header. It carries its own subscription, so no heartbeat is needed first."""
        return PullMessageRequestHeader(
            consumer_group=self.group or TOOLS_CONSUMER_GROUP,
            topic=self.queue.topic,
            queue_id=self.queue.queue_id,
            queue_offset=self.offset,
            max_msg_nums=self.max_count,
            sys_flag=PULL_SUBSCRIPTION_FLAG | (PULL_SUSPEND_FLAG if self.wait_ms else 0),
            commit_offset=0,
            suspend_timeout_millis=self.wait_ms,
            subscription=self.expression,
            sub_version=0,
            expression_type=self.expression_type,
            pyromq_max_bytes=self.max_bytes,
        )


_connected: dict[tuple[int, str, Credentials | None, bool | Tls | None], BrokerQueues] = {}


def connect(namesrv: str, credentials: Credentials | None = None, tls: bool | Tls | None = None) -> BrokerQueues:
    """Return this process's connections to a cluster; they are kept because a worker serves many tasks."""
    key = os.getpid(), namesrv, credentials, tls  # a forked process must not use its parent's connection
    if key not in _connected:
        _connected[key] = BrokerQueues(namesrv, credentials, tls)
    return _connected[key]


class BrokerQueues:
    """The queues of a cluster, as its brokers report them; every call raises PyroMQError if it gets no answer."""

    def __init__(self, namesrv: str, credentials: Credentials | None = None, tls: bool | Tls | None = None) -> None:
        self._portal = Portal.shared()
        self._api = self._portal.call(BrokerApi.connect(namesrv, credentials=credentials, tls=tls))
        self._routes = Routes(self._api, self._explain)
        self._out_of_reach: set[MessageQueue] = set()

    async def _explain(self, topic: str) -> str:
        return explain(await diagnose(self._api, topic))

    # --- topics and queues -------------------------------------------------------------------------------------------

    def topics(self, names: Sequence[str], pattern: str | None) -> list[str]:
        """Return the named topics, or those that match a pattern, without RocketMQ's own.

        Retry and dead-letter topics match only a pattern that itself begins with %.
        """
        return list(names) if pattern is None else self._portal.call(self._matching(pattern))

    async def _matching(self, pattern: str) -> list[str]:
        names, cluster = await asyncio.gather(self._api.topic_list(), self._api.cluster_info())
        # Each cluster and broker has a topic of its own name, and each cluster a topic for replies.
        own = {*cluster.cluster_addr_table, *cluster.broker_addr_table}
        return [
            name
            for name in names
            if re.fullmatch(pattern, name)
            and is_for_patterns(name, pattern)
            and name.removesuffix(REPLY_SUFFIX) not in own
        ]

    def queues(self, topics: Iterable[str]) -> list[MessageQueue]:
        """Return the queues of the topics as the name servers know them now; raise NoRoute for a topic without any."""
        return self._portal.call(self._find_queues(list(topics)))

    async def _find_queues(self, topics: Sequence[str]) -> list[MessageQueue]:
        found = await asyncio.gather(*map(self._queues_of, topics))
        closed = [topic for topic, queues in zip(topics, found, strict=True) if not queues]
        if closed:  # for example the dead letters of an old broker
            text = f"topic {closed[0]!r} has no readable queue: set its permission to 6 on its brokers"
            if len(closed) == len(topics):
                raise NoRoute(text)
            logger.warning("%s", text)
        return sorted(queue for queues in found for queue in queues)

    async def _queues_of(self, topic: str) -> list[MessageQueue]:
        try:
            return read_queues(topic, await self._routes.refresh(topic))
        except NoRoute as error:
            raise NoRoute(f"{error}: {await self._explain(topic)}") from None

    def is_gone(self, queue: MessageQueue) -> bool:
        """Return True if name servers say that a topic no longer has a queue; look it up again."""
        try:
            return queue not in read_queues(queue.topic, self._portal.call(self._routes.refresh(queue.topic)))
        except NoRoute:
            return True
        except PyroMQError:
            return False

    def refresh(self, topic: str) -> None:
        """Look up a topic's brokers again, because one of them fails."""
        self._portal.call(self._routes.refresh(topic))

    # --- offsets -----------------------------------------------------------------------------------------------------

    def min_offsets(self, queues: Iterable[MessageQueue]) -> Offsets:
        """Return the first offset still available in each queue."""
        return _certain(self._ask(queues, self._min_offset))

    def max_offsets(self, queues: Iterable[MessageQueue]) -> Offsets:
        """Return the offset that the next message of each queue will get."""
        return _certain(self._ask(queues, self._max_offset))

    def reachable_min_offsets(self, queues: Iterable[MessageQueue]) -> Offsets:
        """Return the first offset of each queue whose broker answers; log the others; raise AccessDenied."""
        return self._reachable(self._ask(queues, self._min_offset))

    def reachable_max_offsets(self, queues: Iterable[MessageQueue]) -> Offsets:
        """Return the next offset of each queue whose broker answers; log the others; raise AccessDenied."""
        return self._reachable(self._ask(queues, self._max_offset))

    def ends_at_brokers(self, queues: Iterable[MessageQueue]) -> Offsets:
        """Return the next offset of queues that the routes lack; those whose broker is away are left out and logged.

        Brokers are looked up in the cluster, because a topic may have no route at all. The offset is 0 if the queue
        does not exist.
        """
        masters = self._portal.call(self._masters())
        known = [queue for queue in queues if queue.broker_name in masters]
        return self._reachable(self._ask(known, self._max_offset, masters))

    async def _masters(self) -> dict[str, str]:
        brokers = (await self._api.cluster_info()).broker_addr_table.values()
        return {data.broker_name: data.broker_addrs[MASTER_ID] for data in brokers if MASTER_ID in data.broker_addrs}

    def _min_offset(self, address: str, queue: MessageQueue) -> Awaitable[int]:
        return self._api.min_offset(address, queue.topic, queue.queue_id)

    def _max_offset(self, address: str, queue: MessageQueue) -> Awaitable[int]:
        return self._api.max_offset(address, queue.topic, queue.queue_id)

    def _reachable(self, answers: Answers) -> Offsets:
        for queue, answer in answers.items():
            if isinstance(answer, AccessDenied):
                raise answer
            if isinstance(answer, int):
                self._out_of_reach.discard(queue)
            elif queue not in self._out_of_reach:  # logged once, not twice a second
                self._out_of_reach.add(queue)
                logger.warning("queue %s is unreachable: %s", queue_name(queue), answer)
        return {queue: answer for queue, answer in answers.items() if isinstance(answer, int)}

    def offsets_since(self, queues: Iterable[MessageQueue], timestamp_ms: int, group: str | None) -> Offsets:
        """Return the offset of the first message of each queue that was stored at or after a time."""

        def search(at: str, queue: MessageQueue) -> Awaitable[int]:
            reading_as = group or TOOLS_CONSUMER_GROUP
            return first_offset_since(self._api, at, reading_as, queue.topic, queue.queue_id, timestamp_ms)

        return _certain(self._ask(queues, search))

    def committed_offsets(self, queues: Iterable[MessageQueue], group: str) -> Offsets:
        """Return the offsets that the group has committed; queues without one are left out."""

        async def committed(at: str, queue: MessageQueue) -> int:
            offset = await self._api.query_offset(at, group, queue.topic, queue.queue_id)
            return -1 if offset is None else offset

        return {queue: offset for queue, offset in _certain(self._ask(queues, committed)).items() if offset >= 0}

    def commit(self, offsets: Offsets, group: str) -> Offsets:
        """Commit a group's progress at the brokers; return the offsets they accepted and log the others."""

        async def commit(at: str, queue: MessageQueue) -> int:
            offset = offsets[queue]
            await self._api.commit_offset(at, group, queue.topic, queue.queue_id, offset, timeout=_COMMIT_TIMEOUT)
            return offset

        return self._reachable(self._ask(offsets, commit))

    def _ask(
        self,
        queues: Iterable[MessageQueue],
        question: Callable[[str, MessageQueue], Awaitable[int]],
        masters: Mapping[str, str] | None = None,
    ) -> Answers:
        """Ask the master of each queue, all concurrently; a slave may be behind."""

        async def ask_one(queue: MessageQueue) -> int | PyroMQError:
            try:
                at = masters[queue.broker_name] if masters else await self._routes.find_master(queue)
                return await question(at, queue)
            except PyroMQError as error:
                return error

        async def ask_all() -> Answers:
            wanted = list(queues)
            return dict(zip(wanted, await asyncio.gather(*map(ask_one, wanted)), strict=True))

        return self._portal.call(ask_all())

    # --- messages ----------------------------------------------------------------------------------------------------

    def pull(self, pull: Pull) -> PullAnswer:
        """Pull once."""
        return self._portal.call(self._pull(pull))

    async def _pull(self, pull: Pull) -> PullAnswer:
        reader = await self._routes.find_reader(pull.queue, pull.broker_id)
        return await self._api.pull(reader.address, pull.header(), timeout=pull.timeout)

    def address(self, queue: MessageQueue, broker_id: int) -> str:
        """Return the address to read a queue from: that broker's, or another one's of its group if it is gone."""
        return self._portal.call(self._routes.find_reader(queue, broker_id)).address

    def wait_for_message(self, positions: Offsets, group: str | None, timeout: float) -> None:
        """Return as soon as a message arrives at one of the positions, or after `timeout` seconds."""
        watched = random.sample(sorted(positions), min(len(positions), _MOST_POLLS))
        pulls = [
            Pull(queue, positions[queue], group=group, max_count=1, wait_ms=int(timeout * 1000), timeout=timeout + 1)
            for queue in watched
        ]
        self._portal.call(self._first_arrival(pulls, timeout))

    async def _first_arrival(self, pulls: Sequence[Pull], timeout: float) -> None:
        over = asyncio.sleep(timeout)
        waiting = [asyncio.ensure_future(wait) for wait in (over, *map(self._arrival, pulls))]
        _, pending = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)

    async def _arrival(self, pull: Pull) -> None:
        """Return when a message has arrived; wait for ever if the broker fails or its long poll times out."""
        try:
            if (await self._pull(pull)).status is not PullStatus.NO_NEW_MESSAGE:
                return
        except PyroMQError as error:
            logger.debug("queue %s cannot be watched: %s", queue_name(pull.queue), error)
        await asyncio.Event().wait()


def _certain(answers: Answers) -> Offsets:
    """Return the answers; raise the first error among them."""
    offsets = {}
    for queue, answer in answers.items():
        if isinstance(answer, PyroMQError):
            raise answer
        offsets[queue] = answer
    return offsets
