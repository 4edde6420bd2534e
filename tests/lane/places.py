"""A place for plain messages without a store, and frames that a stranger may send there."""

from __future__ import annotations

import json
import random
import struct
from collections import OrderedDict
from collections.abc import Callable
from itertools import accumulate, takewhile
from types import SimpleNamespace
from typing import Any

from pyromq.lane.callers import Caller
from pyromq.lane.sends import LONGEST_READ, PlainSendLane, SendLane, SendPlace
from pyromq.protocol.acl import Signer, sign
from pyromq.protocol.messages.record import encode_host

HOST = encode_host("127.0.0.1", 10911)
BORN = encode_host("127.0.0.1", 5000)
NOW_MS = 1_700_000_000_000
KEY, SECRET = "shop-app", "a secret of some length"
LAST = 41  # the number of the last request of connection "c0ffee"
_BITS = [
    b'"',
    b"\\",
    b"{",
    b"}",
    b",",
    b":",
    b"\\u0001",
    b"\\u0002",
    b"\\u00e9",
    b"\xff",
    b"\x00",
    b"-",
    b"0",
    b"99999999999",
]
_BITS += [
    b"\\u0002TAGS\\u0001",
    b"\\u0002WAIT\\u0001true",
    b"WAIT\\u0001",
    b"DELAY",
    b'"m":"true"',
    b'"code":310',
    b" " * 40,
    b'"AccessKey":"shop-app"',
    b'"pyromqNonce":"c0ffee.42"',
    b'"Signature":""',
]


class Desk:
    """All that a lane works on, as plain values."""

    def __init__(self, make: Callable[[SendPlace], SendLane], **limits: Any) -> None:
        self.queue = SimpleHash(topic="orders", topic_name=b"orders", next_offset=0, reserved=0)
        self.topic = SimpleNamespace(name="orders", accepts_plain_sends=True, queues=2, sys_flag=0, puts=0, put_bytes=0)
        self.log = SimpleNamespace(position=0, reserved=0, parts=[])
        self.appender = SimpleNamespace(group=None)
        self.caller: Caller | None = None
        self.clear()
        usual = {"max_header": 256 * 1024, "max_body": 4 << 20, "max_record": 5 << 20, "has_index": True}
        self.lane = make(
            SendPlace(
                log=self.log,
                groups=self.appender,
                topics={"orders": self.topic},
                queues={"orders": {0: self.queue, 1: self.queue}},
                store_host=HOST,
                cluster="DefaultCluster",
                **(usual | limits),
            )
        )

    def clear(self, log_end: int = 1 << 30, queue_end: int = 20_000) -> None:
        """Begin anew."""
        self.log.position, self.log.reserved, self.log.parts = 4096, log_end, []
        self.queue.next_offset, self.queue.reserved = 7, queue_end
        self.topic.puts = self.topic.put_bytes = 0
        self.appender.group = SimpleNamespace(entries={}, firsts={}, keys=[], last_timestamp_ms=0)
        if self.caller is not None:
            self.caller = self.caller._replace(numbers=_numbers())

    def guard(self, secret: str = SECRET, topics: tuple[str, ...] = ("orders",)) -> Desk:
        """Take only what an account has signed."""
        self.caller = new_caller(secret, topics)
        return self

    def take(self, *frames: bytes, **ends: int) -> tuple[Any, ...]:
        """Take frames from the beginning; return how many were taken, and all that has changed."""
        self.clear(**ends)
        return self._found(*self.lane.take(list(frames), 0, len(frames), BORN, NOW_MS, self.caller))

    def take_read(self, data: bytes, most: int = 64) -> tuple[Any, ...]:
        """Take the first frames of a read; return how many bytes they are, and all that has changed."""
        self.clear()
        return self._found(*self.lane.take_read(data, most, BORN, NOW_MS))

    def _found(self, count: int, answers: bytes) -> tuple[Any, ...]:
        group = self.appender.group
        entries = b"".join(group.entries.get(self.queue, ()))
        counts = self.log.position, self.queue.next_offset, self.topic.puts, self.topic.put_bytes
        record = b"".join(self.log.parts)
        numbers = () if self.caller is None else tuple(self.caller.numbers.items())
        firsts, time_ms = list(group.firsts.values()), group.last_timestamp_ms
        return count, answers, record, entries, firsts, group.keys, time_ms, counts, numbers


def new_caller(secret: str = SECRET, topics: tuple[str, ...] = ("orders",)) -> Caller:
    """Return an account, as access control knows it."""
    signer = Signer(secret)

    def is_signature(given: str, text: str, body: bytes) -> bool:
        return given.encode(errors="replace") == signer.signature(text.encode(errors="replace"), body)

    return Caller(KEY, signer.block, set(topics), _numbers(), is_signature)


def _numbers() -> OrderedDict[str, int]:
    return OrderedDict({"c0ffee": LAST, "another": 5})


class SimpleHash(SimpleNamespace):
    """A namespace that can be a key."""

    __hash__ = object.__hash__  # type: ignore[assignment]
    __eq__ = object.__eq__


def signed_frame(body: bytes = b"hello", opaque: int = 7, secret: str = SECRET, **fields: str) -> bytes:
    """Return a signed message; a nonce brings the fields that go with it."""
    account = {"m": "false", "AccessKey": KEY} | fields
    if "pyromqNonce" in fields:
        account = {"pyromqCode": "310", "pyromqTime": str(NOW_MS)} | account
    return send_frame(body, opaque, secret=secret, flag=0, **account)


def send_frame(body: bytes = b"hello", opaque: int = 7, *, secret: str = "", flag: int = 0, **fields: str) -> bytes:
    """Return a plain message as it arrives, without the length of the frame; signed, if there is a secret."""
    usual = {"a": "g", "b": "orders", "c": "TBW102", "d": "4", "e": "1", "f": "0", "g": "1700000000000", "h": "0"}
    usual |= {"i": "UNIQ_KEY\x017F000001\x02WAIT\x01true\x02KEYS\x01k\x02TAGS\x01paid", "j": "0", "k": "false"}
    fields = usual | fields
    if secret:
        fields["Signature"] = sign(fields, body, secret)
    header = {"code": 310, "extFields": fields, "flag": flag, "language": "JAVA", "opaque": opaque}
    text = json.dumps(header | {"serializeTypeCurrentRPC": "JSON", "version": 395}, separators=(",", ":")).encode()
    return struct.pack(">I", len(text)) + text + body


def mangled_frame(chance: random.Random) -> bytes:
    """Return a frame that is nearly right: some bits of it changed, cut or repeated, its length often right."""
    return mangled(send_frame(bytes(chance.randrange(60)), chance.randrange(-5, 2**31)), chance)


def mangled_signed_frame(chance: random.Random) -> bytes:
    """Return a signed frame that is nearly right: signed well and then changed, or signed as it should not be."""
    odd = chance.choice(("", "c0ffee.42", "c0ffee.42", "c0ffee.41", "another.6", "nobody.1", "c0ffee.042", "x"))
    fields = {"pyromqNonce": odd} if odd else {}
    if chance.random() < 0.2:
        name = chance.choice(("pyromqCode", "pyromqTime", "SecurityToken", "AccessKey", "b", "i", "k", "n", "z"))
        fields[name] = chance.choice(("320", "310", str(NOW_MS + 300_001), "orders", KEY, "", "KEYS\x01\u00e9", "true"))
    secret = chance.choice((*[SECRET] * 9, "wrong"))
    frame = signed_frame(bytes(chance.randrange(90)), 7, secret, **fields)
    return frame if chance.random() < 0.4 else mangled(frame, chance, behind=chance.random() < 0.5)


def mangled(frame: bytes, chance: random.Random, *, behind: bool = True) -> bytes:
    """Return a frame with some bits of its header changed, and another body if something stands `behind`."""
    header = bytearray(frame[4 : 4 + int.from_bytes(frame[:4], "big")])
    for _ in range(chance.choice((0, 1, 1, 2, 5))):
        start = chance.randrange(len(header) + 1)
        stop = min(len(header), start + chance.choice((0, 0, 1, 3, 30)))
        header[start:stop] = chance.choice((chance.choice(_BITS), header[stop : stop + 9], chance.randbytes(2)))
    length = len(header) if chance.random() < 0.9 else chance.randrange(2**32)
    body = frame[-chance.randrange(1, 60) :] if behind else frame[4 + int.from_bytes(frame[:4], "big") :]
    whole = struct.pack(">I", length) + bytes(header) + body
    return whole if chance.random() < 0.95 else whole[: chance.randrange(len(whole))]


def difference(native: Desk, plain: Desk, frame: bytes) -> str:
    """Say what is wrong with what the native lane made of a frame; it may leave any to the ordinary path."""
    found = native.take(frame)
    if not found[0]:
        plain.take()
        nothing = plain.take()
        return "" if found == nothing else f"left alone, and changed something: {found}"
    expected = plain.take(frame)
    return "" if found == expected else f"{found} is not {expected}"


def read_difference(one: Desk, other: Desk, frames: list[bytes], length: int) -> str:
    """Say what is wrong with what a lane makes of a read of so many bytes: the frames that are whole, and no more."""
    data = b"".join(len(frame).to_bytes(4) + frame for frame in frames)[:length]
    ends = list(accumulate(4 + len(frame) for frame in frames))
    whole = [frame for frame, end in zip(frames, ends, strict=True) if end <= length]
    short = list(takewhile(lambda frame: len(frame) <= LONGEST_READ, whole))
    found, expected = one.take_read(data), other.take(*short)
    if found[0] != ([0, *ends])[expected[0]]:
        return f"{found[0]} bytes of frames that end at {ends}, where {expected[0]} are taken"
    return "" if found[1:] == expected[1:] else f"{found} is not {expected}"


def plain_desk(**limits: Any) -> Desk:
    """Return a place with the plain lane."""
    return Desk(PlainSendLane, **limits)
