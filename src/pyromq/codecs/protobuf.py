"""Protobuf: bodies of generated classes."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from pyromq.codecs.codec import Codec, Decode, PayloadSchema
from pyromq.codecs.typed_values import check_kind, decode_error, encode_error, from_plain, one_line, type_name
from pyromq.errors import ClientError, PayloadError

try:
    from google.protobuf import json_format
    from google.protobuf.message import DecodeError
    from google.protobuf.message import Message as ProtobufMessage
except ImportError:
    raise ClientError("Protobuf needs protobuf: pip install 'pyromq[schemas]'") from None


class Protobuf(Codec):
    """Protocol Buffers: values are messages of generated classes.

    With a class, `Protobuf(Order)`, a topic has only such messages; dicts and typed values are converted too.
    """

    content_type: ClassVar[str] = "application/x-protobuf"

    def __init__(self, kind: Any = None) -> None:
        if kind is not None and not _is_generated(kind):
            raise ClientError(f"Protobuf(...) takes a generated class, not {type_name(kind)}")
        self._kind = kind

    def encode_value(self, value: object) -> bytes:
        try:
            return bytes(self._message(value).SerializeToString())
        except Exception as error:  # ParseError, EncodeError, ValueError: what does not fit the class
            raise encode_error(value, error) from None

    def _message(self, value: object) -> Any:
        if self._kind is None and not isinstance(value, ProtobufMessage):
            raise TypeError("Protobuf() sends messages of generated classes; Protobuf(Order) converts dicts too")
        if self._kind is None or isinstance(value, self._kind):
            return value
        if isinstance(value, ProtobufMessage):
            raise TypeError(f"this topic has {self._kind.DESCRIPTOR.full_name}")
        return json_format.ParseDict(msgspec.to_builtins(value), self._kind())

    def value_decoder(self, kind: Any) -> Decode:
        if _is_generated(kind):
            if self._kind not in (None, kind):
                raise ClientError(f"this topic has {self._kind.DESCRIPTOR.full_name}, not {type_name(kind)}")
            return lambda body: _parse(kind, body)
        if self._kind is None:
            raise ClientError(f"Protobuf() decodes generated classes, not {type_name(kind)}; Protobuf(Order) does both")
        check_kind(kind)
        return lambda body: _convert(_parse(self._kind, body), kind)

    def schema(self, kind: Any, reference: str = "#/$defs/{name}") -> PayloadSchema:
        chosen = kind if _is_generated(kind) else self._kind
        fields = (f"  {_type_of(field)} {field.name} = {field.number};" for field in chosen.DESCRIPTOR.fields)
        text = "\n".join([f"message {chosen.DESCRIPTOR.name} {{", *fields, "}"])
        return PayloadSchema(text, schema_format="application/vnd.google.protobuf;version=3")


def _is_generated(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, ProtobufMessage)


def _parse(kind: Any, body: bytes) -> Any:
    try:
        return kind.FromString(body)
    except DecodeError as error:
        name = kind.DESCRIPTOR.full_name
        raise PayloadError(f"the body is not a {name}: {one_line(error)}") from None


def _convert(message: Any, kind: Any) -> Any:
    plain = json_format.MessageToDict(message, preserving_proto_field_name=True)
    try:
        # Protobuf's JSON has 64-bit numbers as text
        return msgspec.convert(plain, kind, strict=False, dec_hook=from_plain)
    except msgspec.MsgspecError as error:
        raise decode_error(error) from None


def _type_of(field: Any) -> str:
    scalar = {1: "double", 2: "float", 3: "int64", 4: "uint64", 5: "int32", 8: "bool", 9: "string", 12: "bytes"}
    scalar |= {6: "fixed64", 7: "fixed32", 13: "uint32", 15: "sfixed32", 16: "sfixed64", 17: "sint32", 18: "sint64"}
    named = field.message_type or field.enum_type
    name = named.full_name if named is not None else scalar.get(field.type, "bytes")
    return f"repeated {name}" if field.is_repeated else name
