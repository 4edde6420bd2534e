"""The table of requests: every code has a decision, and all of them are answered."""

from __future__ import annotations

from pyromq.namesrv.requests import REQUESTS
from pyromq.namesrv.server import NameServer
from pyromq.protocol.codes import ResponseCode
from pyromq.protocol.command import request
from pyromq.protocol.rights import Right
from tests.namesrv.conftest import Peer

DECIDED = {
    Right.ACCOUNT: {105},
    Right.ACCOUNT_OR_ADMIN: {101, 106, 206, 219, 224, 304, 311, 312, 313},
    Right.ADMIN: {100, 102, 103, 104, 205, 216, 318, 319, 322, 327, 30060},
}


def test_every_code_has_the_right_that_was_decided() -> None:
    rights = {code: right for right, codes in DECIDED.items() for code in codes}
    assert {row.code: row.right for row in REQUESTS} == rights


def test_what_writes_needs_admin() -> None:
    assert {row.right for row in REQUESTS if row.writes} == {Right.ADMIN}


async def test_every_row_is_answered(peer: Peer, server: NameServer) -> None:
    for row in REQUESTS:
        answer = await peer.remoting.request(server.address, request(row.code))
        assert answer.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED, row.code
