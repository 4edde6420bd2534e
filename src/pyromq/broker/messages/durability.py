"""Durability: how far the log is safe, the one object that everybody asks.

    flushed    up to there the log is on this disk: progress that is saved may count on it
    durable    up to there it is here as safely as was promised: written, or flushed where sends wait for that
    copies     whether slaves have it up to an end, where sends wait for them (SYNC_MASTER)
    visible    up to there queues show it: durable, and confirmed by slaves where only that is shown

Whoever answers a send asks for durable and copies; whoever delivers a message that waited asks for "visible". Nobody
else knows of disks or other machines.
"""

from __future__ import annotations

from enum import Enum
from typing import Protocol

from pyromq.broker.signals import Signal, StoreSignals
from pyromq.errors import StoreError
from pyromq.store.config import StoreConfig
from pyromq.store.message_store import MessageStore


class Copies(Enum):
    """Whether slaves have the log up to some end."""

    COMPLETE = "as many as an acknowledgement promises"
    PENDING = "not yet"
    MISSING = "no slave is there that could"


class Replicas(Protocol):
    """The slaves, as far as sends depend on them."""

    @property
    def changed(self) -> Signal[[]]:
        """A slave has confirmed more, has come or has gone."""

    @property
    def is_fenced(self) -> bool:
        """Whether another broker may be master by now: only what all slaves have confirmed may be promised."""

    def copies(self, end: int) -> Copies:
        """Return whether slaves have the log up to an end."""


class Durability:
    """Answers for one store."""

    def __init__(self, store: MessageStore, signals: StoreSignals, replicas: Replicas | None = None) -> None:
        """`replicas` if sends wait for slaves."""
        self.waits = _waits_for_flush(store.config) or replicas is not None
        """Whether what is written may not be acknowledged at once."""
        self.waits_for_slaves = replicas is not None
        """Whether it is not even when it is flushed."""
        self.changed: tuple[Signal[[int]] | Signal[[]], ...] = (
            (signals.durable,) if replicas is None else (signals.durable, replicas.changed)
        )
        """Heard when more of the log may be acknowledged; silent unless `waits`."""
        self.failed: Signal[[StoreError]] = signals.failed
        """Tells that nothing more will be durable."""
        self._store = store
        self._replicas = replicas

    @property
    def flushed_end(self) -> int:
        """Up to where a power cut takes nothing of the log."""
        return self._store.flushed_offset

    @property
    def durable_end(self) -> int:
        """Up to where the log is here as safely as was promised."""
        return self._store.durable_offset

    @property
    def visible_end(self) -> int:
        """Up to where the log can be read by its queues."""
        return self._store.confirm_offset

    @property
    def is_fenced(self) -> bool:
        """Whether another broker may be master by now, so that what slaves have not confirmed may be lost."""
        return self._replicas is not None and self._replicas.is_fenced

    def copies(self, end: int) -> Copies:
        """Return whether slaves have the log up to an end; they do where sends do not wait for them."""
        return Copies.COMPLETE if self._replicas is None else self._replicas.copies(end)


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
