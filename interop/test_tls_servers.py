"""mqadmin and the Java client inside it on our servers with TLS, without and with access control.

Apache's client takes any certificate in its test mode, the default. Otherwise it checks who signed it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.certificates import Authority

from interop.servers import HOST
from interop.test_acl_servers import ADMIN, FORGED, SHOP, Guarded
from interop.toolkit import Toolkit

ANY = ["-Dtls.enable=true"]


class Encrypted(Guarded):
    """`pyromq up` that speaks nothing but TLS, and mqadmin that checks its certificate or does not."""

    def __init__(self, toolkit: Toolkit, directory: Path) -> None:
        self.authority = Authority(directory)
        self.stranger = Authority(directory, "stranger")
        cert, key = self.authority.sign("server", HOST)
        files = f"tls.server.certPath={cert}", f"tls.server.keyPath={key}"
        super().__init__(toolkit, directory, "tls.server.mode=enforcing", *files)
        self._files = directory

    def verified(self, authority: Authority) -> list[str]:
        """Return the options of a JVM that trusts an authority."""
        file = self._files / f"{authority.file.stem}.properties"
        file.write_text(f"tls.client.authServer=true\ntls.client.trustCertPath={authority.file}\n")
        return [*ANY, "-Dtls.test.mode.enable=false", f"-Dtls.config.file={file}"]


@pytest.fixture(scope="module")
def encrypted(toolkit: Toolkit, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Encrypted]:
    one = Encrypted(toolkit, tmp_path_factory.mktemp("encrypted"))
    with one.server:
        one.java_options = ANY
        one.mqadmin(ADMIN, "updateTopic", "-b", one.broker, "-t", "orders")
        yield one


@pytest.mark.parametrize("how", ["any certificate", "a verified certificate"])
def test_java_sends_and_pulls_over_tls_as_an_account(encrypted: Encrypted, how: str) -> None:
    encrypted.java_options = ANY if how == "any certificate" else encrypted.verified(encrypted.authority)
    assert "SEND_OK" in encrypted.mqadmin(SHOP, "sendMessage", "-t", "orders", "-p", "hello")
    pulled = encrypted.mqadmin(SHOP, "consumeMessage", "-t", "orders", "-g", "readers")
    assert "hello" in pulled or "BODY" in pulled, pulled


def test_rights_are_checked_over_tls(encrypted: Encrypted) -> None:
    encrypted.java_options = ANY
    assert "Check signature failed" in encrypted.mqadmin(FORGED, "topicList")


def test_java_without_tls_or_with_another_authority_gets_nothing(encrypted: Encrypted) -> None:
    for options in ([], encrypted.verified(encrypted.stranger)):
        encrypted.java_options = options
        said = encrypted.mqadmin(SHOP, "sendMessage", "-t", "orders", "-p", "hello")
        assert "SEND_OK" not in said
        assert "Exception" in said


def test_java_without_accounts_over_a_made_up_certificate(
    toolkit: Toolkit, tmp_path_factory: pytest.TempPathFactory
) -> None:
    one = Guarded(
        toolkit,
        tmp_path_factory.mktemp("made_up"),
        "aclEnable=false",
        "tls.test.mode.enable=true",
        "tls.server.mode=enforcing",
    )
    with one.server:
        one.java_options = ANY
        assert "SEND_OK" in one.mqadmin(None, "sendMessage", "-t", "orders", "-p", "hello")
