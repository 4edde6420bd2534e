"""UnreachableBrokers: brokers that could not be reached a moment ago, so that others are asked first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pyromq.errors import ConnectionLost, RemotingError, ServiceNotAvailable
from pyromq.remoting.client import RemotingClient

_LASTS: Final = 30.0
"""Seconds; then a broker is tried again, although no heartbeat has reached it."""


class UnreachableBrokers:
    """The addresses that failed and have not answered since; a heartbeat that arrives clears one at once."""

    def __init__(self, remoting: RemotingClient) -> None:
        self.on_failure: Callable[[], None] = lambda: None
        """Called at every failure: the broker may have moved."""
        self._remoting = remoting
        self._until: dict[str, float] = {}

    def __bool__(self) -> bool:
        return bool(self._until)

    def __contains__(self, address: str | None) -> bool:
        until = self._until.get(address) if address else None
        return until is not None and self._remoting.clock.monotonic() < until

    def failed(self, address: str | None, error: BaseException) -> None:
        """Note that a request failed.

        A lost connection says nothing yet: the next request finds out. Nor does a late answer, if others arrive.
        """
        if address is None or not isinstance(error, RemotingError | ServiceNotAvailable):
            return
        self.on_failure()
        is_silent = isinstance(error, RemotingError) and not isinstance(error, ConnectionLost)
        if is_silent and self._remoting.ready(address) is None:
            self._until[address] = self._remoting.clock.monotonic() + _LASTS

    def answered(self, address: str) -> None:
        """Note that a broker has answered."""
        if self._until:
            self._until.pop(address, None)
