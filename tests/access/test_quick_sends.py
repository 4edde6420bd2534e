"""Signed sends after the first one of a connection are let in on a shorter way, with the same decisions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyromq.access.access_control import AccessControl, AccessRules
from pyromq.broker.requests import REQUESTS
from pyromq.errors import AccessRefused, UnknownCaller
from pyromq.protocol.acl import Credentials, signed
from pyromq.protocol.codes import RequestCode as Code
from pyromq.protocol.command import decode, request
from pyromq.protocol.headers.signed_send import SignedSendHeader
from pyromq.testing.clock import TestClock
from tests.access.accounts_text import ADMIN, FORGED, MINE, NOBODY, SHOP, write_accounts
from tests.access.test_access_control import FakeConnection

OTHER = "other"


class Sender:
    """A connection over which sends come."""

    def __init__(self, home: Path, **rules: Any) -> None:
        self.clock = TestClock()
        self.access = AccessControl(AccessRules(home=home, **rules), REQUESTS, self.clock)
        self.access.accounts.load()
        self.connection = FakeConnection()

    def send(self, account: Credentials, topic: str = MINE, nonce: str = "", **fields: str) -> bytes:
        ext = {
            "a": "shop", "b": topic, "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1700000000000", "h": "0",
            "j": "0", "k": "false", "m": "false",
        } | fields  # fmt: skip
        sent = signed(request(Code.SEND_MESSAGE_V2, ext, b"body"), account, nonce, self.clock.now_ms())
        return self.admit(sent.encode())

    def admit(self, frame: bytes) -> bytes:
        """Return the frame if it is let in."""
        self.command = decode(frame[4:], typed=False)
        self.access.admit(self.command, self.connection)  # type: ignore[arg-type]
        return frame

    def was_quick(self) -> bool:
        """Return True if the last send that was let in needed no second look at its header."""
        return isinstance(self.command.ext, SignedSendHeader)


@pytest.fixture
def sender(tmp_path: Path) -> Sender:
    write_accounts(tmp_path)
    made = Sender(tmp_path)
    made.send(SHOP)
    assert not made.was_quick()
    return made


def refused(sender: Sender, frame: bytes) -> str:
    with pytest.raises(AccessRefused) as caught:
        sender.admit(frame)
    return str(caught.value)


def test_the_second_send_is_quick(sender: Sender) -> None:
    sender.send(SHOP)
    assert sender.was_quick()
    sender.send(SHOP, nonce="a.1", i="TAGS\x01é", l="16", n="broker-a")
    assert sender.was_quick()


def test_an_altered_send_is_refused(sender: Sender) -> None:
    frame = sender.send(SHOP)
    for altered in (
        frame[:-1] + b"x",
        frame.replace(b'"e":"0"', b'"e":"1"'),
        frame.replace(b'"m":"false"', b'"m":"true" '),
    ):
        assert altered != frame
        assert "signature failed" in refused(sender, altered)


def test_a_send_of_a_topic_without_the_right_is_refused(sender: Sender) -> None:
    for _ in range(2):
        with pytest.raises(AccessRefused, match="no PUB right on topic 'other'"):
            sender.send(SHOP, OTHER)
    with pytest.raises(AccessRefused, match="no SUB right on group 'unknown'"):
        sender.send(SHOP, "%RETRY%unknown")


@pytest.mark.parametrize("account", [FORGED, NOBODY], ids=["forged", "no right"])
def test_another_account_on_the_same_connection_is_judged_for_itself(sender: Sender, account: Credentials) -> None:
    with pytest.raises(AccessRefused):
        sender.send(account)
    sender.send(ADMIN, OTHER)
    sender.send(ADMIN, OTHER)
    assert sender.was_quick()
    with pytest.raises(AccessRefused):
        sender.send(SHOP, OTHER)


def test_a_send_that_is_written_in_another_way_is_let_in(sender: Sender) -> None:
    sender.send(SHOP, k="0")
    assert not sender.was_quick()
    assert sender.command.ext_fields["k"] == "0"


def test_a_captured_send_cannot_be_sent_again(sender: Sender) -> None:
    sender.send(SHOP, nonce="a.1")
    frame = sender.send(SHOP, nonce="a.2")
    assert sender.was_quick()
    with pytest.raises(UnknownCaller, match="sent before"):
        sender.admit(frame)
    with pytest.raises(UnknownCaller, match="signed for another code"):
        sender.admit(frame.replace(b'"code":310', b'"code":320'))


def test_a_removed_account_is_out_at_once(sender: Sender, tmp_path: Path) -> None:
    frame = sender.send(SHOP)
    text = (tmp_path / "conf" / "plain_acl.yml").read_text()
    (tmp_path / "conf" / "plain_acl.yml").write_text(text.replace("test-shop", "another"))
    sender.connection.abort = lambda *given: None  # type: ignore[attr-defined]
    sender.access.accounts.reload()
    assert "No acl config" in refused(sender, frame)


def test_a_large_body_is_hashed_once(sender: Sender) -> None:
    ext = sender.command.ext_fields
    sender.admit(signed(request(Code.SEND_MESSAGE_V2, ext, bytes(100_000)), SHOP).encode())
    assert not sender.was_quick()
