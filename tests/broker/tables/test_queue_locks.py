"""Who consumes a queue in order, and what a slave makes of its master's locks."""

from __future__ import annotations

import pytest

from pyromq.broker.tables import queue_locks
from pyromq.broker.tables.queue_locks import LOCK_LIFETIME, QueueLockTable
from pyromq.protocol.messages.message import MessageQueue

QUEUES = [MessageQueue("orders", "broker-a", number) for number in range(3)]


def test_a_queue_has_one_owner_at_a_time() -> None:
    locks = QueueLockTable()
    assert locks.lock("billing", QUEUES[:2], "first", now=0) == QUEUES[:2]
    assert locks.lock("billing", QUEUES, "second", now=1) == QUEUES[2:]
    assert locks.lock("other", QUEUES, "second", now=1) == QUEUES
    locks.unlock("billing", QUEUES, "second")
    assert locks.lock("billing", QUEUES, "first", now=2) == QUEUES


def test_a_lock_lives_60_seconds_after_its_last_renewal() -> None:
    locks = QueueLockTable()
    locks.lock("billing", QUEUES[:1], "first", now=0)
    locks.lock("billing", QUEUES[:1], "first", now=50)
    assert locks.lock("billing", QUEUES[:1], "second", now=110) == []
    assert locks.lock("billing", QUEUES[:1], "second", now=111) == QUEUES[:1]


def test_locks_that_nobody_renews_are_forgotten() -> None:
    locks = QueueLockTable()
    locks.lock("billing", QUEUES, "first", now=0)
    locks.forget_expired(now=30)
    assert locks.lock("billing", QUEUES, "second", now=31) == []
    locks.forget_expired(now=100)
    assert locks._locks == {}


def test_locks_do_not_grow_without_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_locks, "MOST_LOCKS", 2)
    locks = QueueLockTable()
    assert locks.lock("billing", QUEUES, "first", now=0) == QUEUES[:2]
    assert locks.lock("billing", [MessageQueue("x" * 301, "b", 0), MessageQueue("t", "b" * 301, 0)], "a", now=0) == []
    assert locks.lock("billing", QUEUES, "first", now=61) == QUEUES[:2]  # its own it can renew
    assert locks.lock("other", QUEUES, "second", now=122) == QUEUES[:2]  # expired ones make room


def test_only_another_holder_is_a_change() -> None:
    locks = QueueLockTable()
    locks.lock("billing", QUEUES[:2], "first", now=0)
    locks.lock("billing", QUEUES[:2], "first", now=20)
    locks.lock("billing", QUEUES[:2], "second", now=30)
    assert locks.changed_keys.mark == 2
    locks.unlock("billing", QUEUES[:1], "first")
    locks.forget_expired(now=100)
    assert locks.changed_keys.since(2) == [("billing", QUEUES[1]), ("billing", QUEUES[0])]
    assert not any(map(locks.owner, locks.changed_keys.since(0)))


def test_a_slave_gives_no_queue_to_a_new_holder_while_it_follows() -> None:
    locks = QueueLockTable()
    locks.begin_copy({("billing", QUEUES[0]): "first"}, now=0)
    assert locks.lock("billing", QUEUES, "first", now=1) == QUEUES[:1]
    locks.forget_expired(now=1000)
    assert locks.lock("billing", QUEUES, "second", now=1000) == []


def test_after_its_master_a_slave_waits_for_the_locks_of_before() -> None:
    locks = QueueLockTable()
    locks.begin_copy({("billing", QUEUES[0]): "first"}, now=0)
    locks.adopt({("billing", QUEUES[1]): "first", ("billing", QUEUES[2]): "first"}, now=10)
    locks.adopt({("billing", QUEUES[2]): ""}, now=20)
    locks.end_copy(now=500)
    assert locks.lock("billing", QUEUES, "second", now=501) == QUEUES[2:]
    assert locks.lock("billing", QUEUES, "second", now=500 + LOCK_LIFETIME) == QUEUES[2:]
    assert locks.lock("billing", QUEUES[:1], "first", now=501) == QUEUES[:1]
    assert locks.lock("billing", QUEUES[:2], "second", now=501 + LOCK_LIFETIME) == QUEUES[1:2]


def test_locks_that_the_master_does_not_have_are_named_if_they_are_in_force() -> None:
    locks = QueueLockTable()
    locks.lock("billing", QUEUES[:1], "first", now=0)
    locks.lock("billing", QUEUES[1:], "first", now=50)
    theirs = {("billing", QUEUES[2]): "second"}
    assert locks.begin_copy(theirs, now=70) == {("billing", QUEUES[1]): "first"}
    assert locks.owner(("billing", QUEUES[2])) == "second"
    assert locks.begin_copy({}, now=71) == {}
