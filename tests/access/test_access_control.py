"""Access control with other rules: white lists that are trusted, and RocketMQ 4.9 to the letter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyromq.access.access_control import AccessControl, AccessRules
from pyromq.access.account import SUB
from pyromq.broker.requests import REQUESTS
from pyromq.errors import AccessRefused, UnknownCaller
from pyromq.protocol.acl import ACCESS_KEY, Credentials, signed
from pyromq.protocol.codes import RequestCode as Code
from pyromq.protocol.command import RemotingCommand, request
from pyromq.testing.clock import TestClock
from tests.access.accounts_text import ADMIN, FORGED, NOBODY, SHOP, write_accounts

MORE = """\
globalWhiteRemoteAddresses: [ "10.0.0.1" ]
accounts:
  - {accessKey: test-admin, secretKey: "the-admin's-long-secret", admin: true}
  - {accessKey: test-shop, secretKey: "the-shop's-long-sécret", topicPerms: [mine=PUB|SUB], groupPerms: [g=SUB]}
  - {accessKey: test-nobody, secretKey: "the-nobody's-long-secret", whiteRemoteAddress: 10.0.0.2}
  - {accessKey: test-limited, secretKey: "the-limited-long-secret", admin: true, topicPerms: [mine=PUB]}
"""
LIMITED = Credentials("test-limited", "the-limited-long-secret")


class FakeConnection:
    """As much of a connection as access control looks at."""

    def __init__(self, host: str = "10.9.9.9") -> None:
        self.peer = f"{host}:40000"
        self.attributes: dict[str, object] = {}
        self.closed = False
        self.is_encrypted = False
        self.on_close: list[object] = []


def control(home: Path, **rules: Any) -> AccessControl:
    write_accounts(home, MORE)
    made = AccessControl(AccessRules(home=home, **rules), REQUESTS, TestClock())
    made.accounts.load()
    return made


def by(account: Credentials, code: int, **fields: str) -> RemotingCommand:
    return signed(request(code, fields), account)


def admitted(access: AccessControl, command: RemotingCommand, host: str = "10.9.9.9") -> bool:
    try:
        access.admit(command, FakeConnection(host))  # type: ignore[arg-type]
    except AccessRefused:
        return False
    return True


def test_a_trusted_white_list_replaces_signatures(tmp_path: Path) -> None:
    access = control(tmp_path, trusts_white_list=True)
    unsigned = request(Code.UPDATE_BROKER_CONFIG, {})
    assert admitted(access, unsigned, "10.0.0.1")
    assert not admitted(access, unsigned, "10.0.0.2")


def test_the_white_list_of_an_account_replaces_its_signature_but_not_its_rights(tmp_path: Path) -> None:
    access = control(tmp_path, trusts_white_list=True)
    named = {ACCESS_KEY: NOBODY.access_key}
    assert admitted(access, request(Code.HEART_BEAT, named), "10.0.0.2")
    assert not admitted(access, request(Code.HEART_BEAT, named), "10.0.0.3")
    assert not admitted(access, request(Code.UPDATE_BROKER_CONFIG, named), "10.0.0.2")


def test_a_white_list_means_nothing_by_default(tmp_path: Path) -> None:
    access = control(tmp_path)
    for host in ("10.0.0.1", "10.0.0.2"):
        with pytest.raises(UnknownCaller):
            access.admit(request(Code.HEART_BEAT, {ACCESS_KEY: NOBODY.access_key}), FakeConnection(host))  # type: ignore[arg-type]


def test_apaches_rules_leave_most_codes_to_every_account(tmp_path: Path) -> None:
    access = control(tmp_path, is_compatible=True)
    open_codes = [Code.SEND_BATCH_MESSAGE, Code.GET_BROKER_CONFIG, Code.VIEW_MESSAGE_BY_ID, Code.GET_MAX_OFFSET]
    assert all(admitted(access, by(NOBODY, code, topic="other")) for code in open_codes)
    assert not admitted(access, by(FORGED, Code.GET_BROKER_CONFIG))
    needs_admin = [Code.UPDATE_AND_CREATE_TOPIC, Code.UPDATE_BROKER_CONFIG, Code.DELETE_SUBSCRIPTIONGROUP]
    for code in (*needs_admin, Code.UPDATE_AND_CREATE_ACL_CONFIG):  # the last one is not Apache's rule
        assert not admitted(access, by(NOBODY, code))
        assert admitted(access, by(ADMIN, code))
    assert admitted(access, request(Code.UPDATE_BROKER_CONFIG, {}), "10.0.0.1")


def test_apaches_rules_about_topics_and_groups(tmp_path: Path) -> None:
    access = control(tmp_path, is_compatible=True)
    assert admitted(access, by(SHOP, Code.SEND_MESSAGE_V2, b="mine"))
    assert not admitted(access, by(SHOP, Code.SEND_MESSAGE_V2, b="other"))
    assert admitted(access, by(SHOP, Code.SEND_MESSAGE_V2, a="g", b="%RETRY%any"))  # the group that the request names
    assert admitted(access, by(SHOP, Code.PULL_MESSAGE, topic="mine", consumerGroup="g"))
    assert not admitted(access, by(SHOP, Code.PULL_MESSAGE, topic="mine", consumerGroup="h"))
    assert not admitted(access, by(SHOP, Code.CONSUMER_SEND_MSG_BACK, group="h", originTopic="mine"))
    connection = FakeConnection()
    access.need(by(SHOP, Code.VIEW_MESSAGE_BY_ID), connection, SUB, "other")  # type: ignore[arg-type]
    with pytest.raises(AccessRefused):
        access.need(by(SHOP, Code.HEART_BEAT), connection, SUB, "other")  # type: ignore[arg-type]


def test_an_administrator_with_entries_is_limited_only_by_apaches_rules(tmp_path: Path) -> None:
    send = by(LIMITED, Code.SEND_MESSAGE_V2, b="other")
    assert admitted(control(tmp_path / "ours"), send)
    assert not admitted(control(tmp_path / "apaches", is_compatible=True), send)
    assert admitted(control(tmp_path / "apaches", is_compatible=True), by(LIMITED, Code.UPDATE_BROKER_CONFIG))
