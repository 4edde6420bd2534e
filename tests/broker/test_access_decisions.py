"""Every code × every kind of caller, at both ports, generated from the table of requests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pyromq.broker.requests import REQUESTS
from pyromq.broker.server import Broker
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.rights import Right
from pyromq.remoting.requests import RequestRow
from pyromq.testing import TestClock
from tests.access.accounts_text import ADMIN, FORGED, NOBODY, SHOP, UNKNOWN, write_accounts
from tests.broker.conftest import StartBroker
from tests.broker.guarded_peer import GuardedPeer, Stored, is_refused, unsigned, well_formed

ROWS = list(REQUESTS)
NEEDS_ACCOUNT_ONLY = {Right.ACCOUNT, Right.ACCOUNT_OR_ADMIN}


@pytest.fixture
async def guarded(start_broker: StartBroker, tmp_path: Path) -> Broker:
    write_accounts(tmp_path)
    broker = await start_broker(aclEnable="true")
    assert broker._ports._control is not None
    broker._ports._control.refusals.free_failures = 1_000_000
    return broker


@pytest.fixture(params=["port", "fast_port"])
async def peer(request: pytest.FixtureRequest, guarded: Broker, clock: TestClock) -> AsyncIterator[GuardedPeer]:
    one = GuardedPeer(guarded, clock, getattr(guarded, request.param))
    yield one
    await one.remoting.close()


def test_every_row_that_is_answered_has_a_decision() -> None:
    assert all(isinstance(row.right, Right) for row in ROWS)
    by_handler = {Right.PUB_OF_HALF_MESSAGE, Right.PUB_OF_TIMED_MESSAGE, Right.SUB_OF_MESSAGE, Right.SUB_OF_BODY}
    by_handler |= {Right.SEND_BACK, Right.MEMBERS, Right.REPLY}
    named = [row for row in ROWS if row.right not in by_handler | NEEDS_ACCOUNT_ONLY | {Right.ADMIN}]
    assert [row.code for row in named if row.header is None] == []  # their topic or group could not be found


async def test_each_code_is_refused_to_each_wrong_caller_and_done_for_each_right_one(peer: GuardedPeer) -> None:
    stored = await Stored.make(peer)
    for row in ROWS:
        await check_row(row, peer, stored)


async def check_row(row: RequestRow, peer: GuardedPeer, stored: Stored) -> None:
    is_admin = row.right is Right.ADMIN or row.code == RequestCode.GET_PRODUCER_CONNECTION_LIST  # it names no topic
    header, body = (None, b"") if is_admin else well_formed(row, stored)
    wrong = {
        "unsigned, from a white-listed address": await peer.ask(None, row.code, header, body),
        "named, from a white-listed address": await peer.ask(None, row.code, header, body, **unsigned(ADMIN)),
        "wrong secret": await peer.ask(FORGED, row.code, header, body),
        "unknown account": await peer.ask(UNKNOWN, row.code, header, body),
        "altered": await peer.ask(ADMIN, row.code, header, body, added="later"),
    }
    if row.right not in NEEDS_ACCOUNT_ONLY:
        wrong["no right"] = await peer.ask(NOBODY, row.code, header, body)
    if is_admin:
        wrong["no administrator"] = await peer.ask(SHOP, row.code, header, body)
    assert [f"{row.code} {who}" for who, answer in wrong.items() if not is_refused(answer)] == []
    right = {"admin": await peer.ask(ADMIN, row.code, header, body)}
    if not is_admin:
        right["right"] = await peer.ask(SHOP, row.code, header, body)
    assert [f"{row.code} {who}: {answer.remark}" for who, answer in right.items() if is_refused(answer)] == []


@pytest.mark.parametrize("code", [4711, RequestCode.GET_ROUTEINFO_BY_TOPIC, 0, -1])
async def test_a_code_without_a_row_needs_an_administrator(peer: GuardedPeer, code: int) -> None:
    assert await peer.refusal(SHOP, code) == "account 'test-shop' is no administrator, and this request needs one"
    assert not is_refused(await peer.ask(ADMIN, code))
