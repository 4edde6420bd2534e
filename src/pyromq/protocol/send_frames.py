"""Frames of plain sends from a template: what the messages of one producer to one topic have in common is written once.

The bytes are those of `request(SEND_MESSAGE_V2, header, body).encode()`, signed or not, in a third of the time.
"""

from __future__ import annotations

import struct

import msgspec

from pyromq.protocol.acl import SIGNATURE, Credentials, signature
from pyromq.protocol.codes import VERSION, RequestCode
from pyromq.protocol.headers import encode_json

_PREFIX = struct.Struct(">II")
_SAME = b'{"code":%d,"extFields":{"a":%b,"b":%b,"c":%b,"d":"%d",'
_OWN = b'"e":"%d","f":"0","g":"%d","h":"0","i":%b,"j":"0","k":"false","m":"false"'
_END = b'},"flag":0,"language":"PYTHON","opaque":%%d,"serializeTypeCurrentRPC":"JSON","version":%d}' % VERSION

# The values of the same fields, one after the other, as they are signed.
_SIGNED_NUMBERS = b"%d0%d0"
_SIGNED_END = b"0falsefalse"
_text_of = msgspec.json.Decoder(str).decode


class SendFrames:
    """Writes the requests by which one producer sends to one topic; their flags are 0 and they are no batches."""

    code = int(RequestCode.SEND_MESSAGE_V2)

    def __init__(self, group: str, topic: str, default_topic: str, topic_queues: int) -> None:
        names = [encode_json(name) for name in (group, topic, default_topic)]
        same = _SAME % (self.code, *names, topic_queues)
        self._template = _escaped(same) + _OWN + _END

    def frame(self, opaque: int, queue_id: int, born_timestamp_ms: int, properties: bytes, body: bytes) -> bytes:
        """Return the whole frame of one request; `properties` is JSON already."""
        header = self._template % (queue_id, born_timestamp_ms, properties, opaque)
        header_length = len(header)
        return _PREFIX.pack(4 + header_length + len(body), header_length) + header + body


class SignedSendFrames(SendFrames):
    """Writes the same requests with an account and its signature."""

    def __init__(self, group: str, topic: str, default_topic: str, topic_queues: int, credentials: Credentials) -> None:
        super().__init__(group, topic, default_topic, topic_queues)
        account = credentials.fields()
        fields = encode_json({**account, SIGNATURE: ""})[1:].removesuffix(b'"}')
        self._template = self._template.removesuffix(_END) + b"," + _escaped(fields) + b'%b"' + _END
        # In the order of the fields' names: those of the account begin with capitals.
        same = "".join([*account.values(), group, topic, default_topic, str(topic_queues)])
        self._signed = _escaped(same.encode()) + _SIGNED_NUMBERS
        self._secret = credentials.secret_key.encode()

    def frame(self, opaque: int, queue_id: int, born_timestamp_ms: int, properties: bytes, body: bytes) -> bytes:
        """Return the whole frame of one request; `properties` is JSON already."""
        numbered = self._signed % (queue_id, born_timestamp_ms)
        text = b"".join((numbered, _text_of(properties).encode(), _SIGNED_END, body))
        header = self._template % (queue_id, born_timestamp_ms, properties, signature(text, self._secret), opaque)
        header_length = len(header)
        return _PREFIX.pack(4 + header_length + len(body), header_length) + header + body


def _escaped(text: bytes) -> bytes:
    return text.replace(b"%", b"%%")
