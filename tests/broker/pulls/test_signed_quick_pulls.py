"""Signed pulls that are answered without decoding them: access control decides about them as about all others."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from pyromq.broker.pulls.quick_pulls import QuickPulls
from pyromq.broker.server import Broker
from pyromq.errors import ConnectionLost
from pyromq.protocol.acl import NONCE, Credentials, signed
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import RemotingCommand, request
from pyromq.remoting.connection import Frames
from pyromq.remoting.dispatch import QuickAnswer
from pyromq.testing import TestClock
from tests.access.accounts_text import ACCOUNTS, ADMIN, FORGED, MINE, MY_GROUP, NOBODY, SHOP, write_accounts
from tests.broker.conftest import StartBroker
from tests.broker.guarded_peer import GuardedPeer, is_refused
from tests.broker.helpers import pull_header

PULL = RequestCode.PULL_MESSAGE


@pytest.fixture(name="quick", autouse=True)
def count_answers(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count the pulls that were answered quickly."""
    answered: list[int] = []
    answer = QuickPulls.answer

    def noted(self: QuickPulls, frames: Frames, *others: Any) -> QuickAnswer:
        found = answer(self, frames, *others)
        answered.extend([1] * found[0])
        return found

    monkeypatch.setattr(QuickPulls, "answer", noted)
    return answered


@pytest.fixture
async def guarded(start_broker: StartBroker, tmp_path: Path) -> Broker:
    write_accounts(tmp_path)
    return await start_broker(aclEnable="true")


@pytest.fixture
async def peer(guarded: Broker, clock: TestClock, quick: list[int]) -> AsyncIterator[GuardedPeer]:
    """A peer that has pulled often enough to be answered quickly."""
    one = GuardedPeer(guarded, clock)
    for _ in range(4):
        await one.send(MINE)
        await one.send("other")
    while not quick:
        await one.done(SHOP, PULL, header())
    quick.clear()
    yield one
    await one.remoting.close()


def header(offset: int = 1, topic: str = MINE, group: str = MY_GROUP) -> Any:
    return pull_header(topic, consumer_group=group, queue_offset=offset)


async def reload_accounts(broker: Broker, peer: GuardedPeer) -> None:
    """Have a broker read its accounts again; it closes the connections of those that have changed."""
    accounts = broker._ports.accounts
    assert accounts is not None
    accounts.reload()
    with suppress(ConnectionLost):
        await peer.ask(NOBODY, PULL, header())


async def test_answers_are_those_of_other_pulls(peer: GuardedPeer, quick: list[int]) -> None:
    found = [await peer.done(SHOP, PULL, header(offset)) for offset in range(3)]
    assert len(quick) == 3
    others = [pull_header(MINE, consumer_group=MY_GROUP, queue_offset=at, suspend_timeout_millis=at) for at in range(3)]
    plainly = [await peer.done(SHOP, PULL, other) for other in others]
    assert len(quick) == 3, "the first pull of a shape is decoded"
    assert [(one.ext_fields, one.body) for one in found] == [(one.ext_fields, one.body) for one in plainly]


async def test_nobody_else_is_answered(peer: GuardedPeer, quick: list[int]) -> None:
    assert "Check signature failed" in await peer.refusal(FORGED, PULL, header())
    assert "no SUB right" in await peer.refusal(NOBODY, PULL, header())
    assert "No accessKey" in await peer.refusal(None, PULL, header())
    assert "Check signature failed" in await peer.refusal(SHOP, PULL, header(), queueOffset="2")
    assert "Check signature failed" in await peer.refusal(SHOP, PULL, header(), commitOffset="2")
    assert "topic 'other'" in await peer.refusal(SHOP, PULL, header(topic="other"))
    assert "group 'g'" in await peer.refusal(SHOP, PULL, header(group="g"))
    assert quick == []
    await peer.done(SHOP, PULL, header())


async def test_a_shape_that_another_account_has_made_known_opens_nothing(peer: GuardedPeer, quick: list[int]) -> None:
    for _ in range(4):
        await peer.done(ADMIN, PULL, header(topic="other"))
    assert quick
    quick.clear()
    for _ in range(4):
        assert "topic 'other'" in await peer.refusal(SHOP, PULL, header(topic="other"))
    assert quick == []


async def test_accounts_take_turns_on_one_connection(peer: GuardedPeer, quick: list[int]) -> None:
    for _ in range(6):
        for account in (ADMIN, SHOP):
            await peer.done(account, PULL, header())
        await peer.refusal(NOBODY, PULL, header())


async def test_a_pull_that_is_sent_again_is_refused(peer: GuardedPeer, quick: list[int]) -> None:
    async def ask(nonce: str, account: Credentials = SHOP) -> RemotingCommand:
        command = signed(request(PULL, header()), account, nonce, peer.clock.now_ms())
        return await peer.remoting.request(peer.address, command, 30.0)

    for number in range(1, 6):
        assert (await ask(f"abc.{number}")).code == ResponseCode.SUCCESS
    assert len(quick) >= 3
    quick.clear()
    for nonce in ("abc.5", "abc.1"):
        answer = await ask(nonce)
        assert is_refused(answer)
        assert "sent before" in (answer.remark or "")
    assert quick == []
    assert (await ask("abc.6")).code == ResponseCode.SUCCESS
    assert quick == [1]
    altered = signed(request(PULL, header()), SHOP, "abc.7", peer.clock.now_ms())
    altered.ext = altered.ext_fields | {NONCE: "abc.8"}
    assert is_refused(await peer.remoting.request(peer.address, altered, 30.0))


async def test_an_account_that_loses_its_right_is_refused_at_once(
    peer: GuardedPeer, quick: list[int], guarded: Broker, tmp_path: Path
) -> None:
    await peer.done(SHOP, PULL, header())
    assert quick == [1]
    write_accounts(tmp_path, ACCOUNTS.replace(f"{MINE}=PUB|SUB", f"{MINE}=PUB"))
    await reload_accounts(guarded, peer)
    quick.clear()

    await peer.refusal(SHOP, PULL, header())
    assert quick == []


async def test_a_secret_that_changes_counts_at_once(
    peer: GuardedPeer, quick: list[int], guarded: Broker, tmp_path: Path
) -> None:
    write_accounts(tmp_path, ACCOUNTS.replace(SHOP.secret_key, "a-new-and-long-secret"))
    await reload_accounts(guarded, peer)
    renewed = Credentials(SHOP.access_key, "a-new-and-long-secret")
    assert "Check signature failed" in await peer.refusal(SHOP, PULL, header())
    assert quick == []
    for _ in range(4):
        await peer.done(renewed, PULL, header())
    assert quick
    quick.clear()
    assert "Check signature failed" in await peer.refusal(SHOP, PULL, header())
    assert quick == []
