"""The accounts of all files of a server, and how they follow their files."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pyromq.access.accounts import Accounts
from pyromq.errors import ConfigError
from pyromq.protocol.acl import Credentials
from pyromq.testing import eventually
from pyromq.testing.clock import TestClock
from tests.access.accounts_text import ACCOUNTS, ADMIN, NOBODY, SHOP, write_accounts

ONE = "accounts: [{{accessKey: {key}, secretKey: {secret}, admin: true}}]\n"


@asynccontextmanager
async def following(home: Path, own: Credentials | None = None) -> AsyncIterator[tuple[Accounts, TestClock]]:
    clock = TestClock()
    accounts = Accounts(home / "conf", clock, own)
    accounts.load()
    accounts.start()
    yield accounts, clock
    await accounts.stop()


async def after_a_look(clock: TestClock, condition: Callable[[], object], what: str) -> None:
    await clock.advance_async(seconds=5)
    await eventually(condition, what)


async def test_all_files_are_read_and_the_first_that_defines_a_key_wins(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_accounts(tmp_path)
    more = tmp_path / "conf" / "acl" / "team"
    more.mkdir(parents=True)
    for name, key in (("a.yml", SHOP.access_key), ("b.yaml", "team-account"), ("c.txt", "not-an-account")):
        (more / name).write_text(ONE.format(key=key, secret="another-long-secret"))
        (more / name).chmod(0o600)
    async with following(tmp_path) as (accounts, _):
        assert [account.access_key for account in accounts.listed] == [
            *(ADMIN.access_key, SHOP.access_key, NOBODY.access_key, "team-account")
        ]
        shop = accounts.get(SHOP.access_key)
        assert shop is not None
        assert shop.secret_key == SHOP.secret_key
        assert accounts.file_of("team-account") == more / "b.yaml"
        assert accounts.file_of("new-account") == tmp_path / "conf" / "plain_acl.yml"
    assert "'test-shop' of" in caplog.text


async def test_a_changed_file_counts_within_five_seconds(tmp_path: Path) -> None:
    path = write_accounts(tmp_path)
    async with following(tmp_path) as (accounts, clock):
        path.write_text(ONE.format(key=ADMIN.access_key, secret=ADMIN.secret_key))
        await after_a_look(clock, lambda: accounts.get(SHOP.access_key) is None, "the account is gone")
        assert accounts.get(ADMIN.access_key) is not None


async def test_a_file_that_is_replaced_within_one_tick_of_the_disks_clock_counts(tmp_path: Path) -> None:
    path = write_accounts(tmp_path)
    async with following(tmp_path) as (accounts, clock):
        new = ACCOUNTS.replace(NOBODY.access_key, "test-somebo")  # as long as it was
        assert len(new) == len(ACCOUNTS)
        before = path.stat()
        write_accounts(tmp_path / "new", new).rename(path)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        await after_a_look(clock, lambda: accounts.get("test-somebo"), "the new account is there")


@pytest.mark.parametrize(
    "breaking",
    [
        lambda path: path.write_text("accounts: ["),
        lambda path: path.chmod(0o644),
        lambda path: path.unlink(),
        lambda path: path.write_text(ACCOUNTS + "  - accessKey: test-more\n    secretKey: short\n"),
    ],
    ids=["no YAML", "readable to others", "gone", "one account is wrong"],
)
async def test_a_broken_file_changes_nothing_and_is_reported_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, breaking: Callable[[Path], object]
) -> None:
    path = write_accounts(tmp_path)
    async with following(tmp_path) as (accounts, clock):
        before = accounts.current
        breaking(path)
        await after_a_look(clock, lambda: "the accounts stay as they are" in caplog.text, "it is in the log")
        await clock.advance_async(seconds=20)
        assert accounts.current is before
        assert caplog.text.count("the accounts stay as they are") == 1
        write_accounts(tmp_path, ONE.format(key=ADMIN.access_key, secret=ADMIN.secret_key))
        await after_a_look(clock, lambda: accounts.get(SHOP.access_key) is None, "a good file counts again")


async def test_a_server_without_accounts_does_not_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no file .*conf/plain_acl\.yml"):
        Accounts(tmp_path / "conf", TestClock()).load()


async def test_servers_of_one_process_need_no_file_and_say_that_nobody_else_has_an_account(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with following(tmp_path, own=ADMIN) as (accounts, clock):
        assert f"there is no file of accounts {tmp_path}/conf/plain_acl.yml" in caplog.text
        own = accounts.get(ADMIN.access_key)
        assert own is not None
        assert own.admin
        assert accounts.listed == []  # nobody else hears of it
        write_accounts(tmp_path, ONE.format(key=SHOP.access_key, secret=SHOP.secret_key))
        await after_a_look(clock, lambda: accounts.get(SHOP.access_key), "a file that comes later counts")


async def test_short_secrets_are_named_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_accounts(tmp_path, ONE.format(key="weak-account", secret="2short4u"))
    with caplog.at_level(logging.WARNING):
        async with following(tmp_path):
            pass
    assert "shorter than 16 characters: weak-account" in caplog.text
    assert "2short4u" not in caplog.text
