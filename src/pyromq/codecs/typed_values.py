"""Typed values: what msgspec and Pydantic can check, and errors that name the field that is wrong."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

import msgspec
from msgspec import inspect

from pyromq.codecs.codec import PayloadSchema
from pyromq.errors import ClientError, PayloadError

BUILTIN_TYPES: Final = (bytes, bytearray, datetime, date, time, timedelta, Decimal, UUID)
"""What a format that knows more than JSON decodes to by itself."""

_FORM: Final = "a msgspec.Struct, dataclass, TypedDict, Pydantic model, dict, list, str or bytes"
_PLACE: Final = re.compile(r" - at `(?:key in )?\$?\.?(?P<path>[^`]*)`$")
_MISSING: Final = re.compile(r"missing required field `(?P<name>[^`]+)`")


def is_model(kind: Any) -> bool:
    """Return True for a Pydantic model; Pydantic is not loaded for it, because a model has loaded it."""
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and isinstance(kind, type) and issubclass(kind, pydantic.BaseModel)


def check_kind(kind: Any) -> None:
    """Raise ClientError, with the right form, if values of this type cannot be decoded."""
    try:
        strange = next((found for found in _custom_types(inspect.type_info(kind)) if not is_model(found)), None)
    except (TypeError, RecursionError) as error:
        raise ClientError(f"{kind!r} cannot be decoded from a message: {error}") from None
    if strange is not None:
        raise ClientError(f"{type_name(strange)} cannot be decoded from a message; use {_FORM}")


def _custom_types(info: object, seen: set[int] | None = None) -> Iterator[Any]:
    """Yield the classes in a type that msgspec does not know."""
    seen = set() if seen is None else seen
    if isinstance(info, inspect.CustomType):
        yield info.cls
    elif isinstance(info, tuple | list):
        for each in info:
            yield from _custom_types(each, seen)
    elif isinstance(info, inspect.Type | inspect.Field) and id(info) not in seen:
        seen.add(id(info))
        for name in info.__struct_fields__:
            if name not in ("default", "default_factory", "cls"):
                yield from _custom_types(getattr(info, name), seen)


def to_plain(value: Any) -> Any:
    """Return what stands for a value that msgspec does not know; the encoders' hook."""
    if is_model(type(value)):
        return value.model_dump(mode="json")
    raise NotImplementedError(f"a {type_name(type(value))} cannot be encoded; use {_FORM}")


def from_plain(kind: Any, value: Any) -> Any:
    """Return a value of a type that msgspec does not know; the decoders' hook."""
    if is_model(kind):
        try:
            return kind.model_validate(value)
        except ValueError as error:
            raise ValueError(str(model_error(error))) from None
    raise NotImplementedError(f"{type_name(kind)} cannot be decoded from a message; use {_FORM}")


def encode_error(value: object, error: Exception) -> PayloadError:
    """Return the error for a value that an encoder refused."""
    return PayloadError(f"a value of type {type_name(type(value))} cannot be sent: {one_line(error)}")


def decode_error(error: Exception) -> PayloadError:
    """Return msgspec's error with the name of the field in front: `field cents: expected int, got str`."""
    if isinstance(error, UnicodeDecodeError):
        return PayloadError("the body is not UTF-8")
    text = one_line(error)
    place, missing = _PLACE.search(text), _MISSING.search(text)
    path = place["path"] if place else ""
    text = _PLACE.sub("", text).replace("`", "")
    if missing is not None:
        return PayloadError("it is required and missing", field=f"{path}.{missing['name']}".lstrip("."))
    return PayloadError(f"{text[:1].lower()}{text[1:]}" if path else text, field=path)


def model_error(error: Any) -> PayloadError:
    """Return Pydantic's first error."""
    first = error.errors()[0]
    path = ".".join(map(str, first["loc"])).replace(".[", "[")
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    return PayloadError(f"{first['msg'][:1].lower()}{first['msg'][1:]}{more}", field=path)


def json_schema(kind: Any, reference: str) -> PayloadSchema:
    """Return the JSON Schema of a type."""
    if is_model(kind):
        schema = kind.model_json_schema(ref_template=reference.replace("{name}", "{model}"))
        definitions = schema.pop("$defs", {})
        return PayloadSchema(schema, definitions)
    (schema,), definitions = msgspec.json.schema_components([kind], schema_hook=_model_schema, ref_template=reference)
    return PayloadSchema(schema, definitions)


def _model_schema(kind: Any) -> dict[str, Any]:
    if is_model(kind):
        found: dict[str, Any] = kind.model_json_schema()
        return found
    raise NotImplementedError


def type_name(kind: Any) -> str:
    """Return the name by which people know a type."""
    return kind.__qualname__.rpartition("<locals>.")[2] if isinstance(kind, type) else str(kind)


def one_line(error: BaseException) -> str:
    """Return an exception's text on one line."""
    return " ".join(str(error).split()) or type(error).__name__
