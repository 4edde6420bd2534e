"""TraceDispatcher gathers trace records; TraceSender, a small hidden producer, sends them as trace messages."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from msgspec import Struct, field

from pyromq.client.config import ClientConfig
from pyromq.client.lifecycle import ClientLifecycle
from pyromq.client.send.delivery import Delivery, DeliveryRules
from pyromq.client.send.prepare import MessagePreparer
from pyromq.client.send_result import SendResult
from pyromq.clock import Clock, TimerHandle, wait_for
from pyromq.errors import PyroMQError
from pyromq.protocol.messages.message import Message
from pyromq.protocol.names import MAX_GROUP_LENGTH
from pyromq.protocol.trace_records import TraceRecord, encode_trace_record, record_keys

logger = logging.getLogger(__name__)

FLUSH_INTERVAL: Final = 0.5
"""The longest that a record waits for others, in seconds."""
MAX_WAITING: Final = 20_000
"""Records that may wait or be in flight; more are dropped."""
CLOSE_TIMEOUT: Final = 3.0

_MOST_BYTES: Final = 118_000  # like Apache's client: far below every broker's limit
_MOST_KEY_BYTES: Final = 30_000  # properties may have 32,767


class TraceCounts(Struct, frozen=True):
    """How many trace records of a client were written, dropped and failed."""

    written: int = 0
    dropped: int = 0
    """Too many were waiting."""
    failed: int = 0
    """Brokers did not store their trace message."""


class _Segment(Struct, eq=False):
    """A trace message that is being filled."""

    timer: TimerHandle
    texts: list[bytes] = field(default_factory=list)
    size: int = 0
    keys: dict[str, None] = field(default_factory=dict)  # in the order they came
    key_size: int = 0


class TraceDispatcher:
    """Takes records without making the caller wait; those that it cannot send or hold are counted and lost."""

    def __init__(self, topic: str, clock: Clock, send: Callable[[Message], Awaitable[object]]) -> None:
        self._topic = topic
        self._clock = clock
        self._send = send
        self._open: _Segment | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._waiting = 0
        self._written = self._dropped = self._failed = 0
        self._last_failure = ""

    @property
    def counts(self) -> TraceCounts:
        """The counts so far."""
        return TraceCounts(self._written, self._dropped, self._failed)

    def put(self, records: Sequence[TraceRecord]) -> None:
        """Queue records to be sent soon."""
        if self._waiting + len(records) > MAX_WAITING:
            if not self._dropped:
                logger.warning("trace records are written faster than brokers store them; some are dropped")
            self._dropped += len(records)
            return
        self._waiting += len(records)
        for record in records:
            self._add(record)

    def _add(self, record: TraceRecord) -> None:
        text = encode_trace_record(record).encode()
        keys = record_keys(record)
        if sum(map(_key_size, keys)) > _MOST_KEY_BYTES:
            keys = keys[:1]
        segment = self._segment()
        new = [key for key in keys if key not in segment.keys]
        key_size = sum(map(_key_size, new))
        if segment.texts and segment.key_size + key_size > _MOST_KEY_BYTES:
            self.flush()
            segment, new, key_size = self._segment(), keys, sum(map(_key_size, keys))
        segment.texts.append(text)
        segment.size += len(text)
        segment.keys.update(dict.fromkeys(new))
        segment.key_size += key_size
        if segment.size >= _MOST_BYTES:
            self.flush()

    def _segment(self) -> _Segment:
        if self._open is None:
            self._open = _Segment(self._clock.call_later(FLUSH_INTERVAL, self.flush))
        return self._open

    def flush(self) -> None:
        """Send all waiting records now."""
        segment, self._open = self._open, None
        if segment is not None:
            segment.timer.cancel()
            task = asyncio.create_task(self._deliver(segment), name="pyromq trace")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _deliver(self, segment: _Segment) -> None:
        count = len(segment.texts)
        try:
            await self._send(Message(topic=self._topic, body=b"".join(segment.texts), keys=list(segment.keys)))
        except PyroMQError as error:
            self._failed += count
            self._log(error)
        else:
            self._written += count
            self._last_failure = ""
        finally:
            self._waiting -= count

    def _log(self, error: PyroMQError) -> None:
        kind = type(error).__name__
        if kind != self._last_failure:  # once, not with every trace during an outage
            logger.warning("traces are lost: cannot send them to the topic %s: %s", self._topic, error)
        self._last_failure = kind

    async def close(self) -> None:
        """Send all waiting records; those that take longer than 3 s are lost."""
        self.flush()
        with suppress(TimeoutError):
            await wait_for(self._clock, asyncio.gather(*self._tasks, return_exceptions=True), CLOSE_TIMEOUT)


def _key_size(key: str) -> int:
    return len(key.encode()) + 1


_TIMEOUT: Final = 5.0
_RETRIES: Final = 2
_COMPRESS_OVER: Final = 4096
_MAX_MESSAGE_SIZE: Final = 256 * 1024
_LONGEST_GROUP: Final = MAX_GROUP_LENGTH - 55  # of the traced client's group, as part of this one's name
_numbers = itertools.count(1)


class TraceSender(ClientLifecycle[Delivery]):
    """Sends trace messages under the group name of Apache's client; all of a process share one client instance."""

    def __init__(self, config: ClientConfig, group: str, kind: str, clock: Clock) -> None:
        addresses = config.namesrv if isinstance(config.namesrv, str) else ";".join(config.namesrv)
        # With the process id, unlike Apache's: two processes on one machine are two clients.
        name = f"PID_CLIENT_INNER_TRACE_PRODUCER_{addresses}#{os.getpid()}"
        own_config = ClientConfig(
            namesrv=config.namesrv, instance_name=name, credentials=config.credentials, tls=config.tls
        )
        rules = DeliveryRules(
            group=f"_INNER_TRACE_PRODUCER-{group[:_LONGEST_GROUP]}-{kind}-{next(_numbers)}",
            namespace=None,
            topic_queues=own_config.topic_queues,
            retries=_RETRIES,
            retry_not_stored=False,
        )
        self._preparer = MessagePreparer(
            clock, max_message_size=_MAX_MESSAGE_SIZE, compress_over=_COMPRESS_OVER, namespace=None
        )
        super().__init__("trace sender", partial(Delivery, own_config, rules, clock))

    async def send(self, message: Message) -> SendResult:
        """Send one trace message."""
        delivery = self._session
        prepared = self._preparer.prepare(message)
        await self._preparer.compress(prepared)
        return await delivery.send_anywhere(prepared, _TIMEOUT)
