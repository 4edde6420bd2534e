"""What broker and router both have: subscribers and publishers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Unpack, cast

from faststream._internal.broker.registrator import Registrator
from faststream._internal.constants import EMPTY
from faststream._internal.parser import CodecProto
from faststream._internal.types import CustomCallable
from faststream.middlewares import AckPolicy

from pyromq.app.handlers import HandlerOptions, expression_of
from pyromq.faststream.publisher import PublisherPage, StreamPublisher, new_publisher
from pyromq.faststream.subscriber import (
    StreamBrokerConfig,
    StreamSubscriber,
    SubscriberConfig,
    SubscriberPage,
    new_subscriber,
)
from pyromq.protocol.messages.message import MessageExt

if TYPE_CHECKING:
    from fast_depends.dependencies import Dependant

    from pyromq.client.consume.subscriptions import Function, Sql


class PyroMQRegistrator(Registrator[MessageExt, StreamBrokerConfig]):
    """Registers subscribers and publishers."""

    def subscriber(  # type: ignore[override]
        self,
        topic: str,
        group: str,
        *,
        tags: str | None = None,
        sql: str | Sql | None = None,
        function: str | Function | None = None,
        ack_policy: AckPolicy = EMPTY,
        no_reply: bool = False,
        dependencies: Sequence[Dependant] = (),
        parser: CustomCallable | None = None,
        decoder: CustomCallable | None = None,
        codec: CodecProto | None = None,
        persistent: bool = True,
        title: str | None = None,
        description: str | None = None,
        include_in_schema: bool = True,
        **options: Unpack[HandlerOptions],
    ) -> StreamSubscriber:
        """Call the decorated function with the messages of a topic, as a member of a group.

        `tags`, `sql` and `function` filter on the broker; the options are those of PushConsumer. By default a handler
        that raises gets its message again, with increasing delays (`AckPolicy.NACK_ON_ERROR`).
        """
        expression = expression_of(topic, tags, sql, function)
        page = SubscriberPage(
            topic=topic, group=group, title_=title, description_=description, include_in_schema=include_in_schema
        )
        subscriber = new_subscriber(
            cast("StreamBrokerConfig", self.config),
            lambda config: SubscriberConfig(
                _outer_config=config,
                _ack_policy=ack_policy,
                no_reply=no_reply,
                topic=topic,
                group=group,
                expression=expression,
                options=options,
            ),
            page,
        )
        super().subscriber(subscriber, persistent=persistent)
        return subscriber.add_call(
            parser_=parser or self._parser, decoder_=decoder or self._decoder, codec_=codec, dependencies_=dependencies
        )

    def publisher(  # type: ignore[override]
        self,
        topic: str,
        *,
        tags: str | None = None,
        headers: dict[str, str] | None = None,
        persistent: bool = True,
        title: str | None = None,
        description: str | None = None,
        schema: Any | None = None,
        include_in_schema: bool = True,
    ) -> StreamPublisher:
        """Send what the decorated handler returns to a topic; or keep it and call its `publish`."""
        page = PublisherPage(
            topic=topic, schema_=schema, title_=title, description_=description, include_in_schema=include_in_schema
        )
        publisher = new_publisher(cast("StreamBrokerConfig", self.config), topic, tags, headers, page)
        super().publisher(publisher, persistent=persistent)
        return publisher
