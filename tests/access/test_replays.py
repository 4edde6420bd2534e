"""Requests that are sent again: known where the client says when, for what and in which order it signed them."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyromq import Message, blocking
from pyromq.access.access_control import AccessControl, AccessRules
from pyromq.access.replays import MOST_CONNECTIONS, Replays
from pyromq.broker.requests import REQUESTS
from pyromq.errors import AccessDenied, ConfigError, UnknownCaller
from pyromq.protocol.acl import CODE, NONCE, TIME, signed
from pyromq.protocol.codes import RequestCode as Code
from pyromq.protocol.command import RemotingCommand, request
from pyromq.testing import LocalCluster, TestClock
from tests.access.accounts_text import ADMIN, write_accounts
from tests.access.test_access_control import FakeConnection


@pytest.fixture
def clock() -> TestClock:
    return TestClock()


@pytest.fixture
def access(tmp_path: Path, clock: TestClock) -> AccessControl:
    write_accounts(tmp_path)
    made = AccessControl(AccessRules(home=tmp_path), REQUESTS, clock)
    made.accounts.load()
    return made


def admit(access: AccessControl, command: RemotingCommand) -> None:
    access.admit(command, FakeConnection())  # type: ignore[arg-type]


def deletion(clock: TestClock, nonce: str, code: int = Code.DELETE_TOPIC_IN_BROKER) -> RemotingCommand:
    return signed(request(code, {"topic": "orders"}), ADMIN, nonce, clock.now_ms())


def test_a_captured_request_cannot_be_sent_again(access: AccessControl, clock: TestClock) -> None:
    first, second = deletion(clock, "a.1"), deletion(clock, "a.2")
    admit(access, first)
    admit(access, second)
    admit(access, deletion(clock, "b.1"))
    for command in (first, second):
        with pytest.raises(UnknownCaller, match="sent before"):
            admit(access, command)


def test_nor_under_another_code(access: AccessControl, clock: TestClock) -> None:
    command = deletion(clock, "a.1", Code.GET_TOPIC_STATS_INFO)
    command.code = Code.DELETE_TOPIC_IN_BROKER
    with pytest.raises(UnknownCaller, match="signed for another code"):
        admit(access, command)


def test_nor_later(access: AccessControl, clock: TestClock) -> None:
    early = deletion(clock, "a.1")
    clock.advance(seconds=301)
    with pytest.raises(UnknownCaller, match="signed 301 s ago"):
        admit(access, early)


@pytest.mark.parametrize("wrong", [{TIME: "now"}, {NONCE: "a"}, {NONCE: "a.b"}, {NONCE: f"{'a' * 65}.1"}])
def test_nonsense_is_refused(access: AccessControl, clock: TestClock, wrong: dict[str, str]) -> None:
    fields = {CODE: "215", TIME: str(clock.now_ms()), NONCE: "a.1", "topic": "orders"} | wrong
    with pytest.raises(UnknownCaller):
        admit(access, signed(request(Code.DELETE_TOPIC_IN_BROKER, fields), ADMIN))


def test_requests_of_other_clients_have_none_of_this(access: AccessControl) -> None:
    command = signed(request(Code.DELETE_TOPIC_IN_BROKER, {"topic": "orders"}), ADMIN)
    admit(access, command)
    admit(access, command)


def test_what_is_remembered_is_bounded(clock: TestClock) -> None:
    replays = Replays(clock)
    for number in range(MOST_CONNECTIONS + 10):
        replays.check({CODE: "10", TIME: str(clock.now_ms()), NONCE: f"{number}.1"}, 10)
    assert len(replays.last) == MOST_CONNECTIONS


def test_our_clients_are_served_on_their_quick_ways_too(tmp_path: Path) -> None:
    write_accounts(tmp_path)
    with LocalCluster(data=tmp_path, settings={"aclEnable": True}) as cluster:
        with blocking.Producer("shop", cluster.namesrv, credentials=ADMIN, clock=cluster.clock) as shop:
            for _ in range(50):
                shop.send(Message(topic="mine", body=b"one"))
            shop.send_batch([Message(topic="mine", body=b"two")] * 3)
        server = cluster.brokers[0].server
        assert server is not None
        control = server._ports._control
        assert control is not None
        assert max(control._replays.last.values()) > 50


def test_plain_connections_are_refused_where_tls_is_required(tmp_path: Path) -> None:
    write_accounts(tmp_path)
    settings = {"aclEnable": True, "pyromqAclRequireTls": True}
    with pytest.raises(ConfigError, match="needs TLS"), LocalCluster(data=tmp_path, settings=settings):
        pass
    settings |= {"tls.test.mode.enable": True}
    with (
        LocalCluster(data=tmp_path, settings=settings) as cluster,
        blocking.Producer("shop", cluster.namesrv, credentials=ADMIN, clock=cluster.clock) as shop,
        pytest.raises(AccessDenied, match="need TLS"),
    ):
        shop.send(Message(topic="mine", body=b"one"))
