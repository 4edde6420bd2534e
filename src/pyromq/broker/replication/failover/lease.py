"""Lease: for how long this broker may believe that it is what etcd says.

A thread renews it every third of its time, also while the event loop is busy; one that has stood still for long loses
it. It counts from before the request was sent, by a clock that nobody sets: etcd cannot have ended it earlier. Where
etcd has forgotten a lease, another is asked for, and the keys that were on the old one have to be written again.
"""

from __future__ import annotations

import logging
import threading
from typing import Final, Protocol

from pyromq.broker.replication.failover.etcd_state import EtcdAway, Granted
from pyromq.clock import Clock

logger = logging.getLogger(__name__)

_RENEWALS: Final = 3
"""How often a lease is renewed in its time."""
_STALLED_AFTER: Final = 10.0
"""Seconds without a sign of life of the event loop: a broker that does nothing any more shall not stay master."""
_NEVER: Final = float("-inf")


class Leases(Protocol):
    """What grants leases."""

    def grant(self, seconds: int) -> Granted: ...

    def keep_alive(self, lease: int) -> Granted: ...

    def revoke(self, lease: int) -> None: ...

    def close(self) -> None: ...


class Lease:
    """A lease that is renewed from `start` to `stop`."""

    def __init__(self, leases: Leases, seconds: int, clock: Clock) -> None:
        self.id = 0
        """The lease's id; 0 while there is none."""
        self._leases = leases
        self._seconds = seconds
        self._clock = clock
        self._until = _NEVER
        self._alive_at = clock.monotonic()
        self._problem = ""
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def is_valid(self) -> bool:
        """Whether etcd cannot have ended it yet."""
        return self._clock.monotonic() < self._until

    def holds(self, lease: int) -> bool:
        """Return True if this is still the lease of that id, and etcd cannot have ended it yet."""
        return self.is_valid and self.id == lease  # in this order: a new lease gets its id first, then its time

    def note_life(self) -> None:
        """Tell that the event loop runs."""
        self._alive_at = self._clock.monotonic()

    def start(self) -> None:
        """Ask for a lease, and keep it from then on."""
        self._thread = threading.Thread(target=self._keep, name="pyromq-lease", daemon=True)
        self._thread.start()

    def stop(self, *, revoke: bool = True) -> None:
        """Renew it no more, and give it back if etcd answers; blocks for as long as a request may take."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
        self._until = _NEVER
        if revoke and self.id:
            try:
                self._leases.revoke(self.id)
            except EtcdAway:
                logger.debug("the lease runs out by itself")
        self._leases.close()

    def _keep(self) -> None:
        while True:
            try:
                if self._clock.monotonic() - self._alive_at < _STALLED_AFTER:
                    self.renew()
                    self._note_problem("")
                else:
                    self._note_problem(f"this broker has stood still for {_STALLED_AFTER:g} s")
            except EtcdAway as error:
                self._note_problem(str(error))
            except Exception:  # a lease that is not renewed deposes a master
                logger.exception("the lease could not be renewed")
            if self._stopping.wait(self._seconds / _RENEWALS):
                return

    def renew(self) -> None:
        """Renew the lease, or ask for another if there is none any more; raise EtcdAway."""
        began = self._clock.monotonic()
        granted = self._leases.keep_alive(self.id) if self.id else self._leases.grant(self._seconds)
        if not granted.seconds:
            logger.warning("etcd has ended the lease of this broker: it asks for another")
            self._until = _NEVER
            self.id = 0
            began = self._clock.monotonic()
            granted = self._leases.grant(self._seconds)
        self.id = granted.id
        self._until = began + min(granted.seconds, self._seconds)

    def _note_problem(self, problem: str) -> None:
        if problem and not self._problem:
            logger.warning("the lease of this broker is not renewed: %s", problem)
        elif self._problem and not problem:
            logger.info("the lease of this broker is renewed again")
        self._problem = problem
