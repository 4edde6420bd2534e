"""Accounts of the cluster's access control sign in with their own rights."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyromq.admin import AdminClient
from pyromq.clock import SystemClock
from pyromq.console.console import Console
from pyromq.console.login.roles import UserRole
from pyromq.console.web.settings import ConsoleSettings
from pyromq.errors import AccessDenied
from pyromq.protocol.acl import Credentials
from pyromq.testing import LocalCluster

ADMIN = Credentials("boss-account", "boss-secret-boss-secret")
ACL = """
accounts:
  - {accessKey: boss-account, secretKey: boss-secret-boss-secret, admin: true}
  - accessKey: shop-account
    secretKey: shop-secret-shop-secret
    defaultTopicPerm: DENY
    defaultGroupPerm: DENY
    topicPerms: [orders=PUB|SUB]
    groupPerms: [billing=SUB]
"""


def acl_file(data: Path) -> None:
    """Write the accounts for a cluster with this directory."""
    conf = data / "conf" / "plain_acl.yml"
    conf.parent.mkdir()
    conf.write_text(ACL)
    conf.chmod(0o600)


async def test_an_account_sees_and_does_what_its_rights_allow(tmp_path: Path) -> None:
    acl_file(tmp_path)
    async with (
        LocalCluster(data=tmp_path, settings={"aclEnable": "true"}) as cluster,
        AdminClient(cluster.namesrv, credentials=ADMIN) as admin,
        Console(ConsoleSettings(), SystemClock()) as console,
    ):
        for topic in ("orders", "salaries"):
            await admin.topics.create(topic, read_queues=1, write_queues=1)
        await console.connect(cluster.namesrv, ADMIN)
        accounts = console.parts.sign_in.accounts
        assert await accounts.sign_in("shop-account", "wrong") is None
        assert await accounts.sign_in("nobody", "shop-secret-shop-secret") is None
        boss = await accounts.sign_in("boss-account", "boss-secret-boss-secret")
        assert boss is not None
        assert boss.role is UserRole.ADMIN
        shop = await accounts.sign_in("shop-account", "shop-secret-shop-secret")
        assert shop is not None
        assert shop.sees_topic("orders")
        assert not shop.sees_topic("salaries")
        assert shop.sees_group("billing")
        assert not shop.sees_group("payroll")
        client = accounts.client(shop)
        assert client is not None
        with pytest.raises(AccessDenied):
            await client.topics.create("mine", read_queues=1, write_queues=1)


async def test_without_access_control_no_account_signs_in(console_cluster: LocalCluster) -> None:
    async with Console(ConsoleSettings(), SystemClock()) as console:
        await console.connect(console_cluster.namesrv)
        assert await console.parts.sign_in.accounts.sign_in("shop-account", "anything at all") is None
