"""The table of requests: what is read from its rows."""

from __future__ import annotations

from typing import cast

import pytest

from pyromq.errors import BrokerError
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import RemotingCommand, request, response
from pyromq.protocol.rights import Right
from pyromq.remoting.connection import Connection
from pyromq.remoting.requests import MAX_BODY, Cost, RequestRow, RequestTable


class Reader:
    """Answers what is read."""

    def __init__(self, name: str) -> None:
        self.name = name

    def read(self, command: RemotingCommand, connection: Connection) -> RemotingCommand:
        return response(command, remark=self.name)


class Writer:
    """Answers what is written."""

    def write(self, command: RemotingCommand, connection: Connection) -> RemotingCommand:
        return response(command)


ROWS = (
    RequestRow(RequestCode.PULL_MESSAGE, None, Reader.read, Right.SUB, cost=Cost.PULL),
    RequestRow(RequestCode.SEND_MESSAGE, None, Writer.write, Right.PUB, writes=True, cost=Cost.SEND),
    RequestRow(RequestCode.TRIGGER_DELETE_FILES, None, None, Right.ADMIN, writes=True),
)


def test_handlers_are_the_methods_of_the_objects_that_are_there() -> None:
    handlers = RequestTable(ROWS).handlers(Reader("the one"))
    assert list(handlers) == [RequestCode.PULL_MESSAGE]
    answer = handlers[RequestCode.PULL_MESSAGE](request(RequestCode.PULL_MESSAGE), cast(Connection, None))
    assert isinstance(answer, RemotingCommand)
    assert answer.remark == "the one"


def test_a_code_that_nobody_answers_has_no_handler_and_a_row() -> None:
    table = RequestTable(ROWS)
    assert RequestCode.TRIGGER_DELETE_FILES not in table.handlers(Reader("r"), Writer())
    assert table.codes(lambda row: row.writes) == [RequestCode.SEND_MESSAGE, RequestCode.TRIGGER_DELETE_FILES]


def test_a_code_without_a_row_needs_admin() -> None:
    table = RequestTable(ROWS)
    assert table.get(4711) is None
    assert table.right_of(4711) is Right.ADMIN
    assert table.right_of(RequestCode.PULL_MESSAGE) is Right.SUB


def test_a_code_has_one_row() -> None:
    with pytest.raises(ValueError, match="request code 11 has two rows"):
        RequestTable([*ROWS, ROWS[0]])


def test_a_body_over_the_limit_of_its_row_is_refused_unread() -> None:
    small = RequestRow(RequestCode.HEART_BEAT, None, Reader.read, Right.MEMBERS, max_body=3)
    handlers = RequestTable([*ROWS, small]).handlers(Reader("the one"), Writer())
    ask = handlers[RequestCode.HEART_BEAT]
    answer = ask(request(RequestCode.HEART_BEAT, body=b"abc"), cast(Connection, None))
    assert isinstance(answer, RemotingCommand)
    with pytest.raises(BrokerError, match="request 34 has a body of 4 bytes, the limit is 3"):
        ask(request(RequestCode.HEART_BEAT, body=b"abcd"), cast(Connection, None))
    large = request(RequestCode.SEND_MESSAGE, body=bytes(MAX_BODY + 1))
    assert handlers[RequestCode.SEND_MESSAGE](large, cast(Connection, None))  # the store says what is too large
