"""`pyromq acl` on a guarded cluster."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from pyromq.testing import LocalCluster
from tests.access.accounts_text import ADMIN, SHOP, write_accounts
from tests.cli.conftest import pyromq_here


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    home = tmp_path_factory.mktemp("guarded")
    write_accounts(home)
    with LocalCluster(2, data=home, settings={"aclEnable": True}) as one:
        yield one


class Acl:
    """Runs `pyromq acl` as an administrator."""

    def __init__(self, cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> None:
        self._namesrv = cluster.namesrv
        monkeypatch.setenv("PYROMQ_ACCESS_KEY", ADMIN.access_key)
        monkeypatch.setenv("PYROMQ_SECRET_KEY", ADMIN.secret_key)

    def __call__(self, *arguments: str, fails: bool = False, typed: str = "") -> str:
        done = pyromq_here("acl", *arguments, "-n", self._namesrv, text=typed)
        assert done.returncode == (1 if fails else 0), done.stderr
        return done.stderr if fails else done.stdout


@pytest.fixture
def acl(cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> Acl:
    return Acl(cluster, monkeypatch)


def test_list_shows_accounts_of_all_brokers_without_secrets(acl: Acl, cluster: LocalCluster) -> None:
    text = acl("list", "--json")
    listed = {account["access_key"]: account for account in map(json.loads, text.splitlines())}
    assert listed[ADMIN.access_key]["admin"]
    assert listed[SHOP.access_key]["topics"]["mine-*"] == "PUB|SUB"
    assert sorted(listed[SHOP.access_key]["brokers"]) == sorted(broker.address for broker in cluster.brokers)
    assert "secret" not in text
    assert SHOP.access_key in acl("list")


def test_an_account_is_added_changed_and_removed(acl: Acl) -> None:
    made = acl("add", "cli-account", "--topic", "orders=PUB|SUB", "--group", "billing=SUB", "--default-topic", "SUB")
    assert made.startswith("added account cli-account with secret key ")
    assert len(made.split()[-1]) >= 32
    acl("set", "cli-account", "--topic", "audit-*=SUB", "--topic", "orders=", "--admin", "--default-group", "SUB")
    (account,) = map(json.loads, acl("show", "cli-account", "--json").splitlines())
    assert account["topics"] == {"audit-*": "SUB"}
    assert account["groups"] == {"billing": "SUB"}
    assert (account["admin"], account["default_topic"], account["default_group"]) == (True, "SUB", "SUB")
    acl("set", "cli-account", "--default-topic", "DENY")
    assert json.loads(acl("show", "cli-account", "--json"))["admin"]  # what is not given stays
    assert acl("set", "cli-account", "--admin", "--dry-run").startswith("would change account cli-account on ")
    assert acl("remove", "cli-account", "--dry-run").startswith("would remove account cli-account on ")
    assert "not confirmed, nothing was changed" in acl("remove", "cli-account", fails=True)
    assert acl("remove", "cli-account", "--yes") == "removed account cli-account\n"
    assert acl("show", "cli-account", fails=True) == "pyromq: no broker has an account 'cli-account'\n"


def test_a_secret_comes_from_stdin_and_is_not_printed(acl: Acl) -> None:
    assert acl("add", "stdin-account", "--secret-stdin", typed="a-secret-of-mine\n") == "added account stdin-account\n"
    acl("remove", "stdin-account", "--yes")
    assert acl("add", "stdin-account", "--dry-run") == "would add account stdin-account\n"
    assert "no broker has an account" in acl("show", "stdin-account", fails=True)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("add", ADMIN.access_key), "there is an account 'test-admin' already"),
        (("add", "bad-account", "--topic", "orders=ALL"), "'ALL' is no permission"),
        (("add", ADMIN.access_key, "--dry-run"), "there is an account 'test-admin' already"),
        (("add", "short"), "at least 7 characters"),
        (("set", "nobody-knows", "--admin"), "no broker has an account 'nobody-knows'"),
        (("remove", "nobody-knows"), "no broker has an account 'nobody-knows'"),
    ],
)
def test_a_failure_is_one_line(acl: Acl, arguments: tuple[str, ...], reason: str) -> None:
    assert reason in acl(*arguments, fails=True)
