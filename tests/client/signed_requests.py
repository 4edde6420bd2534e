"""A record of all requests that reach the servers of this process, and whether each is signed as it should be."""

from __future__ import annotations

from collections import Counter
from threading import local
from typing import Any
from weakref import WeakSet

import pytest

from pyromq import Credentials
from pyromq.protocol.codes import LanguageCode
from pyromq.protocol.command import RemotingCommand, decode
from pyromq.remoting import connection as connection_module
from pyromq.remoting.connection import Connection
from tests.protocol.test_acl import plainly_signed

SHOP = Credentials("shop-app", "shop-secret")
OTHER = Credentials("other-app", "other-secret", "other-token")
_SECRETS = {account.access_key: account.secret_key for account in (SHOP, OTHER)}


class Requests:
    """What servers get over connections that are made from now on, as it came, with the fields that they do not need.

    Clients of other tests may live in this process, and beat: theirs were made before.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._seen: list[RemotingCommand] = []
        self._new: WeakSet[Connection] = WeakSet()
        self._reading = local()
        """The connection that this thread reads from."""
        made, take = Connection.connection_made, Connection._take

        def connection_made(connection: Connection, transport: Any) -> None:
            self._new.add(connection)
            made(connection, transport)

        def take_from(connection: Connection, *given: Any, **named: Any) -> None:
            self._reading.connection = connection
            take(connection, *given, **named)

        monkeypatch.setattr(Connection, "connection_made", connection_made)
        monkeypatch.setattr(Connection, "_take", take_from)
        monkeypatch.setattr(connection_module, "decode", self._decode)

    def _decode(self, frame: bytes | memoryview, **options: Any) -> RemotingCommand:
        whole = decode(frame, typed=False, max_header=options["max_header"])
        is_from_client = not whole.is_response and whole.language is LanguageCode.PYTHON  # brokers say they are Java
        if is_from_client and self._reading.connection in self._new:
            self._seen.append(whole)
        return decode(frame, **options)

    @property
    def codes(self) -> Counter[int]:
        """How many requests of each code there were."""
        return Counter(command.code for command in self._seen)

    def accounts(self) -> Counter[str]:
        """Return how many requests each account has sent; fail if one is not signed as it should be."""
        found: Counter[str] = Counter()
        for command in self._seen:
            fields = command.ext_fields
            assert "Signature" in fields, f"request {command.code} is not signed"
            assert fields.get("pyromqCode") == str(command.code), f"request {command.code} can be sent again"
            account = fields["AccessKey"]
            expected = plainly_signed(fields, command.body, _SECRETS[account])
            assert fields["Signature"] == expected, f"request {command.code} is signed wrongly"
            found[account] += 1
        return found
