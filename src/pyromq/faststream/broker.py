"""PyroMQBroker: the entrance for FastStream."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any

from fast_depends import Provider, dependency_provider
from faststream import ContextRepo
from faststream._internal.basic_types import LoggerProto, SendableMessage
from faststream._internal.broker import BrokerUsecase
from faststream._internal.constants import EMPTY
from faststream._internal.di import FastDependsConfig
from faststream._internal.logger import DefaultLoggerStorage, make_logger_state
from faststream._internal.logger.logging import get_broker_logger
from faststream._internal.parser import CodecProto
from faststream._internal.types import BrokerMiddleware, CustomCallable
from faststream.middlewares import AckPolicy
from faststream.response import PublishType
from faststream.specification.schema import BrokerSpec

from pyromq.client.config import ProducerOptions
from pyromq.client.net.address import chosen_namesrv
from pyromq.client.send.producer import Producer
from pyromq.client.send_result import SendResult
from pyromq.clock import Clock
from pyromq.faststream.message import StreamedMessage
from pyromq.faststream.publisher import StreamProducer
from pyromq.faststream.registrator import PyroMQRegistrator
from pyromq.faststream.response import PyroMQCommand
from pyromq.faststream.subscriber import StreamBrokerConfig
from pyromq.protocol.acl import Credentials
from pyromq.protocol.messages.message import MessageExt
from pyromq.remoting.tls.client_tls import Tls

if TYPE_CHECKING:
    from fast_depends.dependencies import Dependant
    from fast_depends.library.serializer import SerializerProto
    from faststream.specification.schema.extra import Tag, TagDict


class PyroMQBroker(PyroMQRegistrator, BrokerUsecase[MessageExt, Producer, StreamBrokerConfig]):
    """FastStream's broker for PyroMQ and Apache RocketMQ 4.x.

    `group` is the group of its producer, whose options are in `producer`. The name servers are `namesrv`, by default
    those of NAMESRV_ADDR.
    """

    def __init__(
        self,
        namesrv: str | Sequence[str] | None = None,
        *,
        group: str = "faststream",
        producer: ProducerOptions | None = None,
        credentials: Credentials | None = None,
        tls: bool | Tls | None = None,
        namespace: str | None = None,
        clock: Clock | None = None,
        graceful_timeout: float | None = 15.0,
        ack_policy: AckPolicy = EMPTY,
        decoder: CustomCallable | None = None,
        parser: CustomCallable | None = None,
        codec: CodecProto | None = None,
        dependencies: Sequence[Dependant] = (),
        middlewares: Sequence[BrokerMiddleware[Any, Any]] = (),
        routers: Iterable[PyroMQRegistrator] = (),
        description: str | None = None,
        tags: Iterable[Tag | TagDict] = (),
        logger: LoggerProto | None = EMPTY,
        log_level: int = logging.INFO,
        apply_types: bool = True,
        serializer: SerializerProto | None = EMPTY,
        provider: Provider | None = None,
        context: ContextRepo | None = None,
    ) -> None:
        client_options = {"credentials": credentials, "tls": tls, "namespace": namespace, "clock": clock}
        self._stream_producer = StreamProducer(parser, decoder)
        super().__init__(
            group=group,
            namesrv=namesrv,
            **(producer or {}),
            **client_options,
            routers=routers,
            config=StreamBrokerConfig(
                namesrv=namesrv,
                client_options=client_options,
                producer=self._stream_producer,
                broker_middlewares=middlewares,
                broker_parser=parser,
                broker_decoder=decoder,
                broker_codec=codec,
                logger=make_logger_state(logger=logger, log_level=log_level, default_storage_cls=_LogColumns),
                fd_config=FastDependsConfig(
                    use_fastdepends=apply_types,
                    serializer=serializer,
                    provider=provider or dependency_provider,
                    context=context or ContextRepo(),
                ),
                broker_dependencies=dependencies,
                graceful_timeout=graceful_timeout,
                ack_policy=ack_policy,
                extra_context={"broker": self},
            ),
            specification=BrokerSpec(
                url=[f"rocketmq://{address}" for address in _addresses(namesrv)],
                protocol="rocketmq",
                protocol_version="4.9",
                description=description,
                tags=tags,
                security=None,
            ),
        )

    async def _connect(self) -> Producer:
        producer = await Producer(**self._connection_kwargs).__aenter__()
        self._stream_producer.connect(producer, self.config.fd_config._serializer, self.config.broker_codec)
        return producer

    async def start(self) -> None:
        """Open the producer and let all subscribers join their groups."""
        await self.connect()
        await super().start()

    async def stop(
        self,
        exc_type: type[BaseException] | None = None,
        exc_val: BaseException | None = None,
        exc_tb: TracebackType | None = None,
    ) -> None:
        """Finish the messages in hand, leave all groups and close the producer."""
        await super().stop(exc_type, exc_val, exc_tb)
        connection, self._connection = self._connection, None
        if connection is not None:
            self._stream_producer.disconnect()
            await connection.__aexit__(None, None, None)

    async def ping(self, timeout: float | None = None) -> bool:
        """Return True if a broker of the cluster can be reached."""
        if self._connection is None:
            return False
        try:
            return bool(await self._connection.queues("TBW102"))
        except Exception:
            return False

    async def publish(
        self,
        message: SendableMessage = None,
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
        """Send a message to a topic.

        Headers become properties. Messages with the same `order_key` go to the same queue; `delay` has the message
        delivered later.
        """
        command = PyroMQCommand(
            message,
            topic=topic,
            tags=tags,
            keys=keys,
            headers=headers,
            order_key=order_key,
            delay=delay,
            correlation_id=correlation_id or self.config.id_generator(),
            timeout=timeout,
            publish_type=PublishType.PUBLISH,
        )
        result: SendResult = await self._basic_publish(command, producer=self.config.producer)
        return result

    async def publish_batch(  # type: ignore[override]
        self,
        *messages: SendableMessage,
        topic: str,
        tags: str | None = None,
        headers: dict[str, str] | None = None,
        correlation_id: str | None = None,
        timeout: float | None = None,
    ) -> list[SendResult]:
        """Send messages to a topic in as few requests as possible."""
        command = PyroMQCommand(
            messages,
            topic=topic,
            tags=tags,
            headers=headers,
            correlation_id=correlation_id or self.config.id_generator(),
            timeout=timeout,
            publish_type=PublishType.PUBLISH,
        )
        results: list[SendResult] = await self._basic_publish_batch(command, producer=self.config.producer)
        return results

    async def request(  # type: ignore[override]
        self,
        message: SendableMessage = None,
        topic: str = "",
        *,
        timeout: float = 3.0,
        tags: str | None = None,
        headers: dict[str, str] | None = None,
        correlation_id: str | None = None,
    ) -> StreamedMessage:
        """Send a request and return the reply: what its handler returned."""
        command = PyroMQCommand(
            message,
            topic=topic,
            tags=tags,
            headers=headers,
            correlation_id=correlation_id or self.config.id_generator(),
            timeout=timeout,
            publish_type=PublishType.REQUEST,
        )
        reply: StreamedMessage = await self._basic_request(command, producer=self.config.producer)
        return reply


class _LogColumns(DefaultLoggerStorage):
    """The columns of the log: topic, group and message id."""

    def __init__(self) -> None:
        super().__init__()
        self._widths = {"topic": 4, "group": 4}
        self._level = logging.INFO

    def set_level(self, level: int) -> None:
        self._level = level

    def register_subscriber(self, params: dict[str, Any]) -> None:
        for name, width in self._widths.items():
            self._widths[name] = max(width, len(params.get(name, "")))

    def get_logger(self, *, context: ContextRepo) -> LoggerProto:
        found = self._get_logger_ref()
        if found is None:
            columns = "".join(f"%({name})-{width}s | " for name, width in self._widths.items())
            found = get_broker_logger(
                name="pyromq",
                default_context=dict.fromkeys(self._widths, ""),
                message_id_ln=10,
                fmt=f"%(asctime)s %(levelname)-8s - {columns}%(message_id)-10s - %(message)s",
                context=context,
                log_level=self._level,
            )
            self._logger_ref.add(found)
        return found


def _addresses(namesrv: str | Sequence[str] | None) -> list[str]:
    chosen = chosen_namesrv(namesrv)
    return chosen.split(";") if isinstance(chosen, str) else list(chosen)
