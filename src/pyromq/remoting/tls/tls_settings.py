"""The settings of TLS that brokers and name servers have, by the fields that their keys set (netty_keys.py)."""

from __future__ import annotations

from pathlib import Path

from pyromq.clock import Clock
from pyromq.errors import ConfigError
from pyromq.remoting.limits import PortLimits
from pyromq.remoting.tls.client_tls import Tls
from pyromq.remoting.tls.server_tls import ServerTls, TlsRules


class ServerTlsSettings(PortLimits, frozen=True, kw_only=True):
    """How a server accepts TLS, beside the limits of its ports."""

    tls_mode: str = "permissive"
    tls_cert: Path | None = None
    tls_key: Path | None = None
    tls_key_password: str = ""
    tls_trust: Path | None = None
    tls_client_auth: str = "none"
    tls_test_mode: bool = False
    tls_config_file: Path | None = None

    @property
    def tls_rules(self) -> TlsRules:
        """What the keys `tls.server.…` say."""
        return TlsRules(
            mode=self.tls_mode,
            cert=self.tls_cert,
            key=self.tls_key,
            key_password=self.tls_key_password,
            trust=self.tls_trust,
            client_auth=self.tls_client_auth,
            test_mode=self.tls_test_mode,
        )

    def needs_tls(self, is_needed: bool) -> bool:
        """Return what access control wants; raise ConfigError if it wants TLS and there is none."""
        if is_needed and not self.tls_rules.is_on:
            raise ConfigError("pyromqAclRequireTls=true needs TLS: set tls.server.certPath and .keyPath")
        return is_needed

    def server_tls(self, clock: Clock) -> ServerTls | None:
        """Return the certificate of this server, None if TLS is off; raise ConfigError."""
        rules = self.tls_rules
        rules.check()
        return ServerTls(rules, clock) if rules.is_on else None


class BrokerTlsSettings(ServerTlsSettings, frozen=True, kw_only=True):
    """How a broker accepts TLS, and how it speaks TLS with name servers and other brokers."""

    tls_client_enabled: bool = False
    tls_client_trust: Path | None = None
    tls_client_cert: Path | None = None
    tls_client_key: Path | None = None
    tls_client_key_password: str = ""
    tls_client_verify: bool = True
    inner_tls: Tls | None = None
    """How it speaks with servers of its own process; no key sets it."""

    @property
    def own_tls(self) -> Tls | None:
        """How this broker's own connections are encrypted, None if they are not."""
        if not self.tls_client_enabled:
            return self.inner_tls
        return Tls(
            ca_file=_text(self.tls_client_trust),
            cert_file=_text(self.tls_client_cert),
            key_file=_text(self.tls_client_key),
            key_password=self.tls_client_key_password,
            verify=self.tls_client_verify,
        )


def _text(path: Path | None) -> str:
    return "" if path is None else str(path)
