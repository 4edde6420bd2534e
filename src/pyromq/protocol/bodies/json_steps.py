"""Large JSON bodies, read and written in steps, so that a server can do something else between them.

A step takes a fraction of a millisecond, whatever the peer sent. Reading cuts a list or an object into the texts of its
items without building anything, checks their number, and reads the small ones one by one. Only standard JSON can be cut
like that. No peer writes large requests in another dialect, and reading a dialect takes a hundred times as long.
"""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from functools import cache
from typing import (
    Annotated,
    Any,
    Final,
    NamedTuple,
    TypeAlias,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import astuple

from pyromq.errors import MalformedHeader
from pyromq.protocol.bodies import fastjson
from pyromq.protocol.bodies.codec import decode, fold
from pyromq.protocol.bodies.fastjson_reader import MAX_DEPTH
from pyromq.protocol.unreadable import UNREADABLE

SMALL: Final = 16 * 1024
"""Bytes that are read at once, in any dialect: at most 15 ms."""

# A typed body of this many values takes 20 ms at most, and 7 ms as the registration of 15,000 topics.
_QUICK_BYTES: Final = 4 * 1024 * 1024
_QUICK_CONTAINERS: Final = 20_000
_QUICK_VALUES: Final = 120_000

_ITEMS_A_STEP: Final = 64
_TOKENS_A_STEP: Final = 1024

T = TypeVar("T")
Steps: TypeAlias = Generator[None, None, T]
_Text: TypeAlias = bytes | memoryview
"""A part of a body; a large one is not copied: memory for 16 MiB alone may take the system 40 ms to find."""


def finish(steps: Steps[T]) -> T:
    """Take all steps at once; for work that is known to be short."""
    try:
        while True:
            next(steps)
    except StopIteration as stop:
        result: T = stop.value
        return result


def decoding(kind: type[T], data: bytes) -> Steps[T]:
    """Read a body in steps; raise MalformedHeader as `decode` does, and for a large one that is not standard JSON."""
    if len(data) <= SMALL:
        return decode(kind, data)
    yield
    if b'"$ref"' in data:
        raise MalformedHeader(f"a body of {len(data)} bytes has references, which only small ones may have")
    yield  # each look at 16 MiB takes some milliseconds
    if _is_quick(data):
        yield
        with suppress(*UNREADABLE):
            quick: T = _decoder(cast(Any, kind))(data)
            return quick
        yield
    value: T = yield from _read(data, kind)
    return value


def _is_quick(data: bytes) -> bool:
    if len(data) > _QUICK_BYTES:
        return False
    return data.count(b"{") + data.count(b"[") <= _QUICK_CONTAINERS and data.count(b",") <= _QUICK_VALUES


def encoding(body: object, *, quoted_keys: bool = False) -> Steps[bytes]:
    """Write a body in steps, with the same result as `encode`. It must not change meanwhile."""
    return fastjson.dumping(body, quoted_keys=quoted_keys)


def _read(text: _Text, hint: Any) -> Steps[Any]:
    shape = _shape(hint)
    if len(text) <= SMALL or shape.read is None:
        return _read_small(text, hint)
    return (yield from shape.read(text, shape))


def _read_small(text: _Text, hint: Any) -> Any:
    try:
        return _decoder(hint)(text)
    except UNREADABLE:
        if len(text) > SMALL:
            raise MalformedHeader(f"a text was expected where a body has {len(text)} bytes of something else") from None
        return decode(hint, bytes(text))


@cache
def _decoder(hint: Any) -> Callable[[_Text], Any]:
    fields = getattr(hint, "_fields", None)
    if fields is None:
        return msgspec.json.Decoder(hint, strict=False).decode
    hints = get_type_hints(hint, include_extras=True)  # a NamedTuple, which msgspec reads from lists only
    twin = msgspec.defstruct(hint.__name__, [(name, hints[name]) for name in fields], rename="camel")
    read = msgspec.json.Decoder(twin, strict=False).decode
    return lambda text: hint(*astuple(read(text)))


# --- by type ----------------------------------------------------------------------------------------------------------


class _Shape(NamedTuple):
    """How to read a type: as one of the three containers below, or as a whole if `read` is None."""

    read: Any
    kind: Any
    inner: tuple[Any, ...] = ()
    max_length: int | None = None


@cache
def _shape(hint: Any) -> _Shape:
    max_length = None
    if get_origin(hint) is Annotated:
        hint, *notes = get_args(hint)
        lengths = [note.max_length for note in notes if isinstance(note, Meta) and note.max_length is not None]
        max_length = min(lengths, default=None)
    if get_origin(hint) in (Union, types.UnionType):  # bodies have only unions of a type and None
        (hint,) = [each for each in get_args(hint) if each is not types.NoneType]
    if get_origin(hint) is list:
        return _Shape(_read_list, hint, get_args(hint), max_length)
    if get_origin(hint) is dict:
        return _Shape(_read_dict, hint, get_args(hint), max_length)
    if isinstance(hint, type) and issubclass(hint, Struct):
        return _Shape(_read_struct, hint)
    return _Shape(None, hint)


def _read_list(text: _Text, shape: _Shape) -> Steps[list[Any]]:
    items: list[Any] = []
    for piece in _cut(text, b"["):
        if piece is None:
            yield
            continue
        _check_count(len(items), shape)
        if len(piece.value) <= SMALL:
            items.append(_read_small(piece.value, shape.inner[0]))
        else:
            items.append((yield from _read(piece.value, shape.inner[0])))
    return items


def _read_dict(text: _Text, shape: _Shape) -> Steps[dict[Any, Any]]:
    key_hint, value_hint = shape.inner
    members: dict[Any, Any] = {}
    for piece in _cut(text, b"{"):
        if piece is None:
            yield
            continue
        _check_count(len(members), shape)
        key = _read_small(piece.key if key_hint is str else piece.key.strip(b'"'), key_hint)
        if len(piece.value) <= SMALL:
            members[key] = _read_small(piece.value, value_hint)
        else:
            members[key] = yield from _read(piece.value, value_hint)
    return members


def _read_struct(text: _Text, shape: _Shape) -> Steps[Any]:
    fields = _fields(shape.kind)
    found: dict[str, Any] = {}
    for piece in _cut(text, b"{"):
        if piece is None:
            yield
            continue
        field = fields.get(fold(_read_small(piece.key, str)))
        if field is not None and piece.value != b"null":
            found[field[0]] = yield from _read(piece.value, field[1])
    try:
        return shape.kind(**found)
    except TypeError as error:
        raise MalformedHeader(f"not a {shape.kind.__name__}: {error}") from None


@cache
def _fields(kind: Any) -> dict[str, tuple[str, Any]]:
    hints = get_type_hints(kind, include_extras=True)
    names = zip(kind.__struct_encode_fields__, kind.__struct_fields__, strict=True)
    return {fold(written): (field, hints[field]) for written, field in names}


def _check_count(count: int, shape: _Shape) -> None:
    if shape.max_length is not None and count >= shape.max_length:
        raise MalformedHeader(f"a body has more than {shape.max_length} items where no more are allowed")


# --- cutting ----------------------------------------------------------------------------------------------------------

_BLANKS: Final = rb"[ \t\r\n]*+"
_STRING: Final = rb'"(?:[^"\\]++|\\.)*+"'
_KEY = re.compile(rb"%b(%b)%b:%b" % (_BLANKS, _STRING, _BLANKS, _BLANKS), re.DOTALL)
_FLAT = re.compile(rb'%b|\{[^{}\[\]"]*+(?:%b[^{}\[\]"]*+)*+\}|[^][{},": \t\r\n]++' % (_STRING, _STRING), re.DOTALL)
_TOKEN = re.compile(rb'([][{}])|%b|[^][{}"]++' % _STRING, re.DOTALL)
_AFTER = re.compile(rb"%b([,\]}])%b" % (_BLANKS, _BLANKS))
_START = re.compile(rb"%b" % _BLANKS)
_LONGEST_TOKEN: Final = 256 * 1024
"""Bytes of a text, a number or a run of blanks: a match takes up to 10 ns a byte, and stops the loop meanwhile."""


class _Piece(NamedTuple):
    key: bytes
    value: _Text


def _cut(text: _Text, opening: bytes) -> Iterator[_Piece | None]:
    """Yield the items of a list or the members of an object, and None between steps; raise MalformedHeader."""
    closing = b"]" if opening == b"[" else b"}"
    position = _position_of(_START, text, 0)
    if text[position : position + 1] != opening:
        raise MalformedHeader(f"a body of {len(text)} bytes has no {opening.decode()} where it must")
    position = _position_of(_START, text, position + 1)
    count = 0
    mark = closing if text[position : position + 1] == closing else b","
    while mark == b",":
        key = b""
        if opening == b"{":
            found = _match(_KEY, text, position)
            if found is None:
                raise _not_standard(text, position)
            key, position = found[1], found.end()
        flat = _match(_FLAT, text, position)
        end = flat.end() if flat is not None else (yield from _end_of_value(text, position))
        yield _Piece(key, text[position:end] if end - position <= SMALL else memoryview(text)[position:end])
        after = _match(_AFTER, text, end)
        if after is None or after[1] not in (b",", closing):
            raise _not_standard(text, end)
        mark, position = after[1], after.end()
        count += 1
        if count % _ITEMS_A_STEP == 0:
            yield None
    if count == 0:
        position = _position_of(_START, text, position + 1)
    if position != len(text):
        raise _not_standard(text, position)


def _end_of_value(text: _Text, position: int) -> Generator[None, None, int]:
    if text[position : position + 1] not in (b"{", b"["):
        raise _not_standard(text, position)
    depth = tokens = 0
    token = _match(_TOKEN, text, position)
    while token is not None:
        if token[1] is not None:
            depth += 1 if token[1] in b"[{" else -1
        if depth == 0:
            return token.end()
        if depth > MAX_DEPTH:
            raise MalformedHeader(f"JSON is nested deeper than {MAX_DEPTH}")
        tokens += 1
        if tokens % _TOKENS_A_STEP == 0:
            yield None
        token = _match(_TOKEN, text, token.end())
    raise _not_standard(text, position)


def _position_of(pattern: re.Pattern[bytes], text: _Text, position: int) -> int:
    found = _match(pattern, text, position)
    return found.end() if found else position


def _match(pattern: re.Pattern[bytes], text: _Text, position: int) -> re.Match[bytes] | None:
    return pattern.match(text, position, position + _LONGEST_TOKEN)


def _not_standard(text: _Text, position: int) -> MalformedHeader:
    found = bytes(text[position : position + 20]).decode("utf-8", "replace")
    return MalformedHeader(f"a body of {len(text)} bytes is not standard JSON at byte {position}: {found!r}")
