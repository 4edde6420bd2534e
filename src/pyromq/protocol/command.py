"""RemotingCommand: one request or answer, and its frame on the wire.

i32 length of the rest | i8 serialize type | u24 header length | header | body
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from enum import IntEnum
from typing import Final

from msgspec import Struct

from pyromq.errors import LocalProtocolError, RemoteProtocolError
from pyromq.protocol.codes import ONEWAY_FLAG, RESPONSE_FLAG, VERSION, LanguageCode, ResponseCode
from pyromq.protocol.headers import H, Header, encode_json, from_ext, to_ext
from pyromq.protocol.headers.binary_header import BinaryHeader, read_binary, write_binary
from pyromq.protocol.headers.json_header import (
    HotHeader,
    SignedSendJson,
    TextHeader,
    read_guarded_json,
    read_hot_json,
    read_plain_json,
    write_json,
)
from pyromq.protocol.unreadable import UNREADABLE

MAX_FRAME: Final = 16 * 1024 * 1024  # including its first four bytes, as in RocketMQ
MAX_HEADER: Final = 256 * 1024  # room for all properties; 16 MiB of hostile JSON would cost 400 MB and a second
HEADER_LENGTH_MASK: Final = 0xFFFFFF

TLS_HANDSHAKE: Final = 0x16
"""The first byte of a peer that speaks TLS."""

_PREFIX = struct.Struct(">II")
_WORD = struct.Struct(">I")
_LENGTH = struct.Struct(">i")


class SerializeType(IntEnum):
    """How a header is written."""

    JSON = 0
    ROCKETMQ = 1


_JSON: Final = SerializeType.JSON  # looking a member up in its class takes 0.1 µs
_JAVA: Final = LanguageCode.JAVA


class RemotingCommand(Struct, gc=False):
    """A request or an answer; `ext` is its typed header, or plain ext fields by wire name."""

    code: int
    opaque: int = 0
    flag: int = 0
    language: LanguageCode = LanguageCode.PYTHON
    version: int = VERSION
    remark: str | None = None
    ext: Mapping[str, str] | Header | None = None
    body: bytes = b""
    serialize: SerializeType = SerializeType.JSON
    signed_header: bytes = b""
    """The header of a signed send as it came, for `read_plainly`; else empty."""

    @property
    def is_response(self) -> bool:
        return bool(self.flag & RESPONSE_FLAG)

    @property
    def is_oneway(self) -> bool:
        return bool(self.flag & ONEWAY_FLAG)

    @property
    def ext_fields(self) -> dict[str, str]:
        """The ext fields by wire name, without those that a typed decode dropped."""
        return dict(_as_mapping(self.ext))

    def header(self, kind: type[H]) -> H:
        """Return the ext fields as this header; raise MalformedHeader if one is missing or unreadable."""
        ext = self.ext
        return ext if isinstance(ext, kind) else from_ext(_as_mapping(ext), kind)

    def read_plainly(self) -> None:
        """Replace the typed header of a signed send by its ext fields as the client wrote them."""
        if self.signed_header:
            self.ext = read_plain_json(self.signed_header).ext_fields
            self.signed_header = b""

    def encode(self) -> bytes:
        """Return the whole frame; raise LocalProtocolError if it does not fit into one."""
        return self.encode_head() + self.body

    def encode_head(self) -> bytes:
        """Return the frame up to its body, which the caller sends uncopied; raise LocalProtocolError as `encode`."""
        try:
            header = self._json_header() if self.serialize is _JSON else self._binary_header()
        except UnicodeEncodeError as error:
            raise LocalProtocolError(f"header text cannot be encoded: {error}") from None
        header_length, length = len(header), 4 + len(header) + len(self.body)
        if header_length > HEADER_LENGTH_MASK or length + 4 > MAX_FRAME:
            raise LocalProtocolError(f"a frame of {length + 4} bytes is over the limit of {MAX_FRAME}")
        return _PREFIX.pack(length, self.serialize << 24 | header_length) + header

    def _json_header(self) -> bytes:
        ext = self.ext
        fields = ext.to_json() if isinstance(ext, Header) else None if ext is None else encode_json(dict(ext))
        return write_json(self.code, fields, self.flag, self.language, self.opaque, self.remark, self.version)

    def _binary_header(self) -> bytes:
        return write_binary(
            BinaryHeader(self.code, self.language, self.version, self.opaque, self.flag, self.remark, self.ext_fields)
        )


def _as_mapping(ext: Mapping[str, str] | Header | None) -> Mapping[str, str]:
    return to_ext(ext) if isinstance(ext, Header) else ext or {}


def request(
    code: int,
    header: Header | Mapping[str, str] | None = None,
    body: bytes = b"",
    *,
    language: LanguageCode = LanguageCode.PYTHON,
    oneway: bool = False,
    serialize: SerializeType = SerializeType.JSON,
) -> RemotingCommand:
    """Return a new request; the connection sets its opaque."""
    flag = ONEWAY_FLAG if oneway else 0
    return RemotingCommand(code, 0, flag, language, VERSION, None, header, body, serialize)


def response(
    request: RemotingCommand,
    code: int = ResponseCode.SUCCESS,
    remark: str | None = None,
    header: Header | Mapping[str, str] | None = None,
    body: bytes = b"",
) -> RemotingCommand:
    """Return an answer to a request, in the header form of the request."""
    return RemotingCommand(code, request.opaque, RESPONSE_FLAG, _JAVA, VERSION, remark, header, body, request.serialize)


def decode(frame: bytes | memoryview, *, typed: bool = True, max_header: int = MAX_HEADER) -> RemotingCommand:
    """Read a frame without its first four bytes; raise RemoteProtocolError.

    With `typed`, hot requests get their typed header at once. Without it, all ext fields are kept, known or not, for
    access control: a signed send as SignedSendHeader, everything else as text.
    A client may raise `max_header` for answers: the answer to a batch holds an id of 32 characters for each message.
    """
    try:
        (word,) = _WORD.unpack_from(frame)
    except struct.error:
        raise RemoteProtocolError(f"a frame of {len(frame)} bytes has no header") from None
    end = 4 + (word & HEADER_LENGTH_MASK)
    if end > len(frame) or end > max_header + 4:
        raise RemoteProtocolError(f"header of {end - 4} bytes in a frame of {len(frame)}, limit {max_header}")
    header, body = frame[4:end], frame[end:]
    if not isinstance(header, bytes) or not isinstance(body, bytes):  # of a large frame, which is copied only here
        header, body = bytes(header), bytes(body)
    head: HotHeader | TextHeader | SignedSendJson | BinaryHeader
    if word <= HEADER_LENGTH_MASK:
        serialize = _JSON
        try:
            head = read_hot_json(header) if typed else read_guarded_json(header)
        except UNREADABLE:
            head = read_plain_json(header)
    else:
        serialize = _binary(word >> 24)
        head = read_binary(header)
    return RemotingCommand(
        head.code,
        head.opaque,
        head.flag,
        _LANGUAGES[head.language],
        head.version,
        head.remark,
        head.ext_fields,
        body,
        serialize,
        b"" if typed or type(head) is not SignedSendJson else header,
    )


def _binary(serialize_type: int) -> SerializeType:
    if serialize_type != SerializeType.ROCKETMQ:
        raise RemoteProtocolError(f"unknown serialize type {serialize_type}")
    return SerializeType.ROCKETMQ


class _Languages(dict[str | int | None, LanguageCode]):
    # Unknown names are not cached: peers choose them.
    def __missing__(self, key: str | int | None) -> LanguageCode:
        return self.get(key.upper(), LanguageCode.OTHER) if isinstance(key, str) else LanguageCode.OTHER


_LANGUAGES = _Languages({code.name: code for code in LanguageCode} | {code.value: code for code in LanguageCode})


class FrameDecoder:
    """Cuts a stream of bytes into frames. It buffers no more than one unfinished frame."""

    def __init__(self, max_frame: int = MAX_FRAME) -> None:
        self._max_length = max_frame - 4
        self.partial = bytearray()
        """What has come of an unfinished frame."""

    @property
    def pending(self) -> int:
        """The number of bytes buffered of an unfinished frame."""
        return len(self.partial)

    def feed(self, data: bytes) -> list[bytes | memoryview]:
        """Add received bytes; return the frames now complete, without their length; raise RemoteProtocolError."""
        if not self.partial and len(data) >= 8:
            length: int = _LENGTH.unpack_from(data)[0]
            if length + 4 == len(data) and length <= self._max_length:
                return [data[4:]]  # a frame and nothing else, as most reads are
        frames: list[bytes | memoryview] = []
        start = self._finish(data, frames) if self.partial else 0
        size = len(data)
        while size - start >= 4:
            end = start + 4 + self._checked_length(data, start)
            if end > size:
                break
            frames.append(data[start + 4 : end])
            start = end
        if start < size:
            self.partial += memoryview(data)[start:]
        return frames

    def _finish(self, data: bytes, frames: list[bytes | memoryview]) -> int:
        # Takes only what the unfinished frame lacks, so that a frame of many reads is copied once, not at every read.
        # A slice would be one more copy, into memory that the allocator takes from the system and gives back each time.
        partial = self.partial
        taken = max(4 - len(partial), 0)
        partial += data[:taken]
        if len(partial) < 4:
            return len(data)
        end = taken + 4 + self._checked_length(partial, 0) - len(partial)
        partial += memoryview(data)[taken:end]
        if end > len(data):
            return len(data)
        frames.append(memoryview(partial)[4:])
        self.partial = bytearray()
        return end

    def _checked_length(self, data: bytes | bytearray, start: int) -> int:
        length: int = _LENGTH.unpack_from(data, start)[0]
        if not 4 <= length <= self._max_length:
            raise RemoteProtocolError(f"frame length {length} is not between 4 and {self._max_length}")
        return length


def other_protocol(first_byte: int) -> str:
    """Say what a peer speaks whose first byte begins no frame; nothing if that is not known."""
    if first_byte == TLS_HANDSHAKE:
        return "it speaks TLS; this port does not"
    if chr(first_byte).isascii() and chr(first_byte).isalpha():
        return "it does not speak RocketMQ; perhaps it speaks HTTP"
    return ""
