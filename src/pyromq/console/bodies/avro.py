"""Avro: container files, and single records of a known schema. Needs the package fastavro.

    container    "Obj" 1, a map of metadata (avro.schema, avro.codec), a mark of 16 bytes
                 then blocks: number of records, number of bytes, the records, the mark

Blocks are walked here and unpacked within a limit; fastavro would unpack them whole. Schemas that call themselves, or
have lists of things that take no bytes, are refused: a short body could then keep the decoder busy for ever.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from pyromq.console.bodies.inflation import MOST_BYTES, CannotInflate, inflate

MAGIC: Final = b"Obj\x01"
MOST_RECORDS: Final = 200
_MARK: Final = 16
_DEEPEST_SCHEMA: Final = 40
_CODECS: Final = {"null": None, "deflate": "deflate"}


class NotAvro(ValueError):
    """The bytes, or their schema, cannot be read."""


class AvroRecords(NamedTuple):
    """The first records of a container."""

    records: list[Any]
    is_whole: bool


def is_available() -> bool:
    """Return True if fastavro is installed."""
    try:
        import fastavro  # noqa: F401
    except ImportError:
        return False
    return True


def parsed_schema(text: str | bytes) -> Any:
    """Return a schema that is safe to decode with; raise NotAvro if it is not."""
    from fastavro.schema import parse_schema

    try:
        raw = json.loads(text)
        _check(raw, ())
        return parse_schema(raw)
    except Exception as error:  # fastavro's errors have no root in common
        raise NotAvro(str(error) or "not a schema") from error


def record(schema: Any, data: bytes) -> Any:
    """Return one record of a schema; raise NotAvro if it is not one, or has bytes left over."""
    source = io.BytesIO(data)
    found = _read(source, schema)
    if source.tell() != len(data):
        raise NotAvro("there are bytes behind the record")
    return found


def container(data: bytes) -> AvroRecords:
    """Return the first records of a container file; raise NotAvro if it is none."""
    source = io.BytesIO(data)
    if source.read(len(MAGIC)) != MAGIC:
        raise NotAvro("not an Avro container")
    metadata = _metadata(source)
    schema = parsed_schema(metadata.get("avro.schema", b""))
    codec = metadata.get("avro.codec", b"null").decode(errors="replace")
    if codec not in _CODECS:
        raise NotAvro(f"the codec {codec!r} is not supported")
    mark = source.read(_MARK)
    found: list[Any] = []
    for count, block in _blocks(source, mark, _CODECS[codec]):
        records = io.BytesIO(block)
        for _ in range(count):
            if len(found) >= MOST_RECORDS:
                return AvroRecords(found, is_whole=False)
            found.append(_read(records, schema))
    return AvroRecords(found, is_whole=True)


def _blocks(source: io.BytesIO, mark: bytes, codec: str | None) -> Iterator[tuple[int, bytes]]:
    left = MOST_BYTES
    while head := source.read(1):
        source.seek(-len(head), io.SEEK_CUR)
        count, size = _long(source), _long(source)
        if count < 0 or not 0 <= size <= MOST_BYTES:
            raise NotAvro("a block has no sensible size")
        block = source.read(size)
        if len(block) != size or source.read(_MARK) != mark:
            raise NotAvro("a block is cut off")
        if codec:
            try:
                block, is_whole = inflate(codec, block, left)
            except CannotInflate as error:
                raise NotAvro(str(error)) from error
            if not is_whole:
                raise NotAvro("it unpacks to more than is shown")
        left -= len(block)
        yield count, block


def _metadata(source: io.BytesIO) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    while count := _long(source):
        if count < 0:
            count, _ = -count, _long(source)
        if count > 100:
            raise NotAvro("too much metadata")
        for _ in range(count):
            key = _bytes(source).decode(errors="replace")
            found[key] = _bytes(source)
    return found


def _bytes(source: io.BytesIO) -> bytes:
    size = _long(source)
    found = source.read(size) if 0 <= size <= MOST_BYTES else b""
    if len(found) != size:
        raise NotAvro("it is cut off")
    return found


def _long(source: io.BytesIO) -> int:
    number = 0
    for shift in range(0, 70, 7):
        byte = source.read(1)
        if not byte:
            raise NotAvro("it is cut off")
        number |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            return (number >> 1) ^ -(number & 1)
    raise NotAvro("a number is too long")


def _read(source: io.BytesIO, schema: Any) -> Any:
    from fastavro import schemaless_reader

    try:
        return schemaless_reader(source, schema, None)
    except Exception as error:  # whatever a decoder makes of bytes that are not its own
        raise NotAvro(str(error) or type(error).__name__) from error


def _check(schema: Any, inside: tuple[str, ...], depth: int = 0) -> None:
    """Raise NotAvro for a schema that is too deep, calls itself, or has lists of nothing."""
    if depth > _DEEPEST_SCHEMA:
        raise NotAvro("the schema is too deep")
    if isinstance(schema, list):
        for each in schema:
            _check(each, inside, depth + 1)
    elif isinstance(schema, str):
        if schema.rpartition(".")[2] in inside:
            raise NotAvro("the schema calls itself")
    elif isinstance(schema, Mapping):
        kind = schema.get("type")
        if kind == "array" and _takes_no_bytes(schema.get("items"), depth):
            raise NotAvro("the schema has a list of things that take no bytes")
        name = str(schema.get("name", "")).rpartition(".")[2]
        here = (*inside, name) if kind in ("record", "error") else inside
        for part in (kind if not isinstance(kind, str) else None, schema.get("items"), schema.get("values")):
            if part is not None:
                _check(part, inside, depth + 1)
        for field in schema.get("fields", ()):
            _check(field.get("type"), here, depth + 1)


def _takes_no_bytes(schema: Any, depth: int) -> bool:
    if depth > _DEEPEST_SCHEMA:
        return True
    if isinstance(schema, Mapping):
        kind = schema.get("type")
        if kind in ("record", "error"):
            return all(_takes_no_bytes(field.get("type"), depth + 1) for field in schema.get("fields", ()))
        if kind == "fixed":
            return not schema.get("size")
        return _takes_no_bytes(kind, depth + 1)
    # a name of something defined elsewhere may take none: those that are known are of one word and primitive
    return schema not in _WITH_BYTES and not isinstance(schema, list)


_WITH_BYTES: Final = frozenset({"boolean", "int", "long", "float", "double", "bytes", "string", "array", "map", "enum"})
