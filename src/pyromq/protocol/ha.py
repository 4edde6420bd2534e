"""The replication stream between master and slave: plain numbers and log bytes, no RocketMQ frames.

slave to master:  max offset 8                                    a report; the last complete one counts
master to slave:  physical offset 8 | size 4 | log bytes          size 0 is a heartbeat

Our own brokers introduce themselves before the first report. A note, in either direction, has NOTE in the place of an
offset, which is negative and so never one:

                  NOTE 8 | size 4 | JSON
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from pyromq.errors import LocalProtocolError, RemoteProtocolError

MAX_TRANSFER: Final = 32 * 1024
"""Log bytes in one transfer of a master with default settings."""
MAX_BODY: Final = 16 * 1024 * 1024
"""A larger transfer is an error; a master may be configured to send more than MAX_TRANSFER."""

NOTE: Final = -0x5059_524F_4D51_0001
"""In the place of an offset: a note of our own follows."""
MAX_NOTE: Final = 64 * 1024

_REPORT = struct.Struct(">q")
_HEAD = struct.Struct(">qi")


class Transfer(NamedTuple):
    """A range of the master's log, empty in a heartbeat; or a note, if the offset is NOTE."""

    physical_offset: int
    body: bytes


def encode_report(max_offset: int) -> bytes:
    """Write a slave's report: the end of its log."""
    return _pack(_REPORT, max_offset)


def encode_transfer(physical_offset: int, body: bytes = b"") -> bytes:
    """Write a range of the log; an empty one is a heartbeat with the next offset."""
    if len(body) > MAX_BODY:
        raise LocalProtocolError(f"a transfer of {len(body)} bytes is over the limit of {MAX_BODY}")
    return _pack(_HEAD, physical_offset, len(body)) + body


def _pack(layout: struct.Struct, *values: int) -> bytes:
    if not 0 <= values[0] < 2**63:
        raise LocalProtocolError(f"not an offset: {values[0]}")
    return layout.pack(*values)


def encode_note(note: bytes) -> bytes:
    """Write a note of our own, in either direction."""
    return _HEAD.pack(NOTE, len(note)) + note


class ReportDecoder:
    """Reads what a slave sends, however the bytes are split: reports, and notes before the first of them."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[int | bytes]:
        """Return the notes that are complete now, then the last complete report, if there is one.

        Raises RemoteProtocolError for an offset that is negative and for a note that is too long.
        """
        self._rest += data
        found: list[int | bytes] = []
        while (note := self._take_note()) is not None:
            found.append(note)
        if self._is_note():
            return found
        end = len(self._rest) - len(self._rest) % _REPORT.size
        if end:
            reports = [int(report) for (report,) in _REPORT.iter_unpack(self._rest[:end])]
            if min(reports) < 0:
                raise RemoteProtocolError(f"a slave reports the offset {min(reports)}")
            self._rest = self._rest[end:]
            found.append(reports[-1])
        return found

    def _is_note(self) -> bool:
        return len(self._rest) >= _REPORT.size and _REPORT.unpack_from(self._rest)[0] == NOTE

    def _take_note(self) -> bytes | None:
        if not self._is_note() or len(self._rest) < _HEAD.size:
            return None
        size = _HEAD.unpack_from(self._rest)[1]
        if not 0 <= size <= MAX_NOTE:
            raise RemoteProtocolError(f"a slave sends a note of {size} bytes")
        end = _HEAD.size + size
        if end > len(self._rest):
            return None
        note, self._rest = self._rest[_HEAD.size : end], self._rest[end:]
        return note


class TransferDecoder:
    """Reads what a master sends, however the bytes are split."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[Transfer]:
        """Return the transfers that are now complete; raise RemoteProtocolError for impossible numbers."""
        received: bytes | bytearray = data
        if self._rest:
            self._rest += data
            received = self._rest
        transfers, start = [], 0
        while len(received) - start >= _HEAD.size:
            offset, size = _HEAD.unpack_from(received, start)
            if (offset < 0 and offset != NOTE) or not 0 <= size <= MAX_BODY:
                raise RemoteProtocolError(f"a master sends {size} bytes for the offset {offset}")
            end = start + _HEAD.size + size
            if end > len(received):
                break
            transfers.append(Transfer(offset, bytes(received[start + _HEAD.size : end])))
            start = end
        if received is self._rest:
            del self._rest[:start]
        else:
            self._rest += received[start:]
        return transfers
