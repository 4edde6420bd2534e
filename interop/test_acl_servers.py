"""mqadmin and the Java client inside it on our servers with access control: an administrator and a restricted account.

Its commands send, pull and query through Apache's own producer and consumers, with Apache's own signatures.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from interop.servers import HOST, JAVA_OPTIONS, Server, free_port, pyromq_command
from interop.toolkit import Toolkit
from pyromq.protocol.acl import Credentials

ADMIN = Credentials("acl-admin", "the-admin's-long-secret")
SHOP = Credentials("acl-shop", "the-shop's-long-secret")
FORGED = Credentials("acl-shop", "some-other-long-secret")
ACCOUNTS = f"""\
accounts:
  - {{accessKey: {ADMIN.access_key}, secretKey: "{ADMIN.secret_key}", admin: true}}
  - accessKey: {SHOP.access_key}
    secretKey: "{SHOP.secret_key}"
    topicPerms: [ "orders=PUB|SUB" ]
    groupPerms: [ "readers=SUB" ]
"""


class Guarded:
    """`pyromq up` with access control, and mqadmin as any account."""

    def __init__(self, toolkit: Toolkit, directory: Path, *more: str) -> None:
        """`more` are settings, `key=value`."""
        self.java_options: list[str] = []
        self._toolkit = toolkit
        self._directory = directory
        (directory / "data" / "conf").mkdir(parents=True)
        accounts = directory / "data" / "conf" / "plain_acl.yml"
        accounts.write_text(ACCOUNTS)
        accounts.chmod(0o600)
        port, namesrv_port = free_port(), free_port()
        self.namesrv, self.broker = f"{HOST}:{namesrv_port}", f"{HOST}:{port}"
        ports = ["--port", str(port), "--namesrv-port", str(namesrv_port), "--console-port", "0"]
        options = [
            "--data",
            str(directory / "data"),
            *(part for one in ("aclEnable=true", *more) for part in ("--set", one)),
        ]
        self.server = Server(pyromq_command("up", *ports, *options), directory / "up.log", "PyroMQ ready")

    def mqadmin(self, account: Credentials | None, *line: str) -> str:
        """Run a command of mqadmin; return what it printed."""
        name = "nobody" if account is None else f"{account.access_key}-{account.secret_key[:8].strip()}"
        home = self._directory / name.replace("'", "")
        if not home.exists():
            shutil.copytree(self._toolkit.home, home)
            if account is not None:
                keys = f'accessKey: {account.access_key}\nsecretKey: "{account.secret_key}"\n'
                (home / "conf" / "tools.yml").write_text(keys)
        java = [
            str(self._toolkit.java),
            *JAVA_OPTIONS,
            *self.java_options,
            f"-Duser.home={home}",
            f"-Drocketmq.home.dir={home}",
        ]
        main = ["-cp", f"{self._toolkit.client}/*", "org.apache.rocketmq.tools.command.MQAdminStartup"]
        done = subprocess.run(
            [*java, *main, *line, "-n", self.namesrv],
            env={**os.environ, "ROCKETMQ_HOME": str(home)},
            capture_output=True,
            text=True,
            timeout=120,
        )
        return done.stdout + done.stderr


@pytest.fixture(scope="module")
def guarded(toolkit: Toolkit, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    one = Guarded(toolkit, tmp_path_factory.mktemp("guarded"))
    with one.server:
        one.mqadmin(ADMIN, "updateTopic", "-b", one.broker, "-t", "orders")
        yield one


def test_java_sends_pulls_and_queries_as_an_account(guarded: Guarded) -> None:
    sent = guarded.mqadmin(SHOP, "sendMessage", "-t", "orders", "-p", "hello", "-k", "key-1")
    assert "SEND_OK" in sent
    pulled = guarded.mqadmin(SHOP, "consumeMessage", "-t", "orders", "-g", "readers")
    assert "hello" in pulled or "BODY" in pulled, pulled
    found = guarded.mqadmin(SHOP, "queryMsgByKey", "-t", "orders", "-k", "key-1")
    assert "AclException" not in found
    assert "#Message ID" in found
    assert len(found.strip().splitlines()) >= 2, found


@pytest.mark.parametrize(
    ("account", "line", "reason"),
    [
        (FORGED, ("topicList",), "Check signature failed for accessKey=acl-shop"),
        (SHOP, ("updateTopic", "-b", "{broker}", "-t", "more"), "'acl-shop' is no administrator"),
        (SHOP, ("deleteAclConfig", "-b", "{broker}", "-a", "acl-admin"), "'acl-shop' is no administrator"),
        (None, ("topicList",), "No accessKey is configured"),
    ],
)
def test_java_is_told_why_it_is_refused(
    guarded: Guarded, account: Credentials | None, line: tuple[str, ...], reason: str
) -> None:
    said = guarded.mqadmin(account, *(part.format(broker=guarded.broker) for part in line))
    assert "AclException" in said
    assert reason in said


@pytest.mark.parametrize("account", [None, FORGED])
def test_a_java_producer_without_an_account_gets_no_route(guarded: Guarded, account: Credentials | None) -> None:
    # It does not say what the name server answered.
    assert "No route info of this topic" in guarded.mqadmin(account, "sendMessage", "-t", "orders", "-p", "x")


def test_a_java_producer_without_the_right_is_told_so(guarded: Guarded) -> None:
    guarded.mqadmin(ADMIN, "updateTopic", "-b", guarded.broker, "-t", "others")
    said = guarded.mqadmin(SHOP, "sendMessage", "-t", "others", "-p", "x")
    assert "'acl-shop' has no PUB right on topic 'others'" in said


def test_mqadmin_adds_and_removes_accounts(guarded: Guarded) -> None:
    new = Credentials("acl-added", "the-added-long-secret")
    line = ("-a", new.access_key, "-s", new.secret_key, "-t", "orders=PUB", "-g", "readers=SUB", "-m", "false")
    assert "success" in guarded.mqadmin(ADMIN, "updateAclConfig", "-b", guarded.broker, *line)
    assert "SEND_OK" in guarded.mqadmin(new, "sendMessage", "-t", "orders", "-p", "x")
    version = guarded.mqadmin(ADMIN, "clusterAclConfigVersion", "-b", guarded.broker)
    assert "broker-a" in version
    assert "success" in guarded.mqadmin(ADMIN, "deleteAclConfig", "-b", guarded.broker, "-a", new.access_key)
    said = guarded.mqadmin(new, "updateTopic", "-b", guarded.broker, "-t", "x")
    assert "No acl config for acl-added" in said
