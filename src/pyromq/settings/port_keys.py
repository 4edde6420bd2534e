"""Keys for the limits of ports, which brokers and name servers share; docs/security.md has the whole list."""

from __future__ import annotations

from typing import Final

from pyromq.settings.key_table import Key
from pyromq.settings.values import integer, seconds, show_milliseconds

_ANY: Final = 2**31 - 1

PORT_KEYS: Final[dict[str, Key]] = {
    "pyromqMaxFrameBytes": Key(
        "max_frame_bytes", integer(64 << 10, 16 << 20), help="bytes of a frame; a longer one closes the connection"
    ),
    "pyromqMaxHeaderBytes": Key("max_header_bytes", integer(4 << 10, 16 << 20), help="bytes of its header; likewise"),
    "pyromqFrameTimeout": Key(
        "frame_timeout", seconds(100, 600_000), show_milliseconds, help="how long a frame may take to arrive"
    ),
    "pyromqMaxRunningRequests": Key(
        "max_running_requests", integer(1, _ANY), help="requests of one connection that run at a time"
    ),
    "pyromqMaxConnections": Key("max_connections", integer(1, _ANY), help="connections of a port"),
    "pyromqMaxConnectionsPerAddress": Key(
        "max_connections_per_address",
        integer(1, _ANY),
        help="connections of one address to a port; loopback addresses have no such limit",
    ),
    "pyromqUnsignedTimeout": Key(
        "unsigned_timeout",
        seconds(100, 600_000),
        show_milliseconds,
        help="with `aclEnable`, how long a connection may stay without a request of a valid account",
    ),
    "pyromqMaxUnfinishedBytes": Key(
        "max_unfinished_bytes",
        integer(1 << 20, 1 << 40),
        help="bytes of unfinished and waiting requests, of a process, above which large frames are read in turn",
    ),
    "pyromqMaxUnsentBytes": Key(
        "max_unsent_bytes",
        integer(1 << 20, 1 << 40),
        help="bytes of unsent answers, of a process, above which peers that do not read are closed",
    ),
}
