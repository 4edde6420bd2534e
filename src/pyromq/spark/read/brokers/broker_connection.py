"""A plain blocking connection to a broker, for the large answers that executors read.

A task only waits for its next answer, so this needs no event loop and no thread. The kernel copies each answer into one
reused buffer, and columns are cut out of that buffer. While a task decodes one answer, the next is on its way.
"""

from __future__ import annotations

import os
import socket
import ssl
import struct

from pyromq.clock import SystemClock
from pyromq.errors import ConnectFailed, ConnectionLost, RemoteProtocolError, RequestTimeout
from pyromq.protocol.acl import Credentials, nonces, signed
from pyromq.protocol.command import HEADER_LENGTH_MASK, MAX_FRAME, RemotingCommand, decode
from pyromq.remoting.tls.client_tls import Tls, chosen_tls, tls_problem

_PREFIX = struct.Struct(">II")
_WORD = struct.Struct(">I")
_RECEIVE_BUFFER = 4 << 20

_idle: dict[tuple[int, str, Credentials | None, Tls | None], BrokerConnection] = {}


def take_connection(
    address: str, timeout: float, credentials: Credentials | None = None, tls: bool | Tls | None = None
) -> BrokerConnection:
    """Return an idle connection to a broker, or a new one; the caller returns it with `give_back`."""
    chosen = chosen_tls(tls)
    connection = _idle.pop((os.getpid(), address, credentials, chosen), None)  # never a parent process's
    if connection is None or not connection.is_usable():
        connection = BrokerConnection(address, timeout, credentials, chosen)
    connection.set_timeout(timeout)
    return connection


def give_back(connection: BrokerConnection) -> None:
    """Keep a connection for this process's next task, or close it if an answer is still due."""
    if connection.is_idle:
        _idle[os.getpid(), connection.address, connection.credentials, connection.tls] = connection
    else:
        connection.close()


class BrokerConnection:
    """One socket; answers arrive in the order of the requests."""

    def __init__(
        self, address: str, timeout: float, credentials: Credentials | None = None, tls: Tls | None = None
    ) -> None:
        self.address = address
        self.credentials = credentials
        self.tls = tls
        self._timeout = timeout
        self._due = 0
        self._opaque = 0
        self._nonces = nonces()
        self._clock = SystemClock()
        self._buffer = memoryview(bytearray(1 << 16))
        host, _, port = address.rpartition(":")
        try:
            self._socket = socket.create_connection((host.strip("[]"), int(port)), timeout)
            if tls is not None:
                self._socket = tls.context().wrap_socket(self._socket, server_hostname=host.strip("[]"))
        except ssl.SSLError as error:
            raise ConnectFailed(f"cannot connect to the broker at {address}: {tls_problem(error)}") from error
        except OSError as error:
            raise ConnectFailed(f"cannot connect to the broker at {address}: {error.strerror or error}") from error
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER)

    @property
    def is_idle(self) -> bool:
        """Whether every request has been answered."""
        return self._due == 0

    def is_usable(self) -> bool:
        """Return True if the broker has not closed the connection."""
        try:
            self._socket.settimeout(0)
            if isinstance(self._socket, ssl.SSLSocket):
                self._socket.read(1)  # TLS knows no peeking; nothing is due, so that nothing can be lost
            else:
                self._socket.recv(1, socket.MSG_PEEK)
        except (BlockingIOError, ssl.SSLWantReadError):
            return True
        except OSError:
            return False
        return False  # nothing is due: the broker has closed it or sends nonsense

    def set_timeout(self, timeout: float) -> None:
        """Set how long to wait for data before giving up."""
        self._timeout = timeout
        self._socket.settimeout(timeout)

    def close(self) -> None:
        """Close the socket; an answer still on its way is lost."""
        self._socket.close()

    def send(self, command: RemotingCommand) -> None:
        """Send a request; raises RemotingError."""
        self._opaque = command.opaque = self._opaque + 1
        request = command
        if self.credentials is not None:
            request = signed(command, self.credentials, next(self._nonces), self._clock.now_ms())
        try:
            self._socket.sendall(request.encode())
        except OSError as error:
            raise self._failure(error) from error
        self._due += 1

    def receive(self) -> tuple[RemotingCommand, memoryview]:
        """Return the next answer and its body, which is valid until the next call; raises RemotingError."""
        try:
            length, word = _PREFIX.unpack(self._read(_PREFIX.size))
            header_length = word & HEADER_LENGTH_MASK
            if length + 4 > MAX_FRAME or header_length + 4 > length:
                raise RemoteProtocolError(f"{self.address} sends no answer: {length} bytes, header {header_length}")
            answer = decode(_WORD.pack(word) + self._read(header_length), typed=False)
            body = self._read_body(length - 4 - header_length)
        except OSError as error:
            raise self._failure(error) from error
        self._due -= 1
        return answer, body

    def _read(self, size: int) -> bytes:
        return bytes(self._read_body(size))

    def _read_body(self, size: int) -> memoryview:
        if size > len(self._buffer):
            self._buffer = memoryview(bytearray(size + (size >> 3)))
        whole = self._buffer[:size]
        rest = whole
        while rest:
            count = self._socket.recv_into(rest)
            if not count:
                raise ConnectionLost(f"the broker at {self.address} closed the connection")
            rest = rest[count:]
        return whole

    def _failure(self, error: OSError) -> ConnectionLost | RequestTimeout:
        if isinstance(error, TimeoutError):
            return RequestTimeout(f"the broker at {self.address} did not answer within {self._timeout:g} s")
        return ConnectionLost(f"connection to the broker at {self.address} lost: {error.strerror or error}")
