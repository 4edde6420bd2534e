"""Sending a message back: the broker puts it into the group's retry topic, or among its dead letters.

If the broker cannot be reached, or no longer has the message, a copy goes to the retry topic of any broker. The broker
makes a dead letter of a copy that has no retries left. Java's clients send copies in the same cases, and also for
messages that an orderly listener gives up.
"""

from __future__ import annotations

import logging
from bisect import bisect_left

from pyromq.client.listener.outcomes import Action, Verdict
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.client.net.publish_info import TopicPublishInfo
from pyromq.client.net.routes import Routes
from pyromq.errors import PyroMQError
from pyromq.protocol.delay_levels import BY_RECONSUME_TIMES, DEFAULT_DELAY_LEVELS_MS, FIRST_RETRY_LEVEL, TO_DEAD_LETTERS
from pyromq.protocol.headers.send import ConsumerSendMsgBackRequestHeader, SendMessageRequestHeaderV2
from pyromq.protocol.messages import properties as names
from pyromq.protocol.messages.compression import COMPRESSED_FLAG, COMPRESSION_TYPE_MASK
from pyromq.protocol.messages.message import MessageExt, MessageQueue
from pyromq.protocol.messages.properties import decode_properties, encode_properties
from pyromq.protocol.names import CLIENT_INNER_PRODUCER_GROUP, TBW102, retry_topic, with_namespace

logger = logging.getLogger(__name__)

SEND_BACK_TIMEOUT = 5.0


def delay_level(delay: float | None) -> int:
    """Return the lowest level of at least so many seconds, for brokers that only have delay levels."""
    if delay is None:
        return BY_RECONSUME_TIMES
    return min(bisect_left(DEFAULT_DELAY_LEVELS_MS, delay * 1000) + 1, len(DEFAULT_DELAY_LEVELS_MS))


class SendBack:
    """Sends back the messages that the listener of one group did not consume."""

    def __init__(
        self, api: BrokerApi, routes: Routes, group: str, *, max_reconsume: int | None, namespace: str | None
    ) -> None:
        self._api = api
        self._routes = routes
        self._group = group
        self._max_reconsume = max_reconsume
        self._namespace = namespace
        self._copies = RetryCopies(api, routes, group, max_reconsume=max_reconsume, namespace=namespace)

    async def send(self, message: MessageExt, queue: MessageQueue, verdict: Verdict) -> bool:
        """Send a message back to its broker, or a copy to any broker; if both fail, log why and return False."""
        try:
            address = await self._routes.find_master(queue)
            await self._api.send_back(address, self._header(message, verdict), timeout=SEND_BACK_TIMEOUT)
        except Exception as error:
            return await self._send_copy(message, queue, verdict, error)
        return True

    async def _send_copy(self, message: MessageExt, queue: MessageQueue, verdict: Verdict, reason: Exception) -> bool:
        try:
            if verdict.action is Action.GIVE_UP:
                await self._copies.bury(message, queue, verdict.cause)
            else:
                await self._copies.retry(message, queue, delay_level(verdict.delay), verdict.cause)
        except Exception as error:
            logger.warning(
                "message=%s of group=%s could not be sent back, it is retried from memory: %s; nor could a copy: %s",
                message.message_id, self._group, reason, error, exc_info=not isinstance(error, PyroMQError),
            )  # fmt: skip
            return False
        logger.info("message=%s of group=%s was sent back as a copy: %s", message.message_id, self._group, reason)
        return True

    async def bury(self, message: MessageExt, queue: MessageQueue, cause: str) -> bool:
        """Make a dead letter of a message that an orderly listener gives up; if that fails, log why and return False.

        It sends a copy, because the stored message does not record how often it was tried here.
        """
        try:
            await self._copies.bury(message, queue, cause)
        except Exception as error:
            logger.warning(
                "message=%s of group=%s could not become a dead letter, it blocks its queue: %s",
                message.message_id, self._group, error, exc_info=not isinstance(error, PyroMQError),
            )  # fmt: skip
            return False
        return True

    def _header(self, message: MessageExt, verdict: Verdict) -> ConsumerSendMsgBackRequestHeader:
        give_up = verdict.action is Action.GIVE_UP
        return ConsumerSendMsgBackRequestHeader(
            offset=message.physical_offset,
            group=self._group,
            delay_level=TO_DEAD_LETTERS if give_up else delay_level(verdict.delay),
            origin_msg_id=message.message_id,
            origin_topic=with_namespace(message.topic, self._namespace),
            max_reconsume_times=self._max_reconsume,
            pyromq_cause=verdict.cause or None,
            pyromq_delay_ms=None if give_up or verdict.delay is None else int(verdict.delay * 1000),
        )


COPY_TIMEOUT = 5.0
AT_ONCE = 0  # of retries: none is left

# What an earlier journey through a broker left behind, and what only the consumer has seen.
_LEFT_BEHIND = names.TIMER_NAMES | {
    names.TRANSACTION_PREPARED, names.WAIT, names.DELAY, names.REAL_TOPIC, names.REAL_QUEUE_ID, names.CAUSE,
    names.MIN_OFFSET, names.MAX_OFFSET, names.CONSUME_START_TIME,
}  # fmt: skip


class RetryCopies:
    """Sends copies of messages to the retry topic of one group."""

    def __init__(
        self, api: BrokerApi, routes: Routes, group: str, *, max_reconsume: int | None, namespace: str | None
    ) -> None:
        self._api = api
        self._routes = routes
        self._topic = retry_topic(group)
        self._max_reconsume = max_reconsume
        self._namespace = namespace

    async def retry(self, message: MessageExt, queue: MessageQueue, level: int, cause: str) -> None:
        """Send a copy to be redelivered, through another broker if there is one, because this one has just failed.

        A broker compares the limit with the number of the coming retry, if a copy is sent, and with that of the last
        one, if a message is sent back. So the limit is one higher here: a message is tried as often either way.
        """
        limit = None if self._max_reconsume is None else self._max_reconsume + 1
        delay = {names.DELAY: str(level or FIRST_RETRY_LEVEL + message.reconsume_times)}
        target = (await self._queues()).next_elsewhere(queue.broker_name)
        await self._send(message, target, self._properties(message, cause) | delay, limit)

    async def bury(self, message: MessageExt, queue: MessageQueue, cause: str) -> None:
        """Make a dead letter of a copy at once, on the broker that the message came from if possible."""
        info = await self._queues()
        target = info.next_of(queue.broker_name) or info.next()
        await self._send(message, target, self._properties(message, cause), AT_ONCE)

    async def _queues(self) -> TopicPublishInfo:
        return await self._routes.find_queues(self._topic)

    async def _send(
        self, message: MessageExt, queue: MessageQueue, properties: dict[str, str], limit: int | None
    ) -> None:
        header = SendMessageRequestHeaderV2(
            producer_group=CLIENT_INNER_PRODUCER_GROUP,
            topic=self._topic,
            default_topic=TBW102,
            default_topic_queue_nums=1,
            queue_id=queue.queue_id,
            sys_flag=message.sys_flag & (COMPRESSED_FLAG | COMPRESSION_TYPE_MASK),
            born_timestamp=message.born_timestamp_ms,
            flag=message.flag,
            properties=encode_properties(properties),
            reconsume_times=message.reconsume_times + 1,
            max_reconsume_times=limit,
        )
        await self._api.send(await self._routes.find_master(queue), header, message.stored_body, timeout=COPY_TIMEOUT)

    def _properties(self, message: MessageExt, cause: str) -> dict[str, str]:
        stored = decode_properties(message.raw_properties)  # the listener may have changed `message.properties`
        carried = {name: value for name, value in stored.items() if name not in _LEFT_BEHIND}
        carried.setdefault(names.RETRY_TOPIC, with_namespace(message.topic, self._namespace))
        carried.setdefault(names.ORIGIN_MESSAGE_ID, message.offset_message_id)
        return carried | ({names.CAUSE: cause} if cause else {})
