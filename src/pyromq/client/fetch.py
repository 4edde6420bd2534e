"""One pull of one queue: where it starts, what is asked for, what of the answer is wanted."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from msgspec import Struct

from pyromq.client.api import BrokerApi
from pyromq.client.offset_store import OffsetStore
from pyromq.client.process_queue import ProcessQueue
from pyromq.client.results import PullAnswer, PullStatus
from pyromq.client.routes import Routes
from pyromq.client.start_from import PULL_WITH_SUBSCRIPTION, Start, start_offset
from pyromq.protocol.filter import TAG, TagFilter
from pyromq.protocol.headers.pull import PullMessageRequestHeader
from pyromq.protocol.message import MessageExt
from pyromq.protocol.names import without_namespace
from pyromq.protocol.record import decode_messages

logger = logging.getLogger(__name__)

PULL_MAY_WAIT = 2
PULL_LITE = 16
BROKER_WAIT_MS = 20_000
PULL_TIMEOUT = 30.0


class Fetched(Struct, gc=False):
    """What one pull brought."""

    messages: list[MessageExt]
    next_offset: int
    moved: bool
    """The offset asked for does not exist: reading goes on at `next_offset`, perhaps further back."""


class Fetcher:
    """Pulls for one group; `filters` says what it wants of each topic."""

    def __init__(
        self,
        *,
        api: BrokerApi,
        routes: Routes,
        offsets: OffsetStore,
        group: str,
        filters: Mapping[str, TagFilter],
        start: Start,
        pull_batch: int,
        namespace: str | None,
    ) -> None:
        self._api = api
        self._routes = routes
        self._offsets = offsets
        self._group = group
        self._filters = filters
        self._start = start
        self._pull_batch = pull_batch
        self._namespace = namespace

    async def begin(self, held: ProcessQueue) -> None:
        """Find out where a queue starts: at the committed offset, and where there is none, as `start_from` says."""
        queue = held.queue
        committed = await self._offsets.load(queue)
        if committed is not None:
            held.start_at(committed)
            held.committed = committed
            return
        reader = await self._routes.find_reader(queue)
        begin = await start_offset(self._api, reader.address, self._group, queue.topic, queue.queue_id, self._start)
        held.start_at(begin)

    async def fetch(self, held: ProcessQueue, offset: int) -> Fetched:
        """Pull once; the broker waits up to 20 s for something to come."""
        queue = held.queue
        reader = await self._routes.find_reader(queue, held.broker_id)
        wanted = self._filters[queue.topic]
        answer = await self._api.pull(reader.address, self._request(held, offset, wanted), timeout=PULL_TIMEOUT)
        held.broker_id = answer.suggested_broker_id
        moved = answer.status is PullStatus.OFFSET_MOVED
        return Fetched(self._messages(answer, queue.broker_name, wanted), answer.next_offset, moved)

    def _request(self, held: ProcessQueue, offset: int, wanted: TagFilter) -> PullMessageRequestHeader:
        return PullMessageRequestHeader(
            consumer_group=self._group,
            topic=held.queue.topic,
            queue_id=held.queue.queue_id,
            queue_offset=offset,
            max_msg_nums=self._pull_batch,
            sys_flag=PULL_WITH_SUBSCRIPTION | PULL_MAY_WAIT | PULL_LITE,
            commit_offset=0,
            suspend_timeout_millis=BROKER_WAIT_MS,
            subscription=wanted.expression,
            sub_version=0,
            expression_type=TAG,
        )

    def _messages(self, answer: PullAnswer, broker_name: str, wanted: TagFilter) -> list[MessageExt]:
        if answer.status is not PullStatus.FOUND:
            return []
        messages = decode_messages(answer.body, broker_name)
        if wanted.tags:  # brokers filter by a hash of the tag, which other tags may share
            messages = [message for message in messages if wanted.accepts(message.tags)]
        if self._namespace:
            for message in messages:
                message.topic = without_namespace(message.topic, self._namespace)
        return messages
