"""Progress that counts deliveries is taken over when the log here has them, durably."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pyromq.broker.config.broker_config import BrokerConfig
from pyromq.broker.replication.tables.held_progress import HeldProgress
from pyromq.broker.tables.all_tables import Tables
from pyromq.broker.tables.delay_offsets import DelayProgress
from pyromq.store.message_store import MessageStore
from tests.store.helpers import message, small_store

HALVES = "RMQ_SYS_TRANS_HALF_TOPIC@CID_RMQ_SYS_TRANS"


class Slave:
    """A store, the tables beside it, and what is held."""

    def __init__(self, store: MessageStore) -> None:
        self.store = store
        self.tables = Tables(BrokerConfig(store=store.config), lambda: 0)
        self.held = HeldProgress(self.tables, store)

    def append(self) -> int:
        """Store a message, which is not flushed yet, and return where the log ends."""
        self.store.put(message())
        self.store.commit()
        return self.store.max_physical_offset

    @property
    def delays(self) -> dict[int, int]:
        return self.tables.delays.saved.offsets


@pytest.fixture
async def slave(tmp_path: Path) -> AsyncIterator[Slave]:
    with small_store(tmp_path) as store:
        slave = Slave(store)
        slave.tables.load()
        yield slave
        await slave.tables.close()


async def test_it_waits_until_the_log_is_flushed_up_to_where_the_masters_ended(slave: Slave) -> None:
    end = slave.append()
    others = slave.held.hold(end + 1, DelayProgress({1: 3}, 7), {HALVES: {0: 5}, "orders@billing": {0: 9}})
    assert others == {"orders@billing": {0: 9}}
    slave.store.flush()
    slave.held.take_over()
    assert slave.delays == {}
    slave.append()
    slave.held.take_over()
    assert slave.delays == {}
    slave.store.flush()
    slave.held.take_over()
    assert slave.tables.delays.saved == DelayProgress({1: 3}, 7)
    assert slave.tables.offsets.rows([HALVES]) == {HALVES: {0: 5}}
    assert slave.held.is_empty


async def test_newer_progress_does_not_put_off_what_is_held(slave: Slave) -> None:
    first = slave.append()
    slave.held.hold(first, DelayProgress({1: 1}), {})
    slave.held.hold(first + 1, DelayProgress({1: 2}), {HALVES: {0: 1}})
    slave.held.hold(first + 2, None, {HALVES: {0: 2}})
    slave.store.flush()
    slave.held.take_over()
    assert slave.delays == {1: 1}
    slave.append()
    slave.store.flush()
    slave.held.take_over()
    assert slave.delays == {1: 2}
    assert slave.tables.offsets.rows([HALVES]) == {HALVES: {0: 2}}


async def test_another_masters_progress_is_forgotten(slave: Slave) -> None:
    slave.held.hold(0, DelayProgress({1: 1}), {})
    slave.held.forget()
    slave.held.take_over()
    assert slave.delays == {}
