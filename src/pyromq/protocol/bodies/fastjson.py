"""The JSON of Java peers: RocketMQ writes bodies with a library (fastjson) that departs from the standard.

    {0:"10.0.0.5:10911"}                                     a map with numbers as keys: no quotes
    {{"brokerName":"b","queueId":0,"topic":"T"}:7}           a map with objects as keys: the bare object

The writer produces exactly the Java form, which some clients take apart as text: compact, members sorted by name, no
null members. Reading tries msgspec first, for standard JSON, and `fastjson_reader` for whatever else Java accepts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Sequence
from decimal import Decimal
from enum import Enum
from functools import cache
from math import isfinite
from operator import attrgetter
from typing import Any, Final

import msgspec
import msgspec.inspect
from msgspec import Struct

from pyromq.errors import LocalProtocolError, MalformedHeader
from pyromq.protocol.bodies.fastjson_reader import FrozenKey, read_dialect, resolve_references
from pyromq.protocol.unreadable import UNREADABLE

__all__ = ["MAX_VALUES", "FrozenKey", "camel", "dumping", "dumps", "dumps_pretty", "java_double", "loads"]

MAX_VALUES: Final = 1_000_000
"""The most values of one text: 16 MiB of `[]` would take half a gigabyte of memory."""

_STEP_SIZE: Final = 16 * 1024
_ITEM_COST: Final = 200
"""A step writes this many characters, where an item counts as some more: about half a millisecond."""

_plain_json = msgspec.json.Decoder()


def loads(data: bytes | str, *, trusted: bool = False) -> Any:
    """Read one value. Numeric keys become text, objects as keys become FrozenKeys, references are resolved.

    Raises MalformedHeader for what Java would not read either, and for what is nested too deeply or, unless it comes
    from a `trusted` place such as a file of this broker, too large.
    """
    raw = data if isinstance(data, bytes) else data.encode("utf-8", "replace")
    if not trusted and raw.count(b",") + raw.count(b"[") + raw.count(b"{") > MAX_VALUES:
        raise MalformedHeader(f"JSON with more than {MAX_VALUES} values")
    try:
        value = _plain_json.decode(raw)
    except UNREADABLE:
        value = read_dialect(raw.decode("utf-8", "replace"))
    return resolve_references(value) if b"$ref" in raw else value


def dumps(value: object, *, quoted_keys: bool = False) -> bytes:
    """Write a value as Java does; with `quoted_keys` as standard ASCII JSON, which 4.9.4 peers may ask for."""
    return _Writer(standard=quoted_keys).text(value).encode("utf-8", "replace")


def dumping(value: object, *, quoted_keys: bool = False) -> Generator[None, None, bytes]:
    """Write a value in small steps, with the same result as `dumps`. It must not change meanwhile."""
    texts: list[str] = []
    parts: list[bytes] = []
    for _ in _Writer(standard=quoted_keys).steps(value, texts.append):
        parts.append("".join(texts).encode("utf-8", "replace"))
        texts.clear()
        yield
    parts.append("".join(texts).encode("utf-8", "replace"))
    return b"".join(parts)  # the only copy of the whole, which may have megabytes


def dumps_pretty(value: object) -> bytes:
    """Write a value as Java writes its configuration files: one member a line, indented with tabs."""
    return _Writer(pretty=True).text(value).encode("utf-8", "replace")


class _Writer:
    def __init__(self, *, standard: bool = False, pretty: bool = False) -> None:
        self._standard = standard
        self._pretty = pretty
        self._depth = 0
        self._in_step = 0

    def text(self, value: object) -> str:
        if type(value) is str:
            return self._string(value)
        if type(value) is int:
            return str(value)
        if type(value) is bool:
            return "true" if value else "false"
        if type(value) is dict:
            return self._mapping(value.items())
        if isinstance(value, Struct) or hasattr(value, "_fields"):
            return self._members(value)
        return self._rarer(value)

    def steps(self, value: object, put: Callable[[str], None]) -> Generator[None, None, None]:
        """Put a value as `text` writes it, piece by piece, and yield after every few items or kilobytes."""
        if isinstance(value, Struct) and _has_containers(type(value)):
            yield from self._member_steps(value, put)
        elif type(value) is dict:
            yield from self._mapping_steps(value, put)
        elif isinstance(value, list | tuple) and not hasattr(value, "_fields"):
            yield from self._list_steps(value, put)
        else:
            put(self.text(value))

    def _member_steps(self, value: Struct, put: Callable[[str], None]) -> Generator[None, None, None]:
        keys, read = _layout(type(value))
        before = "{"
        for key, member in zip(keys, read(value), strict=True):
            if member is not None:
                put(before + key)
                before = ","
                yield from self.steps(member, put)
        put("}" if before == "," else "{}")

    def _mapping_steps(self, value: dict[object, object], put: Callable[[str], None]) -> Generator[None, None, None]:
        before = "{"
        for key, member in value.items():
            if member is None:
                continue
            put(f"{before}{self._key(key)}:")
            before = ","
            yield from self._item_steps(member, put)
        put("}" if before == "," else "{}")

    def _list_steps(self, value: Sequence[object], put: Callable[[str], None]) -> Generator[None, None, None]:
        before = "["
        for item in value:
            put(before)
            before = ","
            yield from self._item_steps(item, put)
        put("]" if before == "," else "[]")

    def _item_steps(self, item: object, put: Callable[[str], None]) -> Generator[None, None, None]:
        if _is_leaf(item):
            text = self.text(item)
            put(text)
            self._in_step += len(text)
        else:
            yield from self.steps(item, put)
        self._in_step += _ITEM_COST
        if self._in_step > _STEP_SIZE:
            self._in_step = 0
            yield

    def _rarer(self, value: object) -> str:
        if isinstance(value, Enum):
            return self._string(value.name)
        if isinstance(value, float):
            return java_double(value) if isfinite(value) else "null"
        if isinstance(value, list | tuple | set | frozenset):
            return self._list(value)
        if value is None:
            return "null"
        raise LocalProtocolError(f"cannot write {type(value).__name__} as JSON")

    def _string(self, text: str) -> str:
        if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
            return f'"{text}"'
        return f'"{_NOT_ASCII.sub(_escape, text) if self._standard else text.translate(_ESCAPES)}"'

    def _members(self, value: object) -> str:
        kind: Any = type(value)
        keys, read = _layout(kind)
        self._depth += 1
        members = [key + self.text(member) for key, member in zip(keys, read(value), strict=True) if member is not None]
        self._depth -= 1
        return self._group("{", members, "}", by_line=True)

    def _mapping(self, items: Iterable[tuple[object, object]]) -> str:
        self._depth += 1
        members = [f"{self._key(key)}:{self.text(value)}" for key, value in items if value is not None]
        self._depth -= 1
        # Java breaks the line before a member only if the key is a string.
        return self._group("{", members, "}", by_line=bool(members) and members[0].startswith('"'))

    def _key(self, key: object) -> str:
        text = self.text(key)
        return self._string(text) if self._standard and not isinstance(key, str) else text

    def _list(self, items: Iterable[object]) -> str:
        self._depth += 1
        texts = [self.text(item) for item in items]
        self._depth -= 1
        return self._group("[", texts, "]", by_line=True)

    def _group(self, opening: str, items: list[str], closing: str, by_line: bool) -> str:
        if not items or not self._pretty:
            return opening + ",".join(items) + closing
        end = "\n" + "\t" * self._depth
        line = end + "\t" if by_line else ""
        return opening + line + ("," + line).join(items) + end + closing


def _is_leaf(value: object) -> bool:
    """Return True if a value has no items of its own, so that it is written at once."""
    kind: Any = type(value)
    return kind is str or kind is int or (isinstance(value, Struct) and not _has_containers(kind))


@cache
def _has_containers(kind: type[Any]) -> bool:
    info = msgspec.inspect.type_info(kind)
    assert isinstance(info, msgspec.inspect.StructType)
    return any(not isinstance(field.type, _SCALARS) for field in info.fields)


_SCALARS: Final = (
    msgspec.inspect.StrType,
    msgspec.inspect.IntType,
    msgspec.inspect.BoolType,
    msgspec.inspect.FloatType,
    msgspec.inspect.EnumType,
)


@cache
def _layout(kind: type[Any]) -> tuple[list[str], Callable[[object], Iterable[object]]]:
    """Return the written keys in order, and a function that returns the values in that order."""
    fields = kind.__struct_fields__ if issubclass(kind, Struct) else kind._fields
    names = kind.__struct_encode_fields__ if issubclass(kind, Struct) else map(camel, fields)
    members = sorted(zip(names, fields, strict=True))
    read = attrgetter(*(field for _, field in members))
    keys = [f'"{name}":' for name, _ in members]
    return keys, read if len(members) > 1 else lambda value: (read(value),)


def camel(name: str) -> str:
    """Return a Python name in camel case, as Java peers spell it."""
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


_NOT_ASCII = re.compile(r"[^ !#-\[\]-~]")  # quotes and backslashes too; as a range, compiling it takes milliseconds
_SHORT_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def _escape(match: re.Match[str]) -> str:
    return _escaped(match.group())


def _escaped(character: str) -> str:
    if character in _SHORT_ESCAPES:
        return _SHORT_ESCAPES[character]
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i : i + 2].hex().upper()}" for i in range(0, len(units), 2))


_ESCAPES = {code: _escaped(chr(code)) for code in (0x22, 0x5C, *range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029)}


def java_double(value: float) -> str:
    """Return a number as Java's Double.toString does: `1.5` and `1.0E10`."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return format(Decimal(repr(value)), "f") if value != int(value) else f"{value:.1f}"
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    mantissa = "".join(map(str, digits))
    return f"{'-' * sign}{mantissa[0]}.{mantissa[1:] or '0'}E{int(exponent) + len(digits) - 1}"
