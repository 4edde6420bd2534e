"""plain_acl.yml: what it may say, what is refused, and how it is written."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyromq.access.account import PUB, SUB
from pyromq.access.account_file import (
    AccountFile,
    FileVersion,
    format_accounts,
    parse_accounts,
    read_account_file,
    write_account_file,
)
from pyromq.errors import ConfigError
from tests.access.accounts_text import ACCOUNTS, SHOP, write_accounts

APACHES = b"""\
globalWhiteRemoteAddresses:
- 10.10.103.*
- 192.168.0.*

accounts:
- accessKey: RocketMQ
  secretKey: 1234567890123456
  whiteRemoteAddress:
  admin: false
  defaultTopicPerm: DENY
  defaultGroupPerm: SUB
  topicPerms:
  - topicA=DENY
  - topicB=PUB|SUB
  - topicC=SUB
  groupPerms:
  # the group should convert to retry topic
  - groupA=DENY
  - groupB=PUB|SUB
  - groupC=SUB
- accessKey: 0123456789
  secretKey: 0x1234567890
  admin: yes
dataVersion:
- {counter: 3, timestamp: 1600000000000}
"""


def test_apaches_own_form_is_read() -> None:
    content = parse_accounts(APACHES)
    first, second = content.accounts.values()
    assert (first.default_topic, first.default_group) == (0, SUB)
    assert first.topics == {"topicA": 0, "topicB": PUB | SUB, "topicC": SUB}
    assert first.groups["groupB"] == PUB | SUB
    assert content.white_addresses == ("10.10.103.*", "192.168.0.*")
    assert content.version == FileVersion(3, 1_600_000_000_000)
    assert (second.access_key, second.secret_key, second.admin) == ("0123456789", "0x1234567890", True)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "empty"),
        ("accounts", "empty, or no mapping"),
        ("accounts: {}", "accounts is no list"),
        ("accounts: [x]", "account number 1 is no mapping"),
        ("a: [", "not YAML: see line"),
        ("accounts: [{accessKey: short, secretKey: long-enough-secret}]", "at least 7 characters"),
        ("accounts: [{accessKey: long-key, secretKey: s3cret}]", "'long-key': secretKey must have at least 7"),
        ("accounts: [{accessKey: long-key, secretKey: '12345678'}]", "sample file"),
        ("accounts: [{accessKey: long-key, secretKey: a-s3cret-key, topicPerms: [x]}]", "'x' is not name=permission"),
        ("accounts: [{accessKey: long-key, secretKey: a-s3cret-key, topicPerms: [x=pup]}]", "'pup' is no permission"),
        ("accounts: [{accessKey: long-key, secretKey: a-s3cret-key, topicPerms: ['*x=PUB']}]", "not at its end"),
        ("accounts: [{accessKey: long-key, secretKey: a-s3cret-key, defaultTopicPerm: ALL}]", "defaultTopicPerm"),
        ("accounts: [{accessKey: long-key, secretKey: a-s3cret-key, admin: maybe}]", "admin must be true or false"),
        ("accounts: [{accessKey: long-key, secretKey: [a-s3cret-key]}]", "secretKey is no text"),
        ("accounts: [{accessKey: long-key, secretKey: a-s3cret-key, whiteRemoteAddress: x}]", "no address"),
        ("{accounts: [], globalWhiteRemoteAddresses: [x]}", "no address"),
        ("accounts: [&a {accessKey: long-key, secretKey: a-s3cret-key}, *a]", "'long-key' is there twice"),
        ("!!python/object/apply:os.system [id]", "empty, or no mapping"),
    ],
)
def test_a_wrong_file_is_an_error_that_shows_no_secret(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=re.escape(reason)) as caught:
        parse_accounts(text.encode())
    assert "s3cret" not in str(caught.value)


@given(st.one_of(st.binary(max_size=200), st.text(max_size=200).map(lambda text: text.encode(errors="replace"))))
def test_no_bytes_break_the_reader(data: bytes) -> None:
    with suppress(ValueError):
        parse_accounts(data)


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620])
def test_a_file_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    path = write_accounts(tmp_path, mode=mode)
    with pytest.raises(ConfigError, match=f"has mode {mode:04o}.*chmod 600"):
        read_account_file(path)


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read"):
        read_account_file(tmp_path / "none.yml")


def test_what_is_written_is_read_again_and_readable_to_its_owner_only(tmp_path: Path) -> None:
    content = parse_accounts(ACCOUNTS.encode())
    path = tmp_path / "conf" / "plain_acl.yml"
    path.parent.mkdir()
    (path.parent / "plain_acl.yml.tmp").write_text("left over")
    (path.parent / "plain_acl.yml.tmp").chmod(0o666)
    before = os.umask(0)
    try:
        write_account_file(path, content)
    finally:
        os.umask(before)
    assert read_account_file(path) == content
    assert path.stat().st_mode & 0o777 == 0o600
    assert [one.name for one in path.parent.iterdir()] == ["plain_acl.yml"]


def test_odd_texts_survive_being_written() -> None:
    odd = "  : #'\"\n- ~ null é".strip()
    account = parse_accounts(ACCOUNTS.encode()).accounts[SHOP.access_key]
    content = AccountFile(accounts={"null-ish: #": type(account)(access_key="null-ish: #", secret_key=odd)})
    assert parse_accounts(format_accounts(content)) == content
