"""Who may register as master: the newest epoch counts."""

from __future__ import annotations

import logging

import pytest

from pyromq.protocol.codes import ResponseCode
from pyromq.testing import TestClock, eventually

from .conftest import Peer

A, B, C = "10.0.0.1:10911", "10.0.0.2:10911", "10.0.0.3:10911"
REFUSED = ResponseCode.SYSTEM_ERROR


async def members(peer: Peer) -> dict[int, str]:
    route = await peer.route()
    return dict(route.broker_datas[0].broker_addrs) if route else {}


async def is_empty(peer: Peer) -> bool:
    return not await members(peer)


async def test_a_newer_master_replaces_an_older_one_at_once(peer: Peer, broker: Peer) -> None:
    await peer.register(address=A, epoch=1)
    await broker.register(address=B, broker_id=1)
    await broker.register(address=B, epoch=2)
    assert await members(peer) == {0: B}


async def test_a_deposed_master_can_neither_register_nor_unregister(peer: Peer, broker: Peer) -> None:
    await peer.register(address=A, epoch=3)
    await broker.register(address=B, epoch=4)
    answer = await peer.register(address=A, epoch=3, expect=REFUSED)
    assert answer.remark == f"epoch 3 is older: {B} became master of broker broker-a in epoch 4"
    await peer.register(address=A, broker_id=1)
    await peer.unregister(A, epoch=3)
    assert await members(peer) == {0: B, 1: A}


async def test_a_connection_that_a_deposed_master_loses_takes_nothing_away(peer: Peer, broker: Peer) -> None:
    await broker.register(address=A, epoch=1)
    await peer.register(address=B, epoch=2)
    await broker.remoting.close()
    assert await members(peer) == {0: B}


async def test_an_older_epoch_is_refused_even_when_the_newer_master_has_gone(peer: Peer, broker: Peer) -> None:
    await broker.register(address=B, epoch=5)
    await broker.unregister(B, epoch=5)
    assert await members(peer) == {}
    await peer.register(address=A, epoch=4, expect=REFUSED)
    await peer.register(address=A, epoch=6)
    assert await members(peer) == {0: A}


async def test_a_new_broker_may_take_the_name_of_one_that_has_gone(peer: Peer, broker: Peer) -> None:
    await broker.register(address=B, epoch=5, history="b")
    await peer.register(address=A, epoch=1, history="a", expect=REFUSED)
    await broker.unregister(B, epoch=5)
    await peer.register(address=C, epoch=4, history="b", expect=REFUSED)  # an old copy of that log
    await peer.register(address=A, epoch=1, history="a")
    assert await members(peer) == {0: A}


async def test_an_epoch_is_forgotten_ten_minutes_after_its_master_was_last_heard_of(
    peer: Peer, broker: Peer, clock: TestClock
) -> None:
    await broker.register(address=B, epoch=5)
    await broker.unregister(B, epoch=5)
    await clock.advance_async(minutes=9)
    await peer.register(address=A, epoch=1, expect=REFUSED)
    await clock.advance_async(minutes=2)
    await peer.register(address=A, epoch=1)  # a new broker on a new disk, say
    assert await members(peer) == {0: A}


async def test_a_broker_that_begins_again_at_its_address_is_taken(peer: Peer) -> None:
    await peer.register(address=A, epoch=9)
    await peer.register(address=A, epoch=1)
    assert await members(peer) == {0: A}
    await peer.register(address=A)
    assert await members(peer) == {0: A}


async def test_two_masters_of_one_epoch_do_not_take_turns(peer: Peer, broker: Peer) -> None:
    await peer.register(address=A, epoch=1)
    answer = await broker.register(address=B, epoch=1, expect=REFUSED)
    assert "epoch 1 is taken" in (answer.remark or "")
    assert await members(peer) == {0: A}


async def test_a_master_without_an_epoch_waits_until_the_one_that_has_one_is_gone(
    peer: Peer, broker: Peer, clock: TestClock
) -> None:
    await broker.register(address=B, epoch=2)
    answer = await peer.register(address=A, expect=REFUSED)
    assert B in (answer.remark or "")
    assert "epoch 2" in (answer.remark or "")
    await broker.remoting.close()
    await eventually(lambda: is_empty(peer))
    await peer.register(address=A)
    assert await members(peer) == {0: A}
    await peer.unregister(A)
    assert await members(peer) == {}


async def test_other_names_and_other_clusters_have_epochs_of_their_own(peer: Peer, broker: Peer) -> None:
    await peer.register(address=A, epoch=7)
    await broker.register(address=B, name="broker-b", epoch=1)
    await broker.register(address=C, cluster="C2", name="broker-c", epoch=1)
    route = await peer.route()
    assert route is not None
    assert len(route.broker_datas) == 3


async def test_a_refusal_is_logged_once(peer: Peer, broker: Peer, caplog: pytest.LogCaptureFixture) -> None:
    await broker.register(address=B, epoch=2)
    with caplog.at_level(logging.WARNING, "pyromq.namesrv"):
        for _ in range(3):
            await peer.register(address=A, epoch=1, expect=REFUSED)
    assert len([record for record in caplog.records if "master refused" in record.getMessage()]) == 1
