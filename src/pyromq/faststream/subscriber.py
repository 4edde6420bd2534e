"""Subscribers: a PushConsumer for each, whose listener is FastStream's way of handling a message."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from faststream._internal.configs import BrokerConfig, SubscriberSpecificationConfig, SubscriberUsecaseConfig
from faststream._internal.constants import EMPTY
from faststream._internal.endpoint.publisher import PublisherProto
from faststream._internal.endpoint.subscriber import SubscriberSpecification, SubscriberUsecase
from faststream._internal.endpoint.subscriber.call_item import CallsCollection
from faststream._internal.endpoint.utils import process_msg
from faststream.exceptions import StopConsume
from faststream.message import StreamMessage
from faststream.middlewares import AckPolicy
from faststream.specification.asyncapi.utils import resolve_payloads
from faststream.specification.schema import Message as MessageSchema
from faststream.specification.schema import Operation, SubscriberSpec

from pyromq.app.handlers import HandlerOptions
from pyromq.client.consume.subscriptions import Expression
from pyromq.client.listener.outcomes import RetryLater
from pyromq.client.poll.lite_pull_consumer import LitePullConsumer
from pyromq.client.push.push_consumer import PushConsumer
from pyromq.faststream.message import HandlerOutcome, StreamedMessage, decode_body, outcome_of_handler, parse_message
from pyromq.faststream.publisher import ReplyProducer, ReplyPublisher, StreamProducer
from pyromq.protocol.messages.message import MessageExt


@dataclass(kw_only=True)
class StreamBrokerConfig(BrokerConfig):
    """What the subscribers of a broker or router share."""

    namesrv: str | Sequence[str] | None = None
    client_options: dict[str, Any] = field(default_factory=dict)


@dataclass(kw_only=True)
class SubscriberConfig(SubscriberUsecaseConfig):
    """What a subscriber needs to know."""

    _outer_config: StreamBrokerConfig = field(default_factory=StreamBrokerConfig)
    topic: str
    group: str
    expression: Expression
    options: HandlerOptions

    @property
    def ack_policy(self) -> AckPolicy:
        """A handler that raises gets the message again, unless it is chosen otherwise."""
        if self._ack_policy is not EMPTY:
            return self._ack_policy
        outer = self._outer_config.ack_policy
        return AckPolicy.NACK_ON_ERROR if outer is EMPTY else outer


@dataclass(kw_only=True)
class SubscriberPage(SubscriberSpecificationConfig):
    """What the documentation says about a subscriber."""

    topic: str
    group: str


class StreamSubscriberSpecification(SubscriberSpecification[StreamBrokerConfig, SubscriberPage]):
    """A subscriber's part of the AsyncAPI document."""

    @property
    def topic(self) -> str:
        return f"{self._outer_config.prefix}{self.config.topic}"

    @property
    def channel_labels(self) -> list[str]:
        return [self.topic]

    @property
    def name(self) -> str:
        return self.config.title_ or f"{self.topic}:{self.config.group}:{self.call_name}"

    def get_schema(self) -> dict[str, SubscriberSpec]:
        message = MessageSchema(title=f"{self.name}:Message", payload=resolve_payloads(self.get_payloads()))
        operation = Operation(message=message, bindings=None)
        spec = SubscriberSpec(address=self.topic, description=self.description, operation=operation, bindings=None)
        return {self.name: spec}


class StreamSubscriber(SubscriberUsecase[MessageExt]):
    """Consumes one topic as a member of a group."""

    _outer_config: StreamBrokerConfig

    def __init__(
        self,
        config: SubscriberConfig,
        specification: StreamSubscriberSpecification,
        calls: CallsCollection[MessageExt],
    ) -> None:
        config.parser = parse_message
        config.decoder = decode_body
        super().__init__(config, cast(Any, specification), calls)
        self.group = config.group
        self.expression = config.expression
        self._topic = config.topic
        self._options = config.options
        self._consumer: PushConsumer | None = None
        self._puller: LitePullConsumer | None = None
        self._stopping: asyncio.Task[None] | None = None

    @property
    def topic(self) -> str:
        """The topic, with the prefixes of the routers around it."""
        return f"{self._outer_config.prefix}{self._topic}"

    async def start(self) -> None:
        """Join the group."""
        await super().start()
        self._post_start()
        if self.calls:
            self._consumer = PushConsumer(
                self.group,
                self._outer_config.namesrv,
                {self.topic: self.expression},
                self._handle,
                **self._options,
                **self._outer_config.client_options,
            )
            await self._consumer.__aenter__()

    async def stop(self) -> None:
        """Finish the messages in hand, commit and leave the group."""
        consumer, self._consumer = self._consumer, None
        puller, self._puller = self._puller, None
        if consumer is not None:
            await consumer.__aexit__(None, None, None)
        if puller is not None:
            await puller.__aexit__(None, None, None)
        await super().stop()

    async def _handle(self, message: MessageExt) -> None:
        """Handle a message as a listener does: return to acknowledge it, raise to have it again."""
        outcome = HandlerOutcome()
        token = outcome_of_handler.set(outcome)
        try:
            await self._process(message, outcome)
        finally:
            outcome_of_handler.reset(token)
        if outcome.failure is not None:
            raise outcome.failure
        if not outcome.is_settled:
            raise RetryLater()  # nobody has acknowledged it, with AckPolicy.MANUAL

    async def _process(self, message: MessageExt, outcome: HandlerOutcome) -> None:
        try:
            await self.process_message(message)
        except (StopConsume, SystemExit) as error:
            outcome.settle()
            self._stopping = asyncio.get_running_loop().create_task(self.stop())  # this handler is waited for there
            app = self._outer_config.context.get("app") if isinstance(error, SystemExit) else None
            if app is not None:
                app.exit()
        except Exception:
            if isinstance(outcome.failure, RetryLater):
                raise  # its text becomes the cause
            if not outcome.is_settled:
                raise

    async def get_one(self, *, timeout: float = 5.0) -> StreamedMessage | None:
        """Return the next message, or None after `timeout`; for a subscriber without a handler."""
        assert not self.calls, "a subscriber with handlers cannot be asked for messages"
        received = await (await self._opened_puller()).poll(timeout, 1)
        return await self._parsed(received[0]) if received else None

    async def __aiter__(self) -> AsyncIterator[StreamedMessage]:
        async for message in await self._opened_puller():
            yield await self._parsed(message)

    async def _opened_puller(self) -> LitePullConsumer:
        if self._puller is None:
            start_from = self._options.get("start_from", "latest")
            subscriptions = {self.topic: self.expression}
            outer = self._outer_config
            puller = LitePullConsumer(
                self.group, outer.namesrv, subscriptions, start_from=start_from, **outer.client_options
            )
            self._puller = await puller.__aenter__()
        return self._puller

    async def _parsed(self, message: MessageExt) -> StreamedMessage:
        parser, decoder = self._get_parser_and_decoder()
        context = self._outer_config.context
        middlewares = (middleware(message, context=context) for middleware in self._broker_middlewares)
        parsed: Any = await process_msg(msg=message, middlewares=middlewares, parser=parser, decoder=decoder)
        return parsed  # type: ignore[no-any-return]

    def _make_response_publisher(self, message: StreamMessage[Any]) -> Sequence[PublisherProto]:
        return (
            ReplyPublisher(
                producer=ReplyProducer(message.raw_message, cast(StreamProducer, self._outer_config.producer))
            ),
        )

    def get_log_context(self, message: StreamMessage[MessageExt] | None) -> dict[str, str]:
        """Return what the lines of the log say about a message."""
        return {"topic": self.topic, "group": self.group, "message_id": getattr(message, "message_id", "")}


def new_subscriber(
    config: StreamBrokerConfig,
    own: Callable[[StreamBrokerConfig], SubscriberConfig],
    page: SubscriberPage,
) -> StreamSubscriber:
    """Return a subscriber for a broker or router."""
    calls = CallsCollection[MessageExt]()
    return StreamSubscriber(own(config), StreamSubscriberSpecification(config, page, calls), calls)
