"""An operator wants another master: what becomes of it when that fails."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

from pyromq.broker.replication.failover.by_election import ByElection
from pyromq.errors import BrokerError, ConnectFailed
from pyromq.testing import TestClock
from tests.broker.replication.failover.fake_etcd import FakeEtcd
from tests.broker.replication.failover.fake_nodes import Node, pair


class NobodyAnswers:
    """Other brokers that cannot be reached."""

    async def step_down(self, *_: object, **__: object) -> None:
        raise ConnectFailed("cannot connect")


async def test_a_promotion_by_force_that_failed_is_not_made_later(tmp_path: Path) -> None:
    """Etcd was away, and the operator was told so. When it is back, the old master must not be deposed."""
    clock = TestClock()
    etcd = FakeEtcd(clock)
    nodes = [Node(number, etcd, clock, tmp_path) for number in (1, 2)]
    one, two = await pair(nodes)
    wanted = ByElection(
        two.coordinator, cast(Any, NobodyAnswers()), two.epochs, cast(Any, two.store), clock, "SYNC_MASTER"
    )
    promoting = asyncio.ensure_future(wanted.take_over(force=True))
    while not promoting.done():
        await clock.advance_async(seconds=1)
    with pytest.raises(BrokerError, match="was not elected in time"):
        promoting.result()
    await two.look()
    assert (one.leads, two.leads) == (1, None)
