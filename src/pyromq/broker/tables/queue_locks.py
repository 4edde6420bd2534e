"""QueueLockTable: which client may consume a queue in order. A lock lives 60 s after its last renewal, as RocketMQ's.

A slave has a copy of its master's locks: who holds which queue, not since when. While it follows, it gives no queue to
a new holder. When its master is gone each lock counts as renewed just then. So another client gets the queue only after
the lock has run out at the old master too, and the holder can renew it at once.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import TypeAlias

from msgspec import Struct

from pyromq.broker.tables.changed_keys import ChangedKeys
from pyromq.protocol.bodies.clients import MAX_NAME
from pyromq.protocol.messages.message import MessageQueue

logger = logging.getLogger(__name__)

MOST_LOCKS = 1_000_000
EXPIRED_AT_A_TIME = 20_000  # locks forgotten at once, in about 10 ms
LOCK_LIFETIME = 60.0  # a lock that its owner does not renew is free again

LockKey: TypeAlias = tuple[str, MessageQueue]
"""A group and a queue."""


class _Lock(Struct):
    owner: str
    renewed: float


class QueueLockTable:
    """The locks of a broker, in memory."""

    def __init__(self) -> None:
        self.changed_keys: ChangedKeys[LockKey] = ChangedKeys(MOST_LOCKS)
        """For slaves: which queues have another holder, or none."""
        self._locks: OrderedDict[LockKey, _Lock] = OrderedDict()  # the oldest renewal first
        self._is_copy = False

    def lock(self, group: str, queues: Iterable[MessageQueue], client_id: str, now: float) -> list[MessageQueue]:
        """Take or renew the locks that are free, expired or the client's own; return those it now has."""
        granted = []
        for queue in queues:
            key = group, queue
            lock = self._locks.get(key)
            if lock is None or lock.owner != client_id:
                if not self._may_take(lock, queue, now):
                    continue
                if lock is not None:
                    logger.info("expired queue lock taken over group=%s queue=%s by=%s", group, queue, client_id)
                self.changed_keys.note(key)
            self._locks[key] = _Lock(client_id, now)
            self._locks.move_to_end(key)
            granted.append(queue)
        return granted

    def unlock(self, group: str, queues: Iterable[MessageQueue], client_id: str) -> None:
        """Give up the locks that the client holds."""
        for queue in queues:
            lock = self._locks.get((group, queue))
            if lock is not None and lock.owner == client_id:
                del self._locks[group, queue]
                self.changed_keys.note((group, queue))

    def forget_expired(self, now: float, most: int = EXPIRED_AT_A_TIME) -> None:
        """Drop locks that nobody renewed, so that names made up by clients do not pile up."""
        for _ in range(0 if self._is_copy else most):
            if not self._locks or next(iter(self._locks.values())).renewed + LOCK_LIFETIME >= now:
                return
            self.changed_keys.note(self._locks.popitem(last=False)[0])

    def _may_take(self, lock: _Lock | None, queue: MessageQueue, now: float) -> bool:
        if self._is_copy:
            return False
        return lock.renewed + LOCK_LIFETIME < now if lock is not None else self._has_room_for(queue, now)

    def _has_room_for(self, queue: MessageQueue, now: float) -> bool:
        if len(queue.topic) > MAX_NAME or len(queue.broker_name) > MAX_NAME:
            return False
        self.forget_expired(now, 2)
        return len(self._locks) < MOST_LOCKS

    # --- for slaves

    @property
    def keys(self) -> list[LockKey]:
        """All queues that are locked, each with its group."""
        return list(self._locks)

    def owner(self, key: LockKey) -> str:
        """Return who holds a queue; empty if nobody does."""
        lock = self._locks.get(key)
        return lock.owner if lock else ""

    def begin_copy(self, owners: Mapping[LockKey, str], now: float) -> dict[LockKey, str]:
        """Take over a master's locks; return those that were in force here and that the master does not have."""
        self.forget_expired(now, len(self._locks))
        own = {} if self._is_copy else {key: lock.owner for key, lock in self._locks.items() if key not in owners}
        self._is_copy = True
        self._locks = OrderedDict((key, _Lock(owner, now)) for key, owner in owners.items())
        return own

    def adopt(self, owners: Mapping[LockKey, str], now: float) -> None:
        """Take over what changed at the master; an empty owner means that the queue is free."""
        for key, owner in owners.items():
            if owner:
                self._locks[key] = _Lock(owner, now)
            else:
                self._locks.pop(key, None)

    def end_copy(self, now: float) -> None:
        """Go on alone: a lock of the master is in force for as long as if it had been renewed just now."""
        if self._is_copy:
            self._is_copy = False
            for lock in self._locks.values():
                lock.renewed = now
