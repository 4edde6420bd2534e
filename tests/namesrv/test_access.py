"""A name server with access control: every code × every kind of caller, generated from the table."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pyromq.errors import ConfigError
from pyromq.namesrv.config import NameServerConfig
from pyromq.namesrv.requests import REQUESTS
from pyromq.namesrv.server import NameServer
from pyromq.protocol.acl import Credentials, signed
from pyromq.protocol.codes import RequestCode, ResponseCode
from pyromq.protocol.command import RemotingCommand, decode, request
from pyromq.protocol.rights import Right
from pyromq.remoting.client import RemotingClient
from pyromq.testing import TestClock, eventually
from tests.access.accounts_text import ACCOUNTS, ADMIN, FORGED, NOBODY, UNKNOWN, write_accounts

CONFIG = NameServerConfig(acl_enabled=True)


@pytest.fixture
def clock() -> TestClock:
    return TestClock()


@pytest.fixture
async def guarded(tmp_path: Path, clock: TestClock) -> AsyncIterator[NameServer]:
    write_accounts(tmp_path)
    server = NameServer(host="127.0.0.1", port=0, clock=clock, data_dir=tmp_path, config=CONFIG)
    assert server._control is not None
    server._control.refusals.free_failures = 1_000_000
    async with server:
        yield server


@pytest.fixture
async def remoting() -> AsyncIterator[RemotingClient]:
    async with RemotingClient(TestClock()) as client:
        yield client


def is_refused(answer: RemotingCommand) -> bool:
    return answer.code == ResponseCode.SYSTEM_ERROR and (answer.remark or "").startswith("access denied")


@pytest.mark.parametrize("code", [*(row.code for row in REQUESTS), 4711])
async def test_each_code_is_refused_to_each_wrong_caller(
    guarded: NameServer, remoting: RemotingClient, code: int
) -> None:
    async def ask(account: Credentials | None, **added: str) -> bool:
        command = request(code, {"topic": "t"}) if account is None else signed(request(code, {"topic": "t"}), account)
        command.ext = command.ext_fields | added
        return is_refused(await remoting.request(guarded.address, command, 30.0))

    assert await ask(None)
    assert await ask(FORGED)
    assert await ask(UNKNOWN)
    assert await ask(ADMIN, added="later")
    assert await ask(NOBODY) == (REQUESTS.right_of(code) not in (Right.ACCOUNT, Right.ACCOUNT_OR_ADMIN))
    if code in guarded._server.handlers:  # to others it gives no answer, as Apache's
        assert not await ask(ADMIN)


async def test_a_one_way_request_is_checked_alike(guarded: NameServer, remoting: RemotingClient) -> None:
    async def value(key: str) -> str | None:
        command = signed(request(RequestCode.GET_KV_CONFIG, {"namespace": "n", "key": key}), ADMIN)
        return (await remoting.request(guarded.address, command, 30.0)).ext_fields.get("value")

    for account in (NOBODY, FORGED, ADMIN):
        fields = {"namespace": "n", "key": account.access_key, "value": "x"}
        await remoting.oneway(guarded.address, signed(request(RequestCode.PUT_KV_CONFIG, fields), account))
    await eventually(lambda: value(ADMIN.access_key), "the good one counts")
    assert [await value(account.access_key) for account in (NOBODY, FORGED)] == [None, None]


async def test_a_removed_account_is_out_at_once(
    guarded: NameServer, clock: TestClock, remoting: RemotingClient, tmp_path: Path
) -> None:
    await remoting.request(guarded.address, signed(request(RequestCode.GET_BROKER_CLUSTER_INFO), NOBODY), 30.0)
    (connection,) = guarded.connections
    write_accounts(tmp_path, ACCOUNTS.replace(NOBODY.access_key, "test-another"))
    await clock.advance_async(seconds=5)
    await eventually(lambda: connection.closed, "the connection is closed")
    command = signed(request(RequestCode.GET_BROKER_CLUSTER_INFO), NOBODY)
    assert is_refused(await remoting.request(guarded.address, command, 30.0))


async def test_a_refusal_has_apaches_words_on_the_wire(guarded: NameServer) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", guarded.port)
    writer.write(request(105, {"topic": "t"}).encode())
    (length,) = struct.unpack(">i", await reader.readexactly(4))
    answer = decode(await reader.readexactly(length))
    assert (answer.code, answer.remark) == (
        ResponseCode.SYSTEM_ERROR,
        "org.apache.rocketmq.acl.common.AclException: No accessKey is configured",
    )
    writer.close()


def test_a_guarded_name_server_needs_a_directory() -> None:
    with pytest.raises(ConfigError, match="--data or rocketmqHome"):
        NameServer(host="127.0.0.1", port=0, clock=TestClock(), data_dir=None, config=CONFIG)


async def test_apaches_rules_leave_the_name_server_open(tmp_path: Path, remoting: RemotingClient) -> None:
    config = NameServerConfig(acl_enabled=True, acl_compatible=True)
    async with NameServer(host="127.0.0.1", port=0, clock=TestClock(), data_dir=tmp_path, config=config) as server:
        assert (await remoting.request(server.address, request(106))).code == ResponseCode.SUCCESS
