"""Schemas that operators upload: Protobuf descriptor sets and Avro schemas, each for the topics of a pattern.

They belong to topics, not to whoever looks: another schema would give the fields of a body other names, and masking
goes by names. A topic with a schema is decoded with that schema and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Any, Final, Literal

from msgspec import Struct

from pyromq.console.bodies import avro
from pyromq.errors import ConfigError

LARGEST: Final = 1024 * 1024
_LISTED: Final = 20


class BodySchema(Struct, frozen=True, kw_only=True):
    """How the bodies of some topics are read."""

    topic: str
    """A pattern: `*` is any text."""
    format: Literal["avro", "protobuf"]
    data: bytes
    """The schema as JSON, or a serialized FileDescriptorSet."""
    message: str = ""
    """The Protobuf message type, `shop.Order`."""

    def check(self) -> None:
        """Raise ConfigError if it cannot be used, with the reason."""
        if not self.topic:
            raise ConfigError("a schema needs the topics that it is for")
        if len(self.data) > LARGEST:
            raise ConfigError(f"a schema has at most {LARGEST:,} bytes")
        Decoder.of(self)


class CannotDecode(ValueError):
    """A body does not fit its schema."""


class Decoder:
    """A schema that is ready for use."""

    def __init__(self, schema: BodySchema, ready: Any) -> None:
        self.schema = schema
        self._ready = ready

    @classmethod
    def of(cls, schema: BodySchema) -> Decoder:
        """Prepare a schema; raise ConfigError if it cannot be used."""
        prepare = _avro_schema if schema.format == "avro" else _message_class
        return cls(schema, prepare(schema))

    def decode(self, body: bytes) -> Any:
        """Return the fields of a body; raise CannotDecode."""
        if self.schema.format == "avro":
            try:
                if body.startswith(avro.MAGIC):
                    return avro.container(body).records
                return avro.record(self._ready, body)
            except avro.NotAvro as error:
                raise CannotDecode(str(error)) from error
        return _protobuf(self._ready, body)


class BodySchemas:
    """All schemas of a console, ready for use."""

    def __init__(self, schemas: Iterable[BodySchema] = ()) -> None:
        self._decoders = [Decoder.of(schema) for schema in schemas]

    def of_topics(self, topics: Iterable[str | None]) -> Decoder | None:
        """Return the schema for a message that belongs, or belonged, to these topics; the first that fits."""
        names = [name for name in topics if name]
        fitting = (one for one in self._decoders if any(fnmatchcase(name, one.schema.topic) for name in names))
        return next(fitting, None)


def _avro_schema(schema: BodySchema) -> Any:
    if not avro.is_available():
        raise ConfigError("Avro needs the package fastavro: pip install 'pyromq[schemas]'")
    try:
        return avro.parsed_schema(schema.data)
    except avro.NotAvro as error:
        raise ConfigError(f"this is not an Avro schema: {error}") from None


def message_types(data: bytes) -> list[str]:
    """Return the message types of a descriptor set; raise ConfigError if it is none."""
    return sorted(_pool(data)[1])


def _message_class(schema: BodySchema) -> Any:
    from google.protobuf import message_factory

    pool, known = _pool(schema.data)
    name = schema.message or (known[0] if len(known) == 1 else "")
    if name not in known:
        raise ConfigError(
            f"choose the type of the messages: {', '.join(known[:20])}" + (" …" if len(known) > 20 else "")
        )
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def _pool(data: bytes) -> tuple[Any, list[str]]:
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool
        from google.protobuf.message import DecodeError
    except ImportError:
        raise ConfigError("Protobuf needs the package protobuf: pip install 'pyromq[schemas]'") from None
    files = descriptor_pb2.FileDescriptorSet()
    pool = descriptor_pool.DescriptorPool()
    try:
        files.ParseFromString(data)
        for file in files.file:
            pool.Add(file)
        known = [_qualified(file.package, message.name) for file in files.file for message in file.message_type]
        for name in known:
            pool.FindMessageTypeByName(name)
    except (DecodeError, TypeError, KeyError, ValueError) as error:
        raise ConfigError(
            f"this is not a complete descriptor set: {error}; protoc --include_imports --descriptor_set_out writes one"
        ) from None
    if not known:
        raise ConfigError(
            "the descriptor set has no messages: protoc --include_imports --descriptor_set_out writes one"
        )
    return pool, known


def _qualified(package: str, name: str) -> str:
    return f"{package}.{name}" if package else name


def _protobuf(message_class: Any, body: bytes) -> Any:
    from google.protobuf.json_format import Error, MessageToDict
    from google.protobuf.message import DecodeError

    try:
        return MessageToDict(message_class.FromString(body), preserving_proto_field_name=True)
    except (DecodeError, Error, ValueError, TypeError, RecursionError) as error:
        raise CannotDecode(str(error) or "the body does not fit the message type") from error
