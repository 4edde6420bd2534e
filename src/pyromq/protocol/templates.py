"""The answers that leave by the thousand, as bytes templates: the general encoder's bytes in a third of its time."""

from __future__ import annotations

import struct

from pyromq.protocol.codes import VERSION
from pyromq.protocol.command import RemotingCommand, SerializeType, response
from pyromq.protocol.headers import encode_json
from pyromq.protocol.headers.pull import PullMessageResponseHeader
from pyromq.protocol.headers.send import SendMessageResponseHeader

_JSON = SerializeType.JSON
_PREFIX = struct.Struct(">II")
_TAIL = b'"serializeTypeCurrentRPC":"JSON","version":%d}' % VERSION

_SEND_ANSWER = (
    b'{"code":%d,"extFields":{"msgId":"%b","queueId":"%d","queueOffset":"%d",'
    b'"MSG_REGION":"DefaultRegion","TRACE_ON":"true"},"flag":1,"language":"JAVA","opaque":%d,'
) + _TAIL

_PULL_ANSWER = (
    b'{"code":%d,"extFields":{"suggestWhichBrokerId":"%d","nextBeginOffset":"%d","minOffset":"%d","maxOffset":"%d"},'
    b'"flag":1,"language":"JAVA","opaque":%d,%b'
) + _TAIL


def send_answer(
    request: RemotingCommand, code: int, queue_id: int, queue_offset: int, msg_id: str, remark: str | None = None
) -> bytes:
    """Return the frame that answers a stored send; `msg_id` is one of ours, which needs no escaping."""
    if request.serialize is not _JSON or remark is not None:
        header = SendMessageResponseHeader(msg_id=msg_id, queue_id=queue_id, queue_offset=queue_offset)
        return response(request, code, remark, header).encode()
    text = _SEND_ANSWER % (code, msg_id.encode(), queue_id, queue_offset, request.opaque)
    return _PREFIX.pack(len(text) + 4, len(text)) + text


def pull_answer_head(
    request: RemotingCommand,
    code: int,
    remark: str | None,
    suggest: int,
    next_offset: int,
    min_offset: int,
    max_offset: int,
    body_length: int,
) -> bytes:
    """Return all of a pull's answer that comes before its body."""
    if request.serialize is not _JSON:
        header = PullMessageResponseHeader(
            suggest_which_broker_id=suggest,
            next_begin_offset=next_offset,
            min_offset=min_offset,
            max_offset=max_offset,
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


def with_body_length(frame: bytes, body_length: int) -> bytes:
    """Return a frame without a body as the head of one that has a body of this length."""
    length, word = _PREFIX.unpack_from(frame)
    return _PREFIX.pack(length + body_length, word) + frame[_PREFIX.size :]
