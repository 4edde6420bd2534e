"""Durability: how far the log is safe, the one object that everybody asks.

    flushed     up to there the log is on this disk: progress that is saved may count on it
    confirmed   up to there answers may say "stored": it is written, or flushed where sends wait for that (SYNC_FLUSH)

Whoever answers a send, or delivers a message that waited, asks for "confirmed" and knows nothing of disks or other
machines. Whatever else has to happen before an answer may leave belongs into this class.
"""

from __future__ import annotations

from pyromq.broker.signals import Signal, StoreSignals
from pyromq.errors import StoreError
from pyromq.store.config import StoreConfig
from pyromq.store.message_store import MessageStore


class Durability:
    """Answers for one store."""

    def __init__(self, store: MessageStore, signals: StoreSignals) -> None:
        self.waits = _waits_for_flush(store.config)
        """Whether what is written is not confirmed at once."""
        self.confirmed: Signal[[int]] = signals.durable
        """Tells up to where the log is confirmed now; silent unless `waits`."""
        self.failed: Signal[[StoreError]] = signals.failed
        """Tells that nothing more will be confirmed."""
        self._store = store

    @property
    def flushed_end(self) -> int:
        """Up to where a power cut takes nothing of the log."""
        return self._store.flushed_offset

    @property
    def confirmed_end(self) -> int:
        """Up to where answers may say "stored"."""
        return self._store.flushed_offset if self.waits else self._store.max_physical_offset

    def is_confirmed(self, end: int) -> bool:
        """Return True if answers may say that the log is stored up to an end."""
        return end <= self.confirmed_end


def loss_window(config: StoreConfig) -> str:
    """Say in one line what an acknowledged message survives."""
    if _waits_for_flush(config):
        return "SYNC_FLUSH: a message is on disk when it is acknowledged; a power cut takes none"
    return (
        f"ASYNC_FLUSH: a power cut can take what was acknowledged in the last {config.flush_interval_ms} ms"
        " and during one flush; the death of this process takes nothing"
    )


def _waits_for_flush(config: StoreConfig) -> bool:
    return config.flush_disk_type == "SYNC_FLUSH"
