"""Publishers, and the producer that they and the broker share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any, cast

from faststream._internal.basic_types import SendableMessage
from faststream._internal.configs import BrokerConfig, PublisherSpecificationConfig, PublisherUsecaseConfig
from faststream._internal.endpoint.publisher import PublisherSpecification, PublisherUsecase
from faststream._internal.endpoint.publisher.fake import FakePublisher
from faststream._internal.endpoint.utils import ParserComposition
from faststream._internal.parser import CodecProto, DefaultCodec
from faststream._internal.producer import ProducerProto
from faststream._internal.types import CustomCallable, PublisherMiddleware
from faststream.exceptions import FeatureNotSupportedException, IncorrectState
from faststream.response import PublishCommand, PublishType
from faststream.specification.asyncapi.utils import resolve_payloads
from faststream.specification.schema import Message as MessageSchema
from faststream.specification.schema import Operation, PublisherSpec

from pyromq.client.send.producer import Producer
from pyromq.client.send_result import SendResult
from pyromq.faststream.message import CONTENT_TYPE, CORRELATION_ID, decode_body, parse_message
from pyromq.faststream.response import PyroMQCommand
from pyromq.protocol.messages.message import Message, MessageExt

if TYPE_CHECKING:
    from fast_depends.library.serializer import SerializerProto


class StreamProducer(ProducerProto[PyroMQCommand]):
    """Sends what FastStream publishes by a PyroMQ Producer."""

    def __init__(self, parser: CustomCallable | None = None, decoder: CustomCallable | None = None) -> None:
        self._producer: Producer | None = None
        self._serializer: SerializerProto | None = None
        self.codec: CodecProto = DefaultCodec()
        self._parser = ParserComposition(parser, parse_message)
        self._decoder = ParserComposition(decoder, decode_body)

    def connect(self, producer: Producer, serializer: SerializerProto | None, codec: CodecProto | None) -> None:
        """Send by this producer from now on."""
        self._producer, self._serializer = producer, serializer
        self.codec = codec or DefaultCodec()

    def disconnect(self) -> None:
        """Send nothing any more."""
        self._producer = None

    @property
    def producer(self) -> Producer:
        """The producer; raises IncorrectState if the broker is not connected."""
        if self._producer is None:
            raise IncorrectState("the broker is not connected: `async with broker`, or `await broker.connect()`")
        return self._producer

    async def message_of(self, command: PyroMQCommand, body: Any) -> Message:
        """Return the message that a command stands for."""
        encoded, content_type = await self.codec.encode(body, self._serializer)
        properties = {name: str(value) for name, value in command.headers.items()}
        if content_type:
            properties[CONTENT_TYPE] = content_type
        if command.correlation_id:
            properties[CORRELATION_ID] = command.correlation_id
        return Message(command.destination, encoded, tags=command.tags, keys=command.keys, properties=properties)

    async def publish(self, cmd: PyroMQCommand) -> SendResult:
        message = await self.message_of(cmd, cmd.body)
        return await self.producer.send(message, order_key=cmd.order_key, delay=cmd.delay, timeout=cmd.timeout)

    async def publish_batch(self, cmd: PyroMQCommand) -> list[SendResult]:
        messages = [await self.message_of(cmd, body) for body in cmd.body]
        return await self.producer.send_batch(messages, timeout=cmd.timeout)

    async def request(self, cmd: PyroMQCommand) -> MessageExt:
        message = await self.message_of(cmd, cmd.body)
        return await self.producer.request(message, cmd.timeout or 3.0, order_key=cmd.order_key)


class ReplyProducer(StreamProducer):
    """Sends a handler's return value back to the one who asked."""

    def __init__(self, request: MessageExt, like: StreamProducer) -> None:
        super().__init__()
        self._request = request
        self._serializer, self.codec = like._serializer, like.codec

    async def publish(self, cmd: PyroMQCommand) -> Any:
        encoded, _ = await self.codec.encode(cmd.body, self._serializer)
        await self._request.reply(encoded)


class ReplyPublisher(FakePublisher):
    """Answers a request with what its handler returned."""

    def patch_command(self, cmd: PublishCommand) -> PyroMQCommand:
        return PyroMQCommand.from_command(super().patch_command(cmd))


@dataclass(kw_only=True)
class PublisherConfig(PublisherUsecaseConfig):
    """What a publisher needs to know."""

    _outer_config: BrokerConfig = field(default_factory=BrokerConfig)
    topic: str
    tags: str | None = None
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(kw_only=True)
class PublisherPage(PublisherSpecificationConfig):
    """What the documentation says about a publisher."""

    topic: str


class StreamPublisherSpecification(PublisherSpecification[BrokerConfig, PublisherPage]):
    """A publisher's part of the AsyncAPI document."""

    @property
    def topic(self) -> str:
        return f"{self._outer_config.prefix}{self.config.topic}"

    @property
    def name(self) -> str:
        return self.config.title_ or f"{self.topic}:Publisher"

    def get_schema(self) -> dict[str, PublisherSpec]:
        payloads = resolve_payloads(self.get_payloads(), "Publisher")
        message = MessageSchema(title=f"{self.name}:Message", payload=payloads)
        operation = Operation(message=message, bindings=None)
        description = self.config.description_
        spec = PublisherSpec(address=self.topic, description=description, operation=operation, bindings=None)
        return {self.name: spec}


class StreamPublisher(PublisherUsecase):
    """Publishes to one topic: `broker.publisher("paid")`, as a decorator or by `publish`."""

    def __init__(self, config: PublisherConfig, specification: StreamPublisherSpecification) -> None:
        super().__init__(config, cast(Any, specification))
        self._topic = config.topic
        self.tags = config.tags
        self.headers = config.headers

    @property
    def topic(self) -> str:
        """The topic, with the prefixes of the routers around it."""
        return f"{self._outer_config.prefix}{self._topic}"

    async def publish(
        self,
        message: SendableMessage,
        topic: str = "",
        *,
        tags: str | None = None,
        keys: Sequence[str] | str = (),
        headers: dict[str, str] | None = None,
        order_key: str | None = None,
        delay: timedelta | float | None = None,
        correlation_id: str | None = None,
        timeout: float | None = None,
    ) -> SendResult:
        """Send a message; the options are those of the broker's `publish`."""
        command = PyroMQCommand(
            message,
            topic=topic or self.topic,
            tags=tags or self.tags,
            keys=keys,
            headers=self.headers | (headers or {}),
            order_key=order_key,
            delay=delay,
            correlation_id=correlation_id or self._outer_config.id_generator(),
            timeout=timeout,
            publish_type=PublishType.PUBLISH,
        )
        result: SendResult = await self._basic_publish(
            command, producer=self._outer_config.producer, _extra_middlewares=()
        )
        return result

    async def _publish(self, cmd: PublishCommand, *, _extra_middlewares: Iterable[PublisherMiddleware]) -> Any:
        command = PyroMQCommand.from_command(cmd)
        command.destination = command.destination or self.topic
        command.tags = command.tags or self.tags
        command.add_headers(self.headers, override=False)
        return await self._basic_publish(
            command, producer=self._outer_config.producer, _extra_middlewares=_extra_middlewares
        )

    async def request(
        self, message: SendableMessage, topic: str = "", *, correlation_id: str | None = None, timeout: float = 3.0
    ) -> Any:
        """Send a request and return the reply."""
        command = PyroMQCommand(
            message,
            topic=topic or self.topic,
            tags=self.tags,
            headers=dict(self.headers),
            correlation_id=correlation_id or self._outer_config.id_generator(),
            timeout=timeout,
            publish_type=PublishType.REQUEST,
        )
        return await self._basic_request(command, producer=self._outer_config.producer)


def new_publisher(
    config: BrokerConfig,
    topic: str,
    tags: str | None,
    headers: dict[str, str] | None,
    page: PublisherPage,
) -> StreamPublisher:
    """Return a publisher for a broker or router."""
    if not topic:
        raise FeatureNotSupportedException("a publisher needs a topic")
    own = PublisherConfig(_outer_config=config, topic=topic, tags=tags, headers=headers or {})
    return StreamPublisher(own, StreamPublisherSpecification(_outer_config=config, specification_config=page))
