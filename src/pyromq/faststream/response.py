"""What is published: a body and where it goes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from faststream._internal.basic_types import SendableMessage
from faststream.response import PublishCommand, PublishType, Response


class PyroMQResponse(Response):
    """A handler's return value with what belongs to its message."""

    def __init__(
        self,
        body: SendableMessage,
        *,
        headers: dict[str, str] | None = None,
        correlation_id: str | None = None,
        tags: str | None = None,
        keys: Sequence[str] | str = (),
        order_key: str | None = None,
        delay: timedelta | float | None = None,
    ) -> None:
        super().__init__(body, headers=headers, correlation_id=correlation_id)
        self.tags = tags
        self.keys = keys
        self.order_key = order_key
        self.delay = delay

    def as_publish_command(self) -> PyroMQCommand:
        return PyroMQCommand(
            self.body,
            headers=self.headers,
            correlation_id=self.correlation_id,
            tags=self.tags,
            keys=self.keys,
            order_key=self.order_key,
            delay=self.delay,
            publish_type=PublishType.PUBLISH,
        )


class PyroMQCommand(PublishCommand):
    """One message to publish, or several; middlewares may change it."""

    def __init__(
        self,
        body: Any,
        *,
        topic: str = "",
        publish_type: PublishType,
        headers: dict[str, Any] | None = None,
        correlation_id: str | None = None,
        tags: str | None = None,
        keys: Sequence[str] | str = (),
        order_key: str | None = None,
        delay: timedelta | float | None = None,
        timeout: float | None = None,
    ) -> None:
        super().__init__(
            body, destination=topic, headers=headers, correlation_id=correlation_id, _publish_type=publish_type
        )
        self.tags = tags
        self.keys = keys
        self.order_key = order_key
        self.delay = delay
        self.timeout = timeout

    @classmethod
    def from_command(cls, command: PublishCommand) -> PyroMQCommand:
        """Return the command of a handler's plain return value as one of ours."""
        if isinstance(command, PyroMQCommand):
            return command
        return cls(
            command.body,
            topic=command.destination,
            headers=command.headers,
            correlation_id=command.correlation_id,
            publish_type=command.publish_type,
        )
