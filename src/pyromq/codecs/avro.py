"""Avro: bodies with a schema that both sides know."""

from __future__ import annotations

from io import BytesIO
from typing import Any, ClassVar

import msgspec

from pyromq.codecs.codec import Codec, Decode, PayloadSchema
from pyromq.codecs.typed_values import (
    BUILTIN_TYPES,
    check_kind,
    decode_error,
    encode_error,
    from_plain,
    one_line,
    to_plain,
)
from pyromq.errors import ClientError, PayloadError

try:
    import fastavro
    import fastavro.validation
except ImportError:
    raise ClientError("Avro needs fastavro: pip install 'pyromq[schemas]'") from None


class Avro(Codec):
    """Avro's binary encoding of one record, without the schema: `Avro(schema)` on both sides.

    >>> orders = Avro({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "string"}]})

    Values are dicts, or the types that `Json` takes.
    """

    content_type: ClassVar[str] = "application/vnd.apache.avro+binary"

    def __init__(self, schema: dict[str, Any] | list[Any] | str) -> None:
        try:
            self._source = msgspec.json.decode(schema) if isinstance(schema, str) else schema
            self._schema = fastavro.parse_schema(self._source)
        except Exception as error:  # fastavro raises KeyError, TypeError and more for what is no schema
            raise ClientError(f"not an Avro schema: {one_line(error)}") from None

    def encode_value(self, value: object) -> bytes:
        try:
            plain = msgspec.to_builtins(value, builtin_types=BUILTIN_TYPES, enc_hook=to_plain)
        except (TypeError, ValueError, NotImplementedError, RecursionError) as error:
            raise encode_error(value, error) from None
        buffer = BytesIO()
        try:
            fastavro.schemaless_writer(buffer, self._schema, plain)
        except Exception:  # fastavro raises what its Cython raises
            raise encode_error(value, self._reason(plain)) from None
        return buffer.getvalue()

    def _reason(self, plain: Any) -> Exception:
        """Return why a value does not fit: fastavro's check names the field, its writer does not."""
        try:
            fastavro.validation.validate(plain, self._schema, raise_errors=True)
        except Exception as error:
            return error
        return ValueError("it does not fit the schema")

    def value_decoder(self, kind: Any) -> Decode:
        check_kind(kind)

        def decode(body: bytes) -> Any:
            plain = self._read(body)
            try:
                return msgspec.convert(plain, kind, builtin_types=BUILTIN_TYPES, dec_hook=from_plain)
            except msgspec.MsgspecError as error:
                raise decode_error(error) from None

        return decode

    def _read(self, body: bytes) -> Any:
        stream = BytesIO(body)
        try:
            plain = fastavro.schemaless_reader(stream, self._schema, None)
        except Exception as error:  # EOFError, IndexError, struct.error and more: the bytes are not of this schema
            raise PayloadError(f"the body is not Avro of this schema: {one_line(error)}") from None
        if stream.tell() != len(body):
            raise PayloadError(f"the body has {len(body) - stream.tell()} bytes behind the Avro record")
        return plain

    def schema(self, kind: Any, reference: str = "#/$defs/{name}") -> PayloadSchema:
        return PayloadSchema(self._source, schema_format="application/vnd.apache.avro+json;version=1.9.0")
