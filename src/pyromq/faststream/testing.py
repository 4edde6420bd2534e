"""TestPyroMQBroker: FastStream's test broker, which calls handlers without a network."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast, overload
from unittest.mock import MagicMock

from faststream._internal.testing.broker import EnterType, TestBroker, change_producer
from faststream.exceptions import SubscriberNotFound

from pyromq.app.without_broker import StoredMessages, answer, passes
from pyromq.client.send_result import SendResult
from pyromq.clock import SystemClock
from pyromq.faststream.broker import PyroMQBroker
from pyromq.faststream.publisher import StreamProducer, StreamPublisher
from pyromq.faststream.response import PyroMQCommand
from pyromq.faststream.subscriber import StreamSubscriber
from pyromq.protocol.messages.message import MessageExt


class TestPyroMQBroker(TestBroker[PyroMQBroker, EnterType], broker=PyroMQBroker):
    """Handlers without a network; with `with_real=True`, through the real broker.

    >>> async with TestPyroMQBroker(broker) as test:
    ...     await test.publish(Order("o-1"), "orders", tags="created")
    ...     bill.mock.assert_called_once()
    """

    @overload
    def __init__(
        self: TestPyroMQBroker[PyroMQBroker],
        broker: PyroMQBroker,
        /,
        *,
        with_real: bool = False,
        connect_only: bool | None = None,
    ) -> None: ...

    @overload
    def __init__(
        self: TestPyroMQBroker[tuple[PyroMQBroker, ...]],
        *brokers: PyroMQBroker,
        with_real: bool = False,
        connect_only: bool | None = None,
    ) -> None: ...

    def __init__(self, *brokers: PyroMQBroker, with_real: bool = False, connect_only: bool | None = None) -> None:
        super().__init__(*brokers, with_real=with_real, connect_only=connect_only)

    def create_publisher_fake_subscriber(
        self, broker: PyroMQBroker, publisher: StreamPublisher
    ) -> tuple[StreamSubscriber, bool]:
        for subscriber in _subscribers(self.brokers):
            if subscriber.topic == publisher.topic:
                return subscriber, True
        return broker.subscriber(publisher.topic, "test", start_from="earliest", persistent=False), False

    @contextmanager
    def _patch_producer(self, broker: PyroMQBroker) -> Generator[None, None, None]:
        fake = _HandlingProducer(broker, self.brokers)
        with change_producer(broker.config.broker_config, fake):
            yield

    async def _fake_connect(self, broker: PyroMQBroker, *args: Any, **kwargs: Any) -> None:
        return cast("None", MagicMock())


class _HandlingProducer(StreamProducer):
    """Gives what is sent to the handlers that would get it."""

    def __init__(self, broker: PyroMQBroker, brokers: Sequence[PyroMQBroker]) -> None:
        super().__init__(broker._parser, broker._decoder)
        self._serializer = broker.config.fd_config._serializer
        self.codec = broker.config.broker_codec or self.codec
        self._brokers = brokers
        self._stored = StoredMessages(SystemClock())

    async def publish(self, cmd: PyroMQCommand) -> SendResult:
        stored = self._stored.store(await self.message_of(cmd, cmd.body))
        for subscriber in self._subscribers_of(stored):
            await subscriber.process_message(stored)
        return answer(stored)

    async def publish_batch(self, cmd: PyroMQCommand) -> list[SendResult]:
        bodies, cmd.body = cmd.body, None
        results = []
        for cmd.body in bodies:
            results.append(await self.publish(cmd))
        return results

    async def request(self, cmd: PyroMQCommand) -> MessageExt:
        stored = self._stored.store(await self.message_of(cmd, cmd.body))
        for subscriber in self._subscribers_of(stored):
            answer = await subscriber.process_message(stored)
            reply = PyroMQCommand.from_command(answer.as_publish_command())
            return self._stored.store(await self.message_of(reply, reply.body))
        raise SubscriberNotFound

    def _subscribers_of(self, message: MessageExt) -> Iterator[StreamSubscriber]:
        """Yield one member of each group that gets the message."""
        groups: set[str] = set()
        for subscriber in _subscribers(self._brokers):
            if (
                subscriber.topic == message.topic
                and subscriber.group not in groups
                and passes(subscriber.expression, message)
            ):
                groups.add(subscriber.group)
                yield subscriber


def _subscribers(brokers: Sequence[PyroMQBroker]) -> Iterator[StreamSubscriber]:
    return (cast("StreamSubscriber", subscriber) for broker in brokers for subscriber in broker.subscribers)
