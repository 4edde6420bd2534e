"""Frames written from byte templates: plain sends, and the answers to sends and pulls.

The bytes are those of the general encoder in `command`, in a third of its time. What the messages of one producer to
one topic have in common is written once.
"""

from __future__ import annotations

import re
import struct

import msgspec

from pyromq.protocol.acl import SIGNATURE, Credentials, Signer
from pyromq.protocol.codes import VERSION, RequestCode, ResponseCode
from pyromq.protocol.command import RemotingCommand, SerializeType, response
from pyromq.protocol.headers import encode_json
from pyromq.protocol.headers.pull import PullMessageResponseHeader
from pyromq.protocol.headers.send import SendMessageResponseHeader
from pyromq.protocol.names import DEFAULT_REGION

_JSON = SerializeType.JSON
_PREFIX = struct.Struct(">II")
_TAIL = b'"serializeTypeCurrentRPC":"JSON","version":%d}' % VERSION

_SEND_ANSWER = (
    b'{"code":%d,"extFields":{"msgId":"%b","queueId":"%d","queueOffset":"%d",'
    b'"MSG_REGION":"' + DEFAULT_REGION.encode() + b'","TRACE_ON":"true"},"flag":1,"language":"JAVA","opaque":%d,'
) + _TAIL

_PULL_ANSWER = (
    b'{"code":%d,"extFields":{"suggestWhichBrokerId":"%d","nextBeginOffset":"%d","minOffset":"%d","maxOffset":"%d"},'
    b'"flag":1,"language":"JAVA","opaque":%d,%b'
) + _TAIL
_SUCCESS = int(ResponseCode.SUCCESS)
_FOUND = b'"remark":"FOUND",'


def send_answer(
    request: RemotingCommand, code: int, queue_id: int, queue_offset: int, msg_id: str, remark: str | None = None
) -> bytes:
    """Return the frame that answers a stored send; `msg_id` is one of ours and needs no escaping."""
    if request.serialize is not _JSON or remark is not None:
        header = SendMessageResponseHeader(msg_id=msg_id, queue_id=queue_id, queue_offset=queue_offset)
        return response(request, code, remark, header).encode()
    return stored_answer(request.opaque, code, queue_id, queue_offset, msg_id.encode())


def stored_answer(opaque: int, code: int, queue_id: int, queue_offset: int, msg_id: bytes) -> bytes:
    """Return the same frame for a request of which only the opaque is known; its header is JSON."""
    text = _SEND_ANSWER % (code, msg_id, queue_id, queue_offset, opaque)
    return _PREFIX.pack(len(text) + 4, len(text)) + text


def answer_pieces() -> tuple[bytes, ...]:
    """Return what stands around id, queue, offset and opaque in the header that answers a stored send."""
    begin, *rest = re.split(b"%[bd]", _SEND_ANSWER)  # before the code, before the id, …
    return (begin + b"0" + rest[0], *rest[1:])


def pull_answer_head(
    request: RemotingCommand,
    code: int,
    remark: str | None,
    suggest: int,
    next_offset: int,
    min_offset: int,
    max_offset: int,
    body_length: int,
    deleted_at: int | None = None,
) -> bytes:
    """Return the part of an answer to a pull that precedes the body."""
    if request.serialize is not _JSON or deleted_at:
        header = PullMessageResponseHeader(
            suggest_which_broker_id=suggest,
            next_begin_offset=next_offset,
            min_offset=min_offset,
            max_offset=max_offset,
            pyromq_deleted_at=deleted_at or None,
        )
        return with_body_length(response(request, code, remark, header).encode(), body_length)
    text = _PULL_ANSWER % (
        code,
        suggest,
        next_offset,
        min_offset,
        max_offset,
        request.opaque,
        b"" if remark is None else b'"remark":%b,' % encode_json(remark),
    )
    return _PREFIX.pack(len(text) + 4 + body_length, len(text)) + text


def found_answer_head(
    suggest: int, next_offset: int, min_offset: int, max_offset: int, opaque: int, body_length: int
) -> bytes:
    """Return the same for messages that were found, in an answer to a JSON request."""
    text = _PULL_ANSWER % (_SUCCESS, suggest, next_offset, min_offset, max_offset, opaque, _FOUND)
    return _PREFIX.pack(len(text) + 4 + body_length, len(text)) + text


def with_body_length(frame: bytes, body_length: int) -> bytes:
    """Return a frame without a body as the start of a frame with a body of this length."""
    length, word = _PREFIX.unpack_from(frame)
    return _PREFIX.pack(length + body_length, word) + frame[_PREFIX.size :]


_SAME = b'{"code":%d,"extFields":{"a":%b,"b":%b,"c":%b,"d":"%d",'
_OWN = b'"e":"%d","f":"0","g":"%d","h":"0","i":%b,"j":"0","k":"false","m":"false"'
_END = b'},"flag":0,"language":"PYTHON","opaque":%%d,"serializeTypeCurrentRPC":"JSON","version":%d}' % VERSION

# The values of the same fields, concatenated as the signature wants them.
_SIGNED_NUMBERS = b"%d0%d0"
_SIGNED_END = b"0falsefalse"
_SIGNED_STAMP = b"%d%b%d"
_REPLAY = b',"pyromqCode":"%d","pyromqNonce":"%%b","pyromqTime":"%%d",'
_text_of = msgspec.json.Decoder(str).decode


class SendFrames:
    """Writes the requests with which one producer sends to one topic: flags 0, no batches."""

    code = int(RequestCode.SEND_MESSAGE_V2)

    def __init__(self, group: str, topic: str, default_topic: str, topic_queues: int) -> None:
        names = [encode_json(name) for name in (group, topic, default_topic)]
        same = _SAME % (self.code, *names, topic_queues)
        self._template = _escaped(same) + _OWN + _END

    def frame(
        self, opaque: int, queue_id: int, born_timestamp_ms: int, properties: bytes, body: bytes, nonce: bytes = b""
    ) -> bytes:
        """Return the whole frame of one request; `properties` is JSON already."""
        header = self._template % (queue_id, born_timestamp_ms, properties, opaque)
        header_length = len(header)
        return _PREFIX.pack(4 + header_length + len(body), header_length) + header + body


class SignedSendFrames(SendFrames):
    """Writes the same requests with an account and a signature."""

    def __init__(self, group: str, topic: str, default_topic: str, topic_queues: int, credentials: Credentials) -> None:
        super().__init__(group, topic, default_topic, topic_queues)
        account = credentials.fields()
        fields = encode_json({**account, SIGNATURE: ""})[1:].removesuffix(b'"}')
        self._template = self._template.removesuffix(_END) + _REPLAY % self.code + _escaped(fields) + b'%b"' + _END
        # In the order of the field names: those of the account start with capitals, so they come first.
        same = "".join([*account.values(), group, topic, default_topic, str(topic_queues)])
        self._signed = _escaped(same.encode()) + _SIGNED_NUMBERS
        self._signer = Signer(credentials.secret_key)

    def frame(
        self, opaque: int, queue_id: int, born_timestamp_ms: int, properties: bytes, body: bytes, nonce: bytes = b""
    ) -> bytes:
        """Return the whole frame of one request; `properties` is JSON already. It is signed when it is born."""
        born = born_timestamp_ms
        stamp = _SIGNED_STAMP % (self.code, nonce, born)
        text = b"".join((self._signed % (queue_id, born), _text_of(properties).encode(), _SIGNED_END, stamp))
        own = queue_id, born, properties, nonce, born, self._signer.signature(text, body), opaque
        header = self._template % own
        header_length = len(header)
        return _PREFIX.pack(4 + header_length + len(body), header_length) + header + body


def _escaped(text: bytes) -> bytes:
    return text.replace(b"%", b"%%")
