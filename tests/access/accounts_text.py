"""Accounts for tests, as text and as credentials."""

from __future__ import annotations

from pathlib import Path

from pyromq.protocol.acl import Credentials

ADMIN = Credentials("test-admin", "the-admin's-long-secret")
SHOP = Credentials("test-shop", "the-shop's-long-sécret")
NOBODY = Credentials("test-nobody", "the-nobody's-long-secret")
FORGED = Credentials("test-shop", "some-other-long-secret")
UNKNOWN = Credentials("test-unknown", "some-other-long-secret")

MINE = "mine"
MY_GROUP = "mine-group"
ACCOUNTS = f"""\
globalWhiteRemoteAddresses: [ "127.0.0.1" ]
accounts:
  - accessKey: {ADMIN.access_key}
    secretKey: {ADMIN.secret_key}
    whiteRemoteAddress: 127.0.0.1
    admin: true
  - accessKey: {SHOP.access_key}
    secretKey: {SHOP.secret_key}
    topicPerms: [ "{MINE}=PUB|SUB", "mine-*=PUB|SUB", "read-*=SUB", "write-*=PUB" ]
    groupPerms: [ "{MY_GROUP}=SUB", "TOOLS_CONSUMER=SUB" ]
  - accessKey: {NOBODY.access_key}
    secretKey: {NOBODY.secret_key}
"""


def write_accounts(home: Path, text: str = ACCOUNTS, mode: int = 0o600) -> Path:
    """Write the accounts of a server; return the file."""
    path = home / "conf" / "plain_acl.yml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path
