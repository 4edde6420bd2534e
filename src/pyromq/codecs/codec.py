"""Codec: turns values into bodies and back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

from msgspec import Struct

Decode = Callable[[bytes], Any]
"""Turns a body into a value; raises PayloadError if it cannot."""


class PayloadSchema(Struct, frozen=True):
    """What bodies look like, for documentation."""

    schema: Any
    definitions: dict[str, Any] = {}
    """The schemas that `schema` refers to, by name."""
    schema_format: str | None = None
    """The name of the schema language; None for JSON Schema."""


class Codec(ABC):
    """Turns values into the bodies of messages and back; subclass it for a format of your own.

    Bytes need no codec: they are sent as they are, and a payload of type `bytes` is the body as it is.
    """

    content_type: ClassVar[str]
    """The media type of the bodies."""

    def encode(self, value: object) -> bytes:
        """Return the body for a value; raises PayloadError if the value has none."""
        if isinstance(value, bytes | bytearray | memoryview):
            return bytes(value)
        return self.encode_value(value)

    def decoder(self, kind: Any) -> Decode:
        """Return a function that decodes bodies into values of this type.

        Raises ClientError if the codec cannot make such values; the function raises PayloadError for a wrong body.
        """
        return bytes if kind is bytes else self.value_decoder(kind)

    @abstractmethod
    def encode_value(self, value: object) -> bytes:
        """Return the body for a value that is not bytes; raises PayloadError."""

    @abstractmethod
    def value_decoder(self, kind: Any) -> Decode:
        """Return a decoder for a type that is not bytes; raises ClientError if there is none."""

    def schema(self, kind: Any, reference: str = "#/$defs/{name}") -> PayloadSchema:
        """Return what bodies for this type look like; `reference` is how schemas refer to definitions."""
        return PayloadSchema({"title": getattr(kind, "__name__", str(kind))})

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"
