"""MessagePack: the types of JSON in fewer bytes."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from pyromq.codecs.codec import Codec, Decode, PayloadSchema
from pyromq.codecs.typed_values import check_kind, decode_error, encode_error, from_plain, json_schema, to_plain
from pyromq.protocol.unreadable import UNREADABLE


class MessagePack(Codec):
    """MessagePack for the same types as `Json`; a `str` is encoded too."""

    content_type: ClassVar[str] = "application/msgpack"

    def __init__(self) -> None:
        self._encoder = msgspec.msgpack.Encoder(enc_hook=to_plain)

    def encode_value(self, value: object) -> bytes:
        try:
            return self._encoder.encode(value)
        except (TypeError, ValueError, NotImplementedError, RecursionError, OverflowError) as error:
            raise encode_error(value, error) from None

    def value_decoder(self, kind: Any) -> Decode:
        check_kind(kind)
        decoder = msgspec.msgpack.Decoder(kind, dec_hook=from_plain)

        def decode(body: bytes) -> Any:
            try:
                return decoder.decode(body)
            except UNREADABLE as error:
                raise decode_error(error) from None

        return decode

    def schema(self, kind: Any, reference: str = "#/$defs/{name}") -> PayloadSchema:
        return PayloadSchema({"type": "string"}) if kind is bytes else json_schema(kind, reference)
