"""Request and response headers: one Struct for what travels in the ext fields of a command.

    send, pull, offsets, transactions, timed_messages   what producers and consumers ask
    signed_send                                         a send with its account and signature
    clients, routes, admin, accounts                    what brokers, name servers and tools ask
    json_header, binary_header                          the two forms of a command's whole header

On the wire every value is text, an absent field means null, and keys are in camel case unless a field says otherwise.
A field without a default is required. A `bool` may always be missing, as a primitive may in Java.
Classes are named after their request code: GET_MAX_OFFSET has GetMaxOffsetRequestHeader and GetMaxOffsetResponseHeader.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta, Struct

from pyromq.errors import MalformedHeader

I32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
I64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]

MAX_FIELDS = 1_000
"""Ext fields of one header. RocketMQ's largest have about 20; 256 KiB of hostile ones would take 40 ms."""

encode_json = msgspec.json.Encoder().encode


class Header(Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """The base of all headers."""

    def to_json(self) -> bytes:
        """Return the ext fields as strict JSON, all values as text. The hot headers use a template instead."""
        return encode_json(to_ext(self))


H = TypeVar("H", bound=Header)


def to_ext(header: Header) -> dict[str, str]:
    """Return the fields as they travel: by wire name and as text, without those that are None."""
    values = msgspec.structs.astuple(header)
    fields = zip(header.__struct_encode_fields__, values, strict=True)
    return {name: value if type(value) is str else _text(value) for name, value in fields if value is not None}


def from_ext(ext: Mapping[str, str], kind: type[H]) -> H:
    """Read a header from ext fields, `"3"` as 3 and `"1"` or `"true"` as True; raise MalformedHeader.

    As in RocketMQ, an optional field that cannot be read counts as absent.
    """
    try:
        return msgspec.convert(ext, kind, strict=False)
    except msgspec.ValidationError:
        pass
    try:
        return msgspec.convert(_without_unreadable(ext, kind), kind, strict=False)
    except msgspec.ValidationError as error:
        raise MalformedHeader(f"{kind.__name__}: {error}") from None


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _without_unreadable(ext: Mapping[str, str], kind: type[Header]) -> dict[str, str]:
    optional = {field.encode_name: field.type for field in msgspec.structs.fields(kind) if not field.required}
    return {name: text for name, text in ext.items() if name not in optional or _is_readable(text, optional[name])}


def _is_readable(text: str, kind: object) -> bool:
    try:
        msgspec.convert(text, kind, strict=False)
    except msgspec.ValidationError:
        return False
    return True
