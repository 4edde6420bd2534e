"""The JSON form of a command's header, which nearly all peers write.

    {"code":105,"extFields":{"topic":"T"},"flag":0,"language":"JAVA","opaque":0,"serializeTypeCurrentRPC":"JSON","version":399}

Frequent requests are read straight into their typed header, by a union that msgspec tells apart by the code. That takes
half the time of a dict and its conversion. Whatever does not fit is left to the plain decoder.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, TypeAlias, TypeVar

import msgspec
from msgspec import Raw, Struct

from pyromq.errors import RemoteProtocolError
from pyromq.protocol.codes import LanguageCode
from pyromq.protocol.headers import I32, MAX_FIELDS
from pyromq.protocol.headers.pull import PullMessageRequestHeader
from pyromq.protocol.headers.send import SendMessageRequestHeader, SendMessageRequestHeaderV2
from pyromq.protocol.headers.signed_send import SignedSendHeader
from pyromq.protocol.unreadable import UNREADABLE


class _ReadHeader(Struct, rename="camel", kw_only=True, gc=False):
    flag: I32 = 0
    language: str | int | None = "JAVA"
    opaque: I32 = 0
    remark: str | None = None
    version: I32 = 0


class TextHeader(_ReadHeader, kw_only=True, gc=False):
    """A header as read; the language is still as the peer wrote it."""

    code: I32 = 0
    ext_fields: dict[str, str] | None = None


class _MixedHeader(_ReadHeader, kw_only=True, gc=False):
    code: I32 = 0
    ext_fields: dict[str, Raw] | None = None  # C++ and JavaScript clients mix texts, numbers and booleans


class SignedSendJson(_ReadHeader, kw_only=True, gc=False):
    """The header of a send with an account and a signature."""

    code: I32
    ext_fields: SignedSendHeader


H = TypeVar("H", TextHeader, _MixedHeader)


class _HotHeader(_ReadHeader, tag_field="code", kw_only=True, gc=False):
    code: ClassVar[int]


class _Success(_HotHeader, tag=0, kw_only=True, gc=False):
    code = 0
    ext_fields: dict[str, str] | None = None


class _Send(_HotHeader, tag=10, kw_only=True, gc=False):
    code = 10
    ext_fields: SendMessageRequestHeader


class SendV2(_HotHeader, tag=310, kw_only=True, gc=False):
    """A request to send one message, as clients have written it since RocketMQ 3."""

    code = 310
    ext_fields: SendMessageRequestHeaderV2


class _SendBatch(_HotHeader, tag=320, kw_only=True, gc=False):
    code = 320
    ext_fields: SendMessageRequestHeaderV2


class _Pull(_HotHeader, tag=11, kw_only=True, gc=False):
    code = 11
    ext_fields: PullMessageRequestHeader


HotHeader: TypeAlias = _Success | _Send | SendV2 | _SendBatch | _Pull

# Raises one of UNREADABLE for anything else; an answer with code 10 or 11 lacks the fields of those requests.
read_hot_json: Callable[[bytes], HotHeader] = msgspec.json.Decoder(HotHeader, strict=False).decode
_read_text = msgspec.json.Decoder(TextHeader, strict=False).decode
_read_mixed = msgspec.json.Decoder(_MixedHeader, strict=False).decode
read_signed_json = msgspec.json.Decoder(SignedSendJson, strict=False).decode  # likewise for other requests
_SEND_STARTS = (b'{"code":310,', b'{"code":320,')  # as Java's clients and ours write them


def read_plain_json(data: bytes) -> TextHeader:
    """Read any header, all its ext fields as text; raise RemoteProtocolError."""
    try:
        return _checked(_read_text(data))
    except UNREADABLE:
        pass
    try:
        return _as_text(_checked(_read_mixed(data)))
    except UNREADABLE as error:
        raise RemoteProtocolError(f"malformed JSON header: {error}") from None


def read_guarded_json(data: bytes) -> TextHeader | SignedSendJson:
    """Read the header of a request whose signature will be checked: signed sends at once, all others as text."""
    if data.startswith(_SEND_STARTS):
        try:
            return read_signed_json(data)
        except UNREADABLE:
            pass
    return read_plain_json(data)


def _checked(header: H) -> H:
    if header.ext_fields and len(header.ext_fields) > MAX_FIELDS:
        raise RemoteProtocolError(f"a header with {len(header.ext_fields)} ext fields, the limit is {MAX_FIELDS}")
    return header


def _as_text(mixed: _MixedHeader) -> TextHeader:
    fields = ((name, _text(bytes(raw))) for name, raw in (mixed.ext_fields or {}).items())
    return TextHeader(
        code=mixed.code,
        ext_fields={name: text for name, text in fields if text is not None},
        flag=mixed.flag,
        language=mixed.language,
        opaque=mixed.opaque,
        remark=mixed.remark,
        version=mixed.version,
    )


def _text(raw: bytes) -> str | None:
    if raw.startswith(b'"'):
        return msgspec.json.decode(raw, type=str)
    return None if raw == b"null" else raw.decode()


# In alphabetical order, as Java writes it. No reader depends on it, but equal commands give equal bytes.
_WRITTEN = b'{"code":%d,%b"flag":%d,"language":"%b","opaque":%d,%b"serializeTypeCurrentRPC":"JSON","version":%d}'
_LANGUAGE_NAMES = {language: language.name.encode() for language in LanguageCode}


def write_json(
    code: int, ext: bytes | None, flag: int, language: LanguageCode, opaque: int, remark: str | None, version: int
) -> bytes:
    """Write a header as strict, compact JSON; `ext` is already JSON."""
    return _WRITTEN % (
        code,
        b"" if ext is None else b'"extFields":%b,' % ext,
        flag,
        _LANGUAGE_NAMES[language],
        opaque,
        b"" if remark is None else b'"remark":%b,' % msgspec.json.encode(remark),
        version,
    )
