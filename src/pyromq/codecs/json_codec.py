"""Json: the codec of topics that have no other."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from pyromq.codecs.codec import Codec, Decode, PayloadSchema
from pyromq.codecs.typed_values import (
    check_kind,
    decode_error,
    encode_error,
    from_plain,
    is_model,
    json_schema,
    model_error,
    to_plain,
)
from pyromq.errors import PayloadError
from pyromq.protocol.unreadable import UNREADABLE


class Json(Codec):
    """JSON, the default: Struct, dataclass, TypedDict, Pydantic model, dict, list, numbers.

    A `str` is sent as it is, in UTF-8, without quotation marks; a payload of type `str` is the body's text.
    """

    content_type: ClassVar[str] = "application/json"

    def __init__(self) -> None:
        self._encoder = msgspec.json.Encoder(enc_hook=to_plain)

    def encode_value(self, value: object) -> bytes:
        try:
            if isinstance(value, str):
                return value.encode()
            return self._encoder.encode(value)
        except (TypeError, ValueError, NotImplementedError, RecursionError, OverflowError) as error:
            raise encode_error(value, error) from None

    def value_decoder(self, kind: Any) -> Decode:
        if kind is str:
            return _text
        check_kind(kind)
        return _model_decoder(kind) if is_model(kind) else _typed_decoder(kind)

    def schema(self, kind: Any, reference: str = "#/$defs/{name}") -> PayloadSchema:
        return PayloadSchema({"type": "string"}) if kind is bytes else json_schema(kind, reference)


def _text(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise PayloadError(f"the body is not UTF-8 text (byte {error.start}); take it as bytes") from None


def _typed_decoder(kind: Any) -> Decode:
    decoder = msgspec.json.Decoder(kind, dec_hook=from_plain)

    def decode(body: bytes) -> Any:
        try:
            return decoder.decode(body)
        except UNREADABLE as error:
            raise decode_error(error) from None

    return decode


def _model_decoder(kind: Any) -> Decode:
    def decode(body: bytes) -> Any:
        try:
            return kind.model_validate_json(body)
        except ValueError as error:
            raise model_error(error) from None

    return decode
