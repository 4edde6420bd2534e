"""The ids of a message: the client's (property UNIQ_KEY), the one of its place, and RocketMQ 5's recall handle.

    client:  ip (4 or 16) | process id (2) | number of the series (4) | ms since the month began (4) | counter (2)
    offset:  ip (4 or 16) | port (4) | physical offset (8)
    recall:  `v1 topic broker time id`, in URL-safe base64; it names a timed message that can be cancelled

The first two are upper-case hex digits: 32, or 56 with an IPv6 address.
"""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

from pyromq.errors import LocalProtocolError, MalformedHeader
from pyromq.protocol.messages.hosts import IPV4_HOST_LENGTH, IPV6_HOST_LENGTH, decode_host, encode_ip

_OFFSET = struct.Struct(">q")
_PAIRS = [f"{number:02X}" for number in range(256)]
_DAY_MS = 24 * 3600 * 1000
_SERIES = 1 << 16  # as many ids as the counter can tell apart
_OFFSET_ID_LENGTHS = {2 * (IPV4_HOST_LENGTH + _OFFSET.size), 2 * (IPV6_HOST_LENGTH + _OFFSET.size)}


def series_prefix(address: str, pid: int, number: int) -> str:
    """Return the part that all ids of one series share; only the low bits of pid and number fit into it."""
    return (encode_ip(address) + struct.pack(">HI", pid & 0xFFFF, number & 0xFFFFFFFF)).hex().upper()


class IdRun(NamedTuple):
    """Ids of one series, one after the other."""

    stem: str
    first: int
    size: int

    def texts(self) -> list[str]:
        """Return the ids."""
        return [f"{self.stem}{number:04X}" for number in range(self.first, self.first + self.size)]


class UniqueIds:
    """Generates client message ids. `new_series` returns a prefix that no other series has, on any machine.

    A series ends when its counter does, so its ids differ even if the clock is set back, or the month starts again.
    """

    def __init__(self, new_series: Callable[[], str]) -> None:
        self._new_series = new_series
        self._month_ms = range(0)
        self._stem = ""
        self.begin_series()

    def begin_series(self) -> None:
        """Let the next id be the first of a new series."""
        self._prefix = ""
        self._counter = _SERIES
        self._made_ms = -1

    def next(self, now_ms: int) -> str:
        """Return a new id for a message created at this time."""
        count = self._counter
        if count == _SERIES:
            count, self._made_ms, self._prefix = 0, -1, self._new_series()
        if now_ms != self._made_ms:  # under load many share a millisecond
            self._stem = self._stem_at(now_ms)
            self._made_ms = now_ms
        self._counter = count + 1
        return self._stem + _PAIRS[count >> 8] + _PAIRS[count & 0xFF]  # a third of the time of a format

    def run(self, count: int, now_ms: int) -> IdRun:
        """Return so many new ids for messages created at this time, at most 65,536."""
        if self._counter + count > _SERIES:
            self.begin_series()
        first = int(self.next(now_ms)[-4:], 16)
        self._counter = first + count
        return IdRun(self._stem, first, count)

    def _stem_at(self, now_ms: int) -> str:
        if now_ms not in self._month_ms:
            self._month_ms = _month_around(now_ms)
        return f"{self._prefix}{now_ms - self._month_ms.start:08X}"


def _month_around(now_ms: int) -> range:
    now = datetime.fromtimestamp(now_ms / 1000)
    begin = datetime(now.year, now.month, 1)
    end = datetime(now.year + now.month // 12, now.month % 12 + 1, 1)
    return range(int(begin.timestamp() * 1000), int(end.timestamp() * 1000))


def near_time_ms(message_id: str, now_ms: int) -> int | None:
    """Return about when a client created this id, if that was within a month; None if it is not a client id.

    The id counts from the start of the month in the client's time zone, which may differ from ours by hours.
    """
    if len(message_id) not in (32, 56):
        return None
    try:
        since_ms = int(message_id[-12:-4], 16)
    except ValueError:
        return None
    month = _month_around(now_ms)
    if month.start + since_ms > now_ms + _DAY_MS:
        month = _month_around(month.start - 1)
    return month.start + since_ms


def encode_offset_id(host: bytes, physical_offset: int) -> str:
    """Return the id of the record at this offset on the broker with this host (as `encode_host` returns it)."""
    try:
        return (host + _OFFSET.pack(physical_offset)).hex().upper()
    except struct.error:
        raise LocalProtocolError(f"not an offset: {physical_offset}") from None


def decode_offset_id(message_id: str) -> tuple[str, int]:
    """Return the broker's `ip:port` and the physical offset; raise MalformedHeader if it is not an offset id."""
    try:
        raw = bytes.fromhex(message_id)
    except ValueError:
        raw = b""
    if len(message_id) not in _OFFSET_ID_LENGTHS or 2 * len(raw) != len(message_id):
        raise MalformedHeader(f"not an offset message id: {message_id[:64]!r}")
    return decode_host(raw[: -_OFFSET.size]), _OFFSET.unpack_from(raw, len(raw) - _OFFSET.size)[0]


_VERSION = "v1"


class RecallHandle(NamedTuple):
    """Names a waiting message: `due` is its time in ms as text, `message_id` the producer's id."""

    topic: str
    broker_name: str
    due: str
    message_id: str


def encode_handle(handle: RecallHandle) -> str:
    """Return a handle as text."""
    return base64.urlsafe_b64encode(" ".join((_VERSION, *handle)).encode()).decode()


def decode_handle(text: str) -> RecallHandle:
    """Read a handle; raise MalformedHeader if it is not one."""
    try:
        version, *fields = base64.urlsafe_b64decode(text.encode()).decode().split(" ")
        if version == _VERSION:
            return RecallHandle(*fields)
    except (binascii.Error, ValueError, TypeError):
        pass
    raise MalformedHeader(f"not a recall handle: {text[:64]!r}")
