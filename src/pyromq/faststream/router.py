"""PyroMQRouter: subscribers and publishers that a broker includes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from faststream._internal.basic_types import SendableMessage
from faststream._internal.broker.router import ArgsContainer, BrokerRouter, SubscriberRoute
from faststream._internal.constants import EMPTY
from faststream._internal.types import BrokerMiddleware, CustomCallable
from faststream.middlewares import AckPolicy

from pyromq.faststream.registrator import PyroMQRegistrator
from pyromq.faststream.subscriber import StreamBrokerConfig
from pyromq.protocol.messages.message import MessageExt

if TYPE_CHECKING:
    from fast_depends.dependencies import Dependant


class PyroMQPublisher(ArgsContainer):
    """A publisher of a PyroMQRoute; takes what `router.publisher` takes."""

    def __init__(self, topic: str, **options: Any) -> None:
        super().__init__(topic, **options)


class PyroMQRoute(SubscriberRoute):
    """A handler without a decorator; takes what `router.subscriber` takes."""

    def __init__(
        self,
        call: Callable[..., SendableMessage] | Callable[..., Awaitable[SendableMessage]],
        topic: str,
        group: str,
        *,
        publishers: Iterable[PyroMQPublisher] = (),
        **options: Any,
    ) -> None:
        super().__init__(call, topic, group, publishers=publishers, **options)


class PyroMQRouter(PyroMQRegistrator, BrokerRouter[MessageExt, StreamBrokerConfig]):
    """Subscribers and publishers of a part of a service: `broker.include_router(router)`."""

    def __init__(
        self,
        prefix: str = "",
        handlers: Iterable[PyroMQRoute] = (),
        *,
        dependencies: Sequence[Dependant] = (),
        middlewares: Sequence[BrokerMiddleware[Any, Any]] = (),
        routers: Iterable[PyroMQRegistrator] = (),
        parser: CustomCallable | None = None,
        decoder: CustomCallable | None = None,
        include_in_schema: bool | None = None,
        ack_policy: AckPolicy = EMPTY,
    ) -> None:
        super().__init__(
            handlers=handlers,
            config=StreamBrokerConfig(
                prefix=prefix,
                ack_policy=ack_policy,
                broker_dependencies=dependencies,
                broker_middlewares=middlewares,
                broker_parser=parser,
                broker_decoder=decoder,
                include_in_schema=include_in_schema,
            ),
            routers=routers,
        )
