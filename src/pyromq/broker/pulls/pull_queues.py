"""PULL_QUEUES (30020): a large read of several queues of one topic at once, for our Spark source.

It answers only simple cases. If a filter needs more than tags, or a record is damaged, the answer is "not supported",
and the client pulls queue by queue.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from time import perf_counter
from typing import Protocol

from pyromq.broker.parts import Parts
from pyromq.broker.pulls.pull import MAX_COUNT, PullHandler
from pyromq.broker.pulls.selection import MessageFilter
from pyromq.errors import BrokerError, MalformedHeader, StoreError
from pyromq.protocol.codes import PULL_SUBSCRIPTION_FLAG, ResponseCode
from pyromq.protocol.command import RemotingCommand, response
from pyromq.protocol.frame_templates import with_body_length
from pyromq.protocol.headers.pull import (
    MAX_PULL_BYTES,
    MAX_PULL_QUEUES,
    PullMessageRequestHeader,
    PullQueuesRequestHeader,
    PullQueuesResponseHeader,
)
from pyromq.protocol.tag_filter import TAG
from pyromq.remoting.connection import Connection
from pyromq.store.results import MergedResult, QueueRange

_RANGE = re.compile(r"(\d{1,9}):(\d{1,18}):(\d{1,18})")


class MergedStore(Protocol):
    """A store that reads several queues at once."""

    def get_merged(
        self, topic: str, ranges: Sequence[QueueRange], max_count: int, max_bytes: int, codes: frozenset[int] | None
    ) -> MergedResult | None: ...


class PullQueuesHandler:
    """Sends messages of several queues, in the order of the log. It never waits for one."""

    def __init__(self, parts: Parts, store: MergedStore, pulls: PullHandler) -> None:
        self._store = store
        self._pulls = pulls
        self._stats = parts.stats

    def pull(self, request: RemotingCommand, connection: Connection) -> bytes | None:
        """Send the messages; raise BrokerError with REQUEST_CODE_NOT_SUPPORTED if single pulls are needed."""
        header = request.header(PullQueuesRequestHeader)
        ranges = _ranges(header.ranges)
        result = self._read(header, ranges, self._check(header, ranges))
        for part in (self._head(request, header, result), *result.views, result.sizes):
            connection.send(part)
        return None

    def _check(self, header: PullQueuesRequestHeader, ranges: Sequence[QueueRange]) -> MessageFilter:
        """Make the checks of a pull for each queue."""
        wanted = MessageFilter()
        for part in ranges:
            wanted = self._pulls.check(
                PullMessageRequestHeader(
                    consumer_group=header.consumer_group,
                    topic=header.topic,
                    queue_id=part.queue_id,
                    queue_offset=part.start,
                    max_msg_nums=header.max_msg_nums,
                    sys_flag=PULL_SUBSCRIPTION_FLAG,
                    commit_offset=0,
                    suspend_timeout_millis=0,
                    subscription=header.subscription,
                    sub_version=0,
                    expression_type=TAG,
                )
            )
        return wanted

    def _read(
        self, header: PullQueuesRequestHeader, ranges: Sequence[QueueRange], wanted: MessageFilter
    ) -> MergedResult:
        started = perf_counter()
        most = max(1, min(header.max_msg_nums, MAX_COUNT))
        try:
            result = None
            if wanted.properties is None:
                most_bytes = min(header.max_bytes, MAX_PULL_BYTES)
                result = self._store.get_merged(header.topic, ranges, most, most_bytes, wanted.codes)
        except StoreError as error:
            raise BrokerError(f"the store cannot be read: {error}") from error
        if result is None:
            raise BrokerError("cannot be read at once: pull queue by queue", ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
        read_ms = (perf_counter() - started) * 1000
        self._stats.count_get(header.topic, header.consumer_group, result.count, result.size, read_ms)
        return result

    def _head(self, request: RemotingCommand, header: PullQueuesRequestHeader, result: MergedResult) -> bytes:
        answer = PullQueuesResponseHeader(
            count=result.count,
            suggest_which_broker_id=self._pulls.suggested_broker(
                header.consumer_group, suggest_slave=result.suggest_slave
            ),
            next_offsets=_listed(result.next_offsets),
            min_offsets=_listed(result.min_offsets),
            max_offsets=_listed(result.max_offsets),
        )
        head = response(request, ResponseCode.SUCCESS, None, answer).encode()
        return with_body_length(head, result.size + len(result.sizes))


def _listed(offsets: Sequence[int]) -> str:
    return ",".join(map(str, offsets))


def _ranges(text: str) -> list[QueueRange]:
    found = [_RANGE.fullmatch(part) for part in text.split(",", MAX_PULL_QUEUES)]
    if not all(found) or len(found) > MAX_PULL_QUEUES:
        raise MalformedHeader(f"ranges: expected up to {MAX_PULL_QUEUES} of queue:start:stop, not {text[:40]!r}")
    return [QueueRange(*map(int, part.groups())) for part in found if part is not None]
