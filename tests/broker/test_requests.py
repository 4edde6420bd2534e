"""The table of requests: every code has a decision, and what is answered, refused and left out is read from it."""

from __future__ import annotations

from pyromq.broker.requests import REQUESTS
from pyromq.broker.server import Broker
from pyromq.clock import Clock
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import request
from pyromq.protocol.rights import Right
from pyromq.remoting.client import RemotingClient
from pyromq.remoting.requests import Cost

ANSWERED = REQUESTS.codes(lambda row: row.handler is not None)
PULLS = REQUESTS.codes(lambda row: row.cost is Cost.PULL)

DECIDED = {
    Right.PUB: {10, 310, 320},
    Right.PUB_OF_TIMED_MESSAGE: {370},
    Right.PUB_OF_HALF_MESSAGE: {37},
    Right.REPLY: {324, 325},
    Right.SUB: {11, 14, 15, 38, 30020},
    Right.SUB_OF_BODY: {41, 42, 46},
    Right.MEMBERS: {34, 35},
    Right.SUB_TOPIC: {12},
    Right.SUB_OF_MESSAGE: {33},
    Right.SEND_BACK: {36},
    Right.PUB_OR_SUB: {29, 30, 31, 32},
    Right.PUB_OR_SUB_OR_ADMIN: {202, 203, 204, 208, 300, 303, 321},
    Right.ACCOUNT_OR_ADMIN: {305},
}
"""What the table must say about accounts; all other codes need admin."""


async def ask(address: str, codes: list[int], clock: Clock) -> dict[int, int]:
    """Ask with nothing but the code; return the codes of the answers."""
    async with RemotingClient(clock) as remoting:
        return {code: (await remoting.request(address, request(code), 30.0)).code for code in codes}


def test_every_code_has_the_right_that_was_decided() -> None:
    rights = {code: right for right, codes in DECIDED.items() for code in codes}
    assert {row.code: row.right for row in REQUESTS} == {
        row.code: rights.get(row.code, Right.ADMIN) for row in REQUESTS
    }
    assert rights.keys() <= {row.code for row in REQUESTS}


def test_a_code_that_the_table_does_not_know_needs_admin() -> None:
    unknown = [code for code in RequestCode if REQUESTS.get(code) is None]
    assert RequestCode.GET_ROUTEINFO_BY_TOPIC in unknown
    assert {REQUESTS.right_of(code) for code in [*unknown, 4711]} == {Right.ADMIN}


async def test_a_master_answers_every_row_that_has_a_handler(broker: Broker, clock: Clock) -> None:
    answers = await ask(broker.address, [*ANSWERED, 4711], clock)
    assert [code for code, answer in answers.items() if answer == ResponseCode.REQUEST_CODE_NOT_SUPPORTED] == [4711]


async def test_the_fast_port_answers_everything_but_pulls(broker: Broker, clock: Clock) -> None:
    answers = await ask(f"127.0.0.1:{broker.fast_port}", ANSWERED, clock)
    assert [code for code, answer in answers.items() if answer == ResponseCode.REQUEST_CODE_NOT_SUPPORTED] == PULLS


def test_whatever_costs_a_send_writes() -> None:
    assert all(row.writes for row in REQUESTS if row.cost is Cost.SEND)
