"""TlsPort: one port for plain and encrypted connections. The first byte says which a connection is.

    0x16        the ClientHello of TLS; a handshake follows, and the protocol gets the decrypted bytes
    else        a plain frame, which begins with 0x00; closed at once where TLS is enforced

The protocol of the connection is made when that is known. It notices nothing: it is given a transport.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final, cast

from pyromq.clock import Clock
from pyromq.remoting.round import about
from pyromq.remoting.tls.server_tls import ServerTls

logger = logging.getLogger(__name__)

HANDSHAKE: Final = 0x16
HANDSHAKE_TIMEOUT: Final = 10.0
"""Seconds for the first byte, and again for the handshake."""
MOST_WAITING: Final = 2_000
"""Connections that have not said yet what they are; the oldest goes if there are more."""


class TlsPort:
    """Makes the protocols of a listener; `new_protocol` makes those behind it."""

    def __init__(
        self,
        tls: ServerTls,
        new_protocol: Callable[[], asyncio.Protocol],
        clock: Clock,
        first_byte_timeout: float = HANDSHAKE_TIMEOUT,
    ) -> None:
        self.tls = tls
        self.new_protocol = new_protocol
        self.clock = clock
        self.first_byte_timeout = first_byte_timeout
        self.waiting: dict[FirstByte, None] = {}

    def __call__(self) -> FirstByte:
        """Return the protocol of a new connection."""
        return FirstByte(self)

    def close(self) -> None:
        """Close the connections that wait."""
        for protocol in list(self.waiting):
            protocol.abort()


class FirstByte(asyncio.Protocol):
    """A connection until it is known whether it is encrypted, and until the handshake is over."""

    def __init__(self, port: TlsPort) -> None:
        self._port = port
        self._early: list[bytes] = []
        self._handshake: asyncio.Task[asyncio.Transport | None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        waiting = self._port.waiting
        if len(waiting) >= MOST_WAITING:
            next(iter(waiting)).abort()
        waiting[self] = None
        self._timer = self._port.clock.call_later(self._port.first_byte_timeout, self.abort)

    def connection_lost(self, error: Exception | None) -> None:
        self._port.waiting.pop(self, None)
        self._timer.cancel()

    def abort(self) -> None:
        """Give up."""
        self._port.waiting.pop(self, None)
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        if self._handshake is not None:  # decrypted bytes that came with the end of the handshake
            self._early.append(data)
            return
        self._timer.cancel()
        if data[0] == HANDSHAKE:
            self._encrypt(data)
        elif self._port.tls.is_enforced:
            self._refuse("it does not speak TLS, and tls.server.mode is enforcing")
        else:
            self._hand_over(self._transport, [data])

    def _encrypt(self, hello: bytes) -> None:
        loop = asyncio.get_running_loop()
        upgrade = loop.start_tls(
            self._transport,
            self,
            self._port.tls.context,
            server_side=True,
            ssl_handshake_timeout=HANDSHAKE_TIMEOUT,
        )
        self._handshake = loop.create_task(upgrade)
        self._handshake.add_done_callback(self._encrypted)
        # The task runs first: when this is called, the transport has the protocol of TLS, and has read nothing more.
        loop.call_soon(lambda: _feed(self._transport.get_protocol(), hello))

    def _encrypted(self, handshake: asyncio.Task[asyncio.Transport | None]) -> None:
        if handshake.cancelled():
            self.abort()
        elif (error := handshake.exception()) is not None:
            self._refuse(f"the TLS handshake failed: {error}")
        elif (transport := handshake.result()) is not None and not transport.is_closing():
            self._hand_over(transport, self._early)

    def _hand_over(self, transport: asyncio.Transport, early: list[bytes]) -> None:
        self._port.waiting.pop(self, None)
        protocol = self._port.new_protocol()
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
        for data in early:
            if not transport.is_closing():
                protocol.data_received(data)

    def _refuse(self, reason: str) -> None:
        peer = self._transport.get_extra_info("peername")
        address = f"{peer[0]}:{peer[1]}" if peer else ""
        logger.warning("closed the connection of %s: %s", address, reason, extra=about(address))
        self.abort()


def _feed(protocol: Any, data: bytes) -> None:
    """Give received bytes to the protocol of TLS, as a transport would."""
    rest = memoryview(data)
    while rest:
        buffer = protocol.get_buffer(len(rest))
        size = min(len(buffer), len(rest))
        buffer[:size] = rest[:size]
        protocol.buffer_updated(size)
        rest = rest[size:]
