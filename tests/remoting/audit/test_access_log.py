"""The access log: who changed what, from where, and what became of it."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Generator, Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pyromq import Message, Producer
from pyromq.admin import AdminClient
from pyromq.broker.requests import REQUESTS as BROKER_REQUESTS
from pyromq.client.net.calls.admin_calls import AdminCalls
from pyromq.client.net.calls.maintenance_calls import MaintenanceCalls
from pyromq.client.net.calls.namesrv_calls import NamesrvCalls
from pyromq.errors import BrokerError, NoPermission
from pyromq.namesrv.requests import REQUESTS as NAMESRV_REQUESTS
from pyromq.protocol.acl import Credentials
from pyromq.protocol.bodies import SubscriptionGroupConfig
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import RemotingCommand, request, response
from pyromq.protocol.rights import Right
from pyromq.remoting.audit.access_log import LARGEST_BODY, LONGEST_VALUE, AccessLog
from pyromq.remoting.connection import Connection
from pyromq.remoting.requests import Handler, RequestRow, RequestTable
from pyromq.testing import LocalCluster

UPDATE = RequestCode.UPDATE_AND_CREATE_TOPIC
TABLE = RequestTable(
    [
        RequestRow(UPDATE, None, None, Right.ADMIN, writes=True, changes="topics"),
        RequestRow(RequestCode.PULL_MESSAGE, None, None, Right.SUB),
    ]
)
PEER = cast(Connection, SimpleNamespace(peer="10.0.0.7:40112", local="10.0.0.1:10911"))


RESULT = re.compile(r" result=(\w+)")


class NotYet(Exception):
    """Something is not in memory."""


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The lines of the access log so far."""
    caplog.set_level(logging.INFO, logger="pyromq.access")

    class Lines(list[str]):
        def __iter__(self) -> Iterator[str]:
            return iter([record.getMessage() for record in caplog.records if record.name == "pyromq.access"])

    return Lines()


def serve(handler: Handler, **fields: str) -> Any:
    log = AccessLog(TABLE, NotYet)
    return log.logged(UPDATE, handler)(request(UPDATE, fields), PEER)


def obey(command: RemotingCommand, connection: Connection) -> RemotingCommand:
    return response(command)


@pytest.mark.parametrize("body", [b'{"a": [%s]}', b"%s\n"])
def test_a_large_body_is_not_looked_at_for_the_loop_waits(lines: list[str], body: bytes) -> None:
    body %= b"1," * LARGEST_BODY
    AccessLog(TABLE).logged(UPDATE, obey)(request(UPDATE, {}, body), PEER)
    (line,) = lines
    assert line.endswith(f'body="({len(body)} bytes)"')


def test_a_body_that_is_nested_deeply_is_not_shown(lines: list[str]) -> None:
    body = b'{"a":' * 3000
    AccessLog(TABLE).logged(UPDATE, obey)(request(UPDATE, {}, body), PEER)
    (line,) = lines
    assert line.endswith(f'body="({len(body)} bytes)"')


def test_texts_of_strangers_are_cut(lines: list[str]) -> None:
    serve(obey, **{"AccessKey": "a" * 60_000, "k" * 60_000: "v"})
    (line,) = lines
    assert len(line) < 4 * LONGEST_VALUE


def test_a_change_names_who_from_where_what_and_the_result(lines: list[str]) -> None:
    serve(obey, topic="orders", perm="6", AccessKey="shop", Signature="abc=")
    assert list(lines) == [
        "change subject=topics request=UPDATE_AND_CREATE_TOPIC result=SUCCESS account=shop from=10.0.0.7:40112"
        " at=10.0.0.1:10911 topic=orders perm=6"
    ]


def test_a_refused_change_is_a_warning_with_the_reason(lines: list[str], caplog: pytest.LogCaptureFixture) -> None:
    def refuse(command: RemotingCommand, connection: Connection) -> RemotingCommand:
        raise NoPermission("not for you")

    with pytest.raises(NoPermission):
        serve(refuse, topic="orders")
    assert list(lines) == [
        "change refused subject=topics request=UPDATE_AND_CREATE_TOPIC result=NO_PERMISSION account=-"
        ' from=10.0.0.7:40112 at=10.0.0.1:10911 reason="not for you" topic=orders'
    ]
    assert caplog.records[-1].levelno == logging.WARNING


def test_the_answer_of_a_coroutine_and_of_a_generator_is_logged_once_it_is_there(lines: list[str]) -> None:
    async def later(command: RemotingCommand, connection: Connection) -> RemotingCommand:
        await asyncio.sleep(0)
        raise BrokerError("the disk is full")

    def steps(command: RemotingCommand, connection: Connection) -> Generator[None, None, RemotingCommand]:
        yield
        return response(command)

    work = serve(later)
    generator = serve(steps)
    assert list(lines) == []
    with pytest.raises(BrokerError):
        asyncio.run(work)
    assert list(generator) == [None]
    assert [RESULT.findall(line) for line in lines] == [["SYSTEM_ERROR"], ["SUCCESS"]]


def test_a_request_that_is_given_up_says_that_its_end_is_unknown(lines: list[str]) -> None:
    async def never(command: RemotingCommand, connection: Connection) -> RemotingCommand:
        await asyncio.Event().wait()
        return response(command)

    async def give_up() -> None:
        task = asyncio.ensure_future(serve(never))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(give_up())
    assert [RESULT.findall(line) for line in lines] == [["UNFINISHED"]]


def test_a_handler_that_runs_again_and_one_that_is_held_are_logged_when_they_answer(lines: list[str]) -> None:
    def missing(command: RemotingCommand, connection: Connection) -> RemotingCommand:
        raise NotYet

    with pytest.raises(NotYet):
        serve(missing)
    serve(lambda command, connection: None)
    assert list(lines) == []


def test_no_value_can_be_taken_for_another_field(lines: list[str]) -> None:
    serve(obey, topic="x result=FORGED\naccount=root", long="y" * 1000)
    (line,) = lines
    assert r'topic="x result=FORGED\naccount=root"' in line
    assert "\n" not in line
    assert len(line) < LONGEST_VALUE + 400


def test_secrets_are_not_logged(lines: list[str]) -> None:
    log = AccessLog(TABLE)
    handler = log.logged(UPDATE, obey)
    handler(request(UPDATE, {"value": "hunter2"}, b"haSecret=hunter2\ndeleteWhen=04\n"), PEER)
    handler(request(UPDATE, {"SecurityToken": "hunter2"}, b'{"groupName":"g","password":"hunter2"}'), PEER)
    assert "hunter2" not in "".join(lines)
    assert "deleteWhen=04" in "".join(lines)
    assert "groupName=g" in "".join(lines)


def test_what_changes_nothing_is_not_wrapped() -> None:
    assert AccessLog(TABLE).logged(RequestCode.PULL_MESSAGE, obey) is obey


NOT_CHANGES = {
    RequestCode.TRIGGER_DELETE_FILES,  # is not answered
    RequestCode.REGISTER_BROKER,  # every 30 s of every broker; the name server logs who comes and goes
}


@pytest.mark.parametrize("table", [BROKER_REQUESTS, NAMESRV_REQUESTS])
def test_every_request_of_administrators_that_writes_says_what_it_changes(table: RequestTable) -> None:
    silent = [row.code for row in table if row.writes and row.right is Right.ADMIN and not row.changes]
    assert set(silent) <= NOT_CHANGES


async def test_changes_at_brokers_and_name_servers_are_logged(cluster: LocalCluster, lines: list[str]) -> None:
    account = Credentials("operator", "secret key")
    async with AdminClient(cluster.namesrv, credentials=account) as admin:
        calls, address = AdminCalls(admin.api.remoting), cluster.brokers[0].address
        await admin.topics.create("orders", read_queues=2, write_queues=2)
        await calls.update_group(address, SubscriptionGroupConfig(group_name="billing"))
        await admin.groups.delete("billing")
        await admin.topics.delete("orders")
        with pytest.raises(NoPermission):
            await MaintenanceCalls(admin.api.remoting).change_settings(address, {"storePathRootDir": "/tmp"})
        await NamesrvCalls(admin.api).put_kv("space", "key", "value")
        await NamesrvCalls(admin.api).delete_kv("space", "key")
    for changes, name, result in (
        ("topics", "UPDATE_AND_CREATE_TOPIC", "SUCCESS"),
        ("groups", "UPDATE_AND_CREATE_SUBSCRIPTIONGROUP", "SUCCESS"),
        ("groups", "DELETE_SUBSCRIPTIONGROUP", "SUCCESS"),
        ("topics", "DELETE_TOPIC_IN_BROKER", "SUCCESS"),
        ("routes", "DELETE_TOPIC_IN_NAMESRV", "SUCCESS"),
        ("configuration", "UPDATE_BROKER_CONFIG", "NO_PERMISSION"),
        ("kv", "PUT_KV_CONFIG", "SUCCESS"),
        ("kv", "DELETE_KV_CONFIG", "SUCCESS"),
    ):
        assert f"subject={changes} request={name} result={result} account=operator" in "".join(lines)
    assert all(" account=operator from=127.0.0.1:" in line for line in lines)
    assert "groupName=billing" in "".join(lines)


async def test_a_reset_by_an_operator_is_logged_and_a_commit_is_not(cluster: LocalCluster, lines: list[str]) -> None:
    async with AdminClient(cluster.namesrv) as admin, Producer("shop", cluster.namesrv) as producer:
        await admin.topics.create("orders", read_queues=1, write_queues=1)
        for _ in range(4):
            await producer.send(Message(topic="orders", body=b"x"))
        address = cluster.brokers[0].address
        await AdminCalls(admin.api.remoting).update_group(address, SubscriptionGroupConfig(group_name="billing"))
        await admin.api.commit_offset(address, "billing", "orders", 0, 1)
        before = len(list(lines))
        await admin.groups.reset(await admin.groups.plan_reset("billing", "latest", ["orders"]))
    resets = list(lines)[before:]
    assert resets
    assert all("change subject=offsets request=UPDATE_CONSUMER_OFFSET result=SUCCESS" in line for line in resets)
    assert " commitOffset=4" in "".join(resets)


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster() as running:
        yield running
