"""The replication stream between master and slave: plain numbers and log bytes, no RocketMQ frames.

slave to master:  max offset 8                                    a report; the last complete one counts
master to slave:  physical offset 8 | size 4 | log bytes          size 0 is a heartbeat
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from pyromq.errors import LocalProtocolError, RemoteProtocolError

MAX_TRANSFER: Final = 32 * 1024
"""Log bytes in one transfer of a master with default settings."""
MAX_BODY: Final = 16 * 1024 * 1024
"""A larger transfer is an error; a master may be configured to send more than MAX_TRANSFER."""

_REPORT = struct.Struct(">q")
_HEAD = struct.Struct(">qi")


class Transfer(NamedTuple):
    """A range of the master's log; empty in a heartbeat."""

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


class ReportDecoder:
    """Reads what a slave sends, however the bytes are split."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> int | None:
        """Return the last complete report, None without one; raise RemoteProtocolError for a negative offset."""
        data = self._rest + data
        end = len(data) - len(data) % _REPORT.size
        self._rest = data[end:]
        if not end:
            return None
        (max_offset,) = _REPORT.unpack_from(data, end - _REPORT.size)
        if max_offset < 0:
            raise RemoteProtocolError(f"a slave reports the offset {max_offset}")
        return int(max_offset)


class TransferDecoder:
    """Reads what a master sends, however the bytes are split."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[Transfer]:
        """Return the transfers that are now complete; raise RemoteProtocolError for impossible numbers."""
        self._rest += data
        transfers, start = [], 0
        while len(self._rest) - start >= _HEAD.size:
            offset, size = _HEAD.unpack_from(self._rest, start)
            if offset < 0 or not 0 <= size <= MAX_BODY:
                raise RemoteProtocolError(f"a master sends {size} bytes for the offset {offset}")
            end = start + _HEAD.size + size
            if end > len(self._rest):
                break
            transfers.append(Transfer(offset, bytes(self._rest[start + _HEAD.size : end])))
            start = end
        del self._rest[:start]
        return transfers


def first_offset(report: int, max_offset: int, file_size: int) -> int:
    """Return where a master starts to send: a slave without a log begins at the master's last file."""
    return report if report else max_offset - max_offset % file_size
