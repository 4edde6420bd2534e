"""Typed bodies from and to JSON, as lenient as Java's reader.

A body that fits its type is converted at once. Any other is tidied first: members with another spelling find their
field, unknown and null members are dropped, texts become numbers, ordinals and names in any case become enum members.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, inspect

from pyromq.errors import MalformedHeader
from pyromq.protocol.bodies import fastjson
from pyromq.protocol.bodies.fastjson import FrozenKey


class Body(Struct, rename="camel", forbid_unknown_fields=True):
    """The base of all JSON bodies. Unknown members are dropped on the tidying path: they may be misspelt fields."""


B = TypeVar("B")


def encode(body: object, *, quoted_keys: bool = False) -> bytes:
    """Write a body as Java does; with `quoted_keys` as standard JSON."""
    return fastjson.dumps(body, quoted_keys=quoted_keys)


def decode(kind: type[B], data: bytes, *, trusted: bool = False) -> B:
    """Read a body; raise MalformedHeader if it cannot be read as that kind, however leniently.

    The number of values is limited unless the body comes from a `trusted` place, such as a file of this broker.
    """
    value = fastjson.loads(data, trusted=trusted) if data.strip() else None
    if value is None:
        raise MalformedHeader(f"no {kind.__name__}: the body is empty")
    try:
        return msgspec.convert(value, kind, strict=False, str_keys=True)
    except msgspec.ValidationError:
        shape: Any = kind
        tidied = _tidy(value, _type_info(shape))
    try:
        return msgspec.convert(tidied, kind, strict=False, str_keys=True)
    except msgspec.ValidationError as error:
        raise MalformedHeader(f"not a {kind.__name__}: {error}") from None


_ABSENT: Any = object()  # Java would read it as null, so the field keeps its default


def _tidy(value: Any, kind: inspect.Type) -> Any:
    if isinstance(kind, inspect.UnionType):  # bodies have only unions of a type and None
        kind = next(each for each in kind.types if not isinstance(each, inspect.NoneType))
    if value is None:
        return _ABSENT
    tidy = _TIDIERS.get(type(kind))
    return value if tidy is None else tidy(value, kind)


def _tidy_members(value: Any, fields: dict[str, tuple[str, inspect.Type]]) -> dict[str, Any]:
    members = {}
    for name, member in value.items():
        if isinstance(name, str) and (field := fields.get(fold(name))):
            tidied = _tidy(member, field[1])
            if tidied is not _ABSENT:
                members[field[0]] = tidied
    return members


def _tidy_struct(value: Any, kind: inspect.StructType) -> Any:
    return _tidy_members(value, _struct_fields(kind.cls)) if isinstance(value, dict) else value


def _tidy_tuple(value: Any, kind: inspect.NamedTupleType) -> Any:
    if isinstance(value, str):  # some peers write an object as a key as JSON inside a string
        value = fastjson.loads(value)
    if not isinstance(value, dict | FrozenKey):
        return value
    fields = _tuple_fields(kind.cls)
    members = _tidy_members(dict(value), fields)
    return tuple(members.get(name) for name, _ in fields.values())


def _tidy_dict(value: Any, kind: inspect.DictType) -> Any:
    if not isinstance(value, dict):
        return value
    pairs = ((_tidy(key, kind.key_type), _tidy(member, kind.value_type)) for key, member in value.items())
    try:
        return {key: member for key, member in pairs if member is not _ABSENT}
    except TypeError:
        raise MalformedHeader("an object used as a key contains lists or objects") from None


def _tidy_list(value: Any, kind: inspect.ListType) -> Any:
    if not isinstance(value, list):
        return value
    items = (_tidy(item, kind.item_type) for item in value)
    return [item for item in items if item is not _ABSENT]


def _tidy_enum(value: Any, kind: inspect.EnumType) -> Any:
    members = list(kind.cls)
    if _INTEGER.fullmatch(str(value)):
        ordinal = int(value)
        return members[ordinal].value if 0 <= ordinal < len(members) else _ABSENT
    found = [member.value for member in members if member.name.lower() == str(value).lower()]
    return found[0] if found else _ABSENT


def _tidy_number(value: Any, kind: inspect.Type) -> Any:
    if not isinstance(value, str):
        return value
    text = value.strip()
    if text in ("", "null"):
        return _ABSENT
    return int(text) if _INTEGER.fullmatch(text) else text


def _tidy_bool(value: Any, kind: inspect.Type) -> Any:
    return _ABSENT if value in ("", "null") else value


def _tidy_text(value: Any, kind: inspect.Type) -> Any:
    return value if isinstance(value, str) else fastjson.dumps(value).decode()


_INTEGER = re.compile(r"[-+]?[0-9]{1,19}")
_TIDIERS: dict[type[inspect.Type], Callable[[Any, Any], Any]] = {
    inspect.StructType: _tidy_struct,
    inspect.NamedTupleType: _tidy_tuple,
    inspect.DictType: _tidy_dict,
    inspect.ListType: _tidy_list,
    inspect.EnumType: _tidy_enum,
    inspect.IntType: _tidy_number,
    inspect.FloatType: _tidy_number,
    inspect.BoolType: _tidy_bool,
    inspect.StrType: _tidy_text,
}

_OTHER_SPELLINGS = {
    "topicsynflag": "topicsysflag",  # RocketMQ before 4.9.0, and the Go client
    "dropped": "droped",  # the Go client corrects Java's spelling
}


def fold(name: str) -> str:
    """Return what all spellings of a member's name have in common."""
    folded = name.replace("_", "").lower()
    return _OTHER_SPELLINGS.get(folded, folded)


@cache
def _type_info(kind: Any) -> inspect.Type:
    return inspect.type_info(kind)


@cache
def _tuple_fields(kind: Any) -> dict[str, tuple[str, inspect.Type]]:
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.NamedTupleType)
    return {fold(field.name): (field.name, field.type) for field in info.fields}


@cache
def _struct_fields(kind: Any) -> dict[str, tuple[str, inspect.Type]]:
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType)
    return {fold(field.encode_name): (field.encode_name, field.type) for field in info.fields}
