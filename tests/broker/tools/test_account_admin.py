"""Requests 50 to 54: mqadmin's commands about accounts."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pyromq.access.account import PUB, SUB
from pyromq.access.account_file import read_account_file
from pyromq.broker.server import Broker
from pyromq.protocol.acl import Credentials
from pyromq.protocol.bodies import decode
from pyromq.protocol.bodies.admin import AclInfo
from pyromq.protocol.codes import RequestCode as Code
from pyromq.protocol.codes import ResponseCode
from pyromq.protocol.headers.accounts import (
    DeleteAclConfigRequestHeader,
    GetBrokerClusterAclInfoResponseHeader,
    UpdateAndCreateAclConfigRequestHeader,
    UpdateGlobalWhiteAddrsConfigRequestHeader,
)
from pyromq.testing import TestClock
from tests.access.accounts_text import ADMIN, MINE, NOBODY, SHOP, write_accounts
from tests.broker.conftest import Connect, StartBroker
from tests.broker.guarded_peer import GuardedPeer
from tests.broker.helpers import send_header

NEW = Credentials("test-new-one", "the-new-one's-long-secret")


@pytest.fixture
async def guarded(start_broker: StartBroker, tmp_path: Path) -> Broker:
    write_accounts(tmp_path)
    return await start_broker(aclEnable="true")


@pytest.fixture
async def peer(guarded: Broker, clock: TestClock) -> AsyncIterator[GuardedPeer]:
    one = GuardedPeer(guarded, clock)
    yield one
    await one.remoting.close()


def update(account: Credentials, **fields: object) -> UpdateAndCreateAclConfigRequestHeader:
    return UpdateAndCreateAclConfigRequestHeader(access_key=account.access_key, **fields)  # type: ignore[arg-type]


async def test_an_added_account_counts_at_once_and_the_file_stays_private(peer: GuardedPeer, tmp_path: Path) -> None:
    header = update(NEW, secret_key=NEW.secret_key, topic_perms="mine=PUB,read-*=SUB", default_group_perm="SUB")
    await peer.done(ADMIN, Code.UPDATE_AND_CREATE_ACL_CONFIG, header)
    await peer.done(NEW, Code.SEND_MESSAGE_V2, send_header(MINE), b"x")
    path = tmp_path / "conf" / "plain_acl.yml"
    assert path.stat().st_mode & 0o777 == 0o600
    content = read_account_file(path)
    assert content.accounts[NEW.access_key].topics == {"mine": PUB, "read-*": SUB}
    assert list(content.accounts) == [ADMIN.access_key, SHOP.access_key, NOBODY.access_key, NEW.access_key]
    assert content.version.counter == 1
    assert content.white_addresses == ("127.0.0.1",)


async def test_a_change_keeps_the_fields_that_are_not_given(peer: GuardedPeer, tmp_path: Path) -> None:
    await peer.done(ADMIN, Code.UPDATE_AND_CREATE_ACL_CONFIG, update(SHOP, default_topic_perm="PUB"))
    shop = read_account_file(tmp_path / "conf" / "plain_acl.yml").accounts[SHOP.access_key]
    assert shop.secret_key == SHOP.secret_key
    assert shop.default_topic == PUB
    assert shop.topics["mine"] == PUB | SUB


async def test_an_account_of_another_file_is_changed_there(peer: GuardedPeer, tmp_path: Path) -> None:
    more = tmp_path / "conf" / "acl" / "team.yml"
    more.parent.mkdir()
    more.write_text(f'accounts: [{{accessKey: {NEW.access_key}, secretKey: "{NEW.secret_key}"}}]')
    more.chmod(0o600)
    await peer.done(ADMIN, Code.UPDATE_AND_CREATE_ACL_CONFIG, update(NEW, topic_perms="mine=PUB"))
    assert read_account_file(more).accounts[NEW.access_key].topics == {"mine": PUB}
    assert NEW.access_key not in read_account_file(tmp_path / "conf" / "plain_acl.yml").accounts


async def test_a_removed_account_is_out(peer: GuardedPeer) -> None:
    await peer.done(ADMIN, Code.DELETE_ACL_CONFIG, DeleteAclConfigRequestHeader(access_key=NOBODY.access_key))
    assert await peer.refusal(NOBODY, Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER) == "No acl config for test-nobody"
    answer = await peer.ask(ADMIN, Code.DELETE_ACL_CONFIG, DeleteAclConfigRequestHeader(access_key=NOBODY.access_key))
    assert (answer.code, answer.remark) == (
        ResponseCode.DELETE_ACL_CONFIG_FAILED,
        "there is no account 'test-nobody'",
    )


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({}, "needs a secret key"),
        ({"secret_key": "short"}, "at least 7 characters"),
        ({"secret_key": "12345678"}, "sample file"),
        ({"secret_key": "long-enough", "topic_perms": "mine=ALL"}, "'ALL' is no permission"),
        ({"secret_key": "long-enough", "topic_perms": "mine"}, "is not name=permission"),
        ({"secret_key": "long-enough", "white_remote_address": "nowhere"}, "is no address"),
    ],
)
async def test_bad_input_changes_nothing(
    peer: GuardedPeer, tmp_path: Path, fields: dict[str, str], reason: str
) -> None:
    before = (tmp_path / "conf" / "plain_acl.yml").read_bytes()
    answer = await peer.ask(ADMIN, Code.UPDATE_AND_CREATE_ACL_CONFIG, update(NEW, **fields))
    assert answer.code == ResponseCode.UPDATE_AND_CREATE_ACL_CONFIG_FAILED
    assert reason in (answer.remark or "")
    assert (tmp_path / "conf" / "plain_acl.yml").read_bytes() == before


async def test_a_broken_file_is_not_overwritten(peer: GuardedPeer, tmp_path: Path) -> None:
    path = tmp_path / "conf" / "plain_acl.yml"
    path.write_text("accounts: [")
    answer = await peer.ask(ADMIN, Code.UPDATE_AND_CREATE_ACL_CONFIG, update(NEW, secret_key=NEW.secret_key))
    assert answer.code == ResponseCode.UPDATE_AND_CREATE_ACL_CONFIG_FAILED
    assert path.read_text() == "accounts: ["


async def test_the_list_of_accounts_has_no_secret(peer: GuardedPeer) -> None:
    answer = await peer.done(ADMIN, Code.GET_BROKER_CLUSTER_ACL_CONFIG)
    listed = decode(AclInfo, answer.body)
    assert [one.access_key for one in listed.plain_access_configs] == [
        *(ADMIN.access_key, SHOP.access_key, NOBODY.access_key)
    ]
    assert listed.global_white_addrs == ["127.0.0.1"]
    assert b"secret" not in answer.body.replace(b"secretKey", b"")


async def test_the_version_counts_changes(peer: GuardedPeer, clock: TestClock) -> None:
    header = UpdateGlobalWhiteAddrsConfigRequestHeader(global_white_addrs="10.0.0.1,10.0.1.*")
    await peer.done(ADMIN, Code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, header)
    answer = await peer.done(ADMIN, Code.GET_BROKER_CLUSTER_ACL_INFO)
    version = answer.header(GetBrokerClusterAclInfoResponseHeader)
    assert '"counter":1' in version.version
    assert version.broker_name == "broker-a"
    assert version.all_acl_file_version is not None
    assert json.loads(version.all_acl_file_version)["plain_acl.yml"]["counter"] == 1


async def test_without_access_control_the_requests_say_so(broker: Broker, connect: Connect) -> None:
    peer = await connect(broker)
    for code, header, expect in (
        (Code.UPDATE_AND_CREATE_ACL_CONFIG, update(NEW), ResponseCode.UPDATE_AND_CREATE_ACL_CONFIG_FAILED),
        (Code.DELETE_ACL_CONFIG, DeleteAclConfigRequestHeader(access_key="x"), ResponseCode.DELETE_ACL_CONFIG_FAILED),
        (Code.GET_BROKER_CLUSTER_ACL_INFO, None, ResponseCode.SYSTEM_ERROR),
        (Code.GET_BROKER_CLUSTER_ACL_CONFIG, None, ResponseCode.SYSTEM_ERROR),
    ):
        answer = await peer.ask(code, header, expect=expect)
        assert "aclEnable is false" in (answer.remark or "")
