"""The requests of `bench send` and `bench consume`: raw frames with JSON headers, which any RocketMQ 4.x broker reads.

The number of a slot is the `opaque` of its requests.
"""

from __future__ import annotations

import struct
import time
from typing import Any, Final, Protocol

import msgspec

from pyromq.protocol.acl import ACCESS_KEY, SIGNATURE, Credentials, Signer
from pyromq.protocol.names import TBW102

_LENGTH = struct.Struct(">i")
_LENGTHS = struct.Struct(">iI")
FIRST_OPAQUE: Final = 10_000_000  # eight digits, so that every frame of a slot has the same length


class AnswerHeader(msgspec.Struct, gc=False):
    """The fields of an answer's header that the generator reads."""

    code: int = 0
    opaque: int = 0
    remark: str | None = None
    extFields: dict[str, str] | None = None


class Slot(Protocol):
    """One request in flight: makes the next request, and counts the messages of an answer."""

    def renumber(self, index: int) -> None:
        """Set the slot's number within its connection, which becomes the opaque."""

    def next_request(self) -> bytes: ...

    def accept(self, answer: AnswerHeader, body: bytes) -> int:
        """Return the number of messages in this answer; raise ValueError if it counts as an error."""
        ...


def json_header(code: int, fields: dict[str, str], index: int) -> bytes:
    """Return the JSON header of a request of slot `index`."""
    ext = ",".join(f'"{name}":"{value}"' for name, value in fields.items())
    opaque = FIRST_OPAQUE + index
    return (
        f'{{"code":{code},"flag":0,"language":"PYTHON","opaque":{opaque},"version":409,"extFields":{{{ext}}}}}'.encode()
    )


class SendSlot:
    """Sends one message after another to one queue, each with its own id."""

    def __init__(self, number: int, topic: str, queue_id: int, body: bytes, seed: str, group: str, tag: str) -> None:
        properties = f"UNIQ_KEY\\u0001{seed[:16].upper():0<16}%016X\\u0002WAIT\\u0001true"
        properties += f"\\u0002TAGS\\u0001{tag}" if tag else ""
        self._fields = {
            "a": group, "b": topic, "c": TBW102, "d": "4", "e": str(queue_id), "f": "0", "g": "%013d", "h": "0",
            "i": properties, "j": "0", "k": "false", "m": "false",
        }  # fmt: skip
        self._body = body
        self._count = number << 40
        self.renumber(0)

    def renumber(self, index: int) -> None:
        # The two numbers are filled in with a fixed number of digits, so the lengths do not change.
        self._header = json_header(310, self._fields, index)
        length = len(self._header % (0, 0))
        self._prefix = _LENGTHS.pack(4 + length + len(self._body), length)

    def next_request(self) -> bytes:
        self._count += 1
        return b"".join((self._prefix, self._header % (int(time.time() * 1000), self._count), self._body))

    def accept(self, answer: AnswerHeader, body: bytes) -> int:
        if answer.code not in (0, 10, 11, 12):
            raise ValueError(f"code {answer.code}: {answer.remark}")
        return 1


class SignedSendSlot(SendSlot):
    """Sends the same messages with an account and a signature, as Java's clients sign them."""

    def __init__(self, account: Credentials, *given: Any) -> None:
        self._account = account
        self._signer = Signer(account.secret_key)
        super().__init__(*given)

    def renumber(self, index: int) -> None:
        signed = {ACCESS_KEY: self._account.access_key, SIGNATURE: "%b"}
        self._header = json_header(310, self._fields | signed, index)
        length = len(self._header % (0, 0, b"=" * 28))
        self._prefix = _LENGTHS.pack(4 + length + len(self._body), length)
        values = "".join([self._account.access_key, *self._fields.values()])
        self._signed = values.replace("\\u0001", "\x01").replace("\\u0002", "\x02").encode()

    def next_request(self) -> bytes:
        self._count += 1
        now_ms = int(time.time() * 1000)
        proof = self._signer.signature(self._signed % (now_ms, self._count), self._body)
        return b"".join((self._prefix, self._header % (now_ms, self._count, proof), self._body))


class PullSlot:
    """Reads one queue from start to end, again and again."""

    def __init__(self, number: int, topic: str, queue_id: int, low: int, high: int, batch: int, group: str) -> None:
        self._fields = {
            "consumerGroup": group, "topic": topic, "queueId": str(queue_id), "queueOffset": "%d",
            "maxMsgNums": str(batch), "sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0",
            "subscription": "*", "subVersion": "0", "expressionType": "TAG",
        }  # fmt: skip
        self._low, self._high = low, high
        # Slots of one queue start at different offsets; otherwise all would read the same page.
        self._offset = low + (number * 7919 * batch) % max(high - low, 1)
        self.renumber(0)

    def renumber(self, index: int) -> None:
        self._header = json_header(11, self._fields, index)

    def next_request(self) -> bytes:
        header = self._header % self._offset
        return _LENGTHS.pack(4 + len(header), len(header)) + header

    def accept(self, answer: AnswerHeader, body: bytes) -> int:
        if answer.code not in (0, 19, 20):
            raise ValueError(f"code {answer.code}: {answer.remark}")
        following = int((answer.extFields or {}).get("nextBeginOffset", self._low))
        self._offset = self._low if following >= self._high or answer.code == 19 else following
        return count_records(body)


class SignedPullSlot(PullSlot):
    """Reads the same with an account and a signature."""

    def __init__(self, account: Credentials, *given: Any) -> None:
        self._account = account
        self._signer = Signer(account.secret_key)
        super().__init__(*given)

    def renumber(self, index: int) -> None:
        named = self._fields | {ACCESS_KEY: self._account.access_key}
        self._header = json_header(11, named | {SIGNATURE: "%b"}, index)
        self._signed = "".join(named[name] for name in sorted(named)).encode()

    def next_request(self) -> bytes:
        proof = self._signer.signature(self._signed % self._offset, b"")
        header = self._header % (self._offset, proof)
        return _LENGTHS.pack(4 + len(header), len(header)) + header


def count_records(body: bytes) -> int:
    """Return the number of records in the body of a pull answer."""
    position, count = 0, 0
    while position < len(body):
        size = _LENGTH.unpack_from(body, position)[0]
        if size <= 0:
            raise ValueError(f"a record of size {size} in an answer")
        position += size
        count += 1
    return count
