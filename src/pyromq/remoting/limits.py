"""Limits: what one connection may cost."""

from __future__ import annotations

from msgspec import Struct

from pyromq.protocol.command import MAX_FRAME, MAX_HEADER


class Limits(Struct, frozen=True, kw_only=True):
    """How much one connection may hold and run."""

    max_frame: int = MAX_FRAME
    """Bytes of a frame, length prefix included; a longer one closes the connection."""
    max_header: int = MAX_HEADER
    """Bytes of a frame's header; a longer one closes the connection before it is parsed."""
    write_high: int = 4 << 20
    """Bytes not yet sent above which the connection is not `writable`, and a server stops reading from this peer."""
    max_outstanding: int = 16_384
    """Requests sent but not yet answered; a long poll counts as one."""
    max_running: int = 1_024
    """Handlers of this peer's requests that may run as tasks at the same time."""


DEFAULT_LIMITS = Limits()
CLIENT_LIMITS = Limits(max_header=MAX_FRAME)
"""For connections that we opened: the header of a batch's answer holds an id of 32 characters for each message."""
