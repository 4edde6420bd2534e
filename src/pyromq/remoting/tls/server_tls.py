"""ServerTls: the certificate of a server. Its files are read again when they change, all or none of them."""

from __future__ import annotations

import logging
import os
import ssl
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from msgspec import Struct

from pyromq.clock import Clock
from pyromq.errors import ConfigError
from pyromq.remoting.ticker import Ticker
from pyromq.remoting.tls.client_tls import Tls, tls_problem
from pyromq.remoting.tls.self_signed import self_signed

logger = logging.getLogger(__name__)

LOOK_PERIOD: Final = 5.0
"""Seconds between two looks at the files."""
DISABLED: Final = "disabled"
ENFORCING: Final = "enforcing"
_ASKED: Final = {"none": ssl.CERT_NONE, "optional": ssl.CERT_OPTIONAL, "require": ssl.CERT_REQUIRED}


class TlsRules(Struct, frozen=True, kw_only=True):
    """What an operator says about TLS at a server, by Apache's names."""

    mode: str = "permissive"
    """disabled, permissive (plain connections too) or enforcing (`tls.server.mode`)."""
    cert: Path | None = None
    key: Path | None = None
    """By default in the file of the certificate."""
    key_password: str = ""
    trust: Path | None = None
    """Who may sign the certificates of clients (`tls.server.trustCertPath`)."""
    client_auth: str = "none"
    """none, optional or require (`tls.server.need.client.auth`)."""
    test_mode: bool = False
    """Whether a certificate is made up if there is none (`tls.test.mode.enable`)."""

    def check(self) -> None:
        """Raise ConfigError if this cannot be."""
        if self.mode == ENFORCING and not (self.cert or self.test_mode):
            raise ConfigError("tls.server.mode=enforcing needs a certificate: set tls.server.certPath and .keyPath")
        if self.key is not None and self.cert is None:
            raise ConfigError("tls.server.keyPath needs tls.server.certPath")
        if self.client_auth != "none" and self.trust is None:
            raise ConfigError(
                f"tls.server.need.client.auth={self.client_auth} needs tls.server.trustCertPath: who may sign them"
            )

    @property
    def is_on(self) -> bool:
        """Whether connections may be encrypted."""
        return self.mode != DISABLED and bool(self.cert or self.test_mode)

    @property
    def inside(self) -> Tls | None:
        """How servers of one process speak with each other: they know the certificate itself."""
        if not self.is_on or self.cert is None:
            return Tls(verify=False) if self.is_on else None
        shown = str(self.cert) if self.client_auth != "none" else ""
        key = str(self.key) if shown and self.key else ""
        return Tls(ca_file=str(self.cert), pinned=True, cert_file=shown, key_file=key, key_password=self.key_password)


class ServerTls:
    """The context of a server's new connections; an async context manager that follows the files while it is open."""

    def __init__(self, rules: TlsRules, clock: Clock) -> None:
        """Read the files; raise ConfigError if one is unreadable or wrong."""
        rules.check()
        self.is_enforced = rules.mode == ENFORCING
        """Whether plain connections are closed."""
        self._rules = rules
        self._made_up = rules.cert is None
        self._clock = clock
        self._stamps = self._look()
        self.context = self._load()
        """What the next connection uses."""
        self._ticker = Ticker(clock, LOOK_PERIOD, self._tick)

    async def __aenter__(self) -> Self:
        if not self._made_up:
            self._ticker.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._ticker.stop()

    def _tick(self) -> bool:
        stamps = self._look()
        if stamps != self._stamps:
            self._stamps = stamps
            try:
                self.context = self._load()
                logger.info("the certificate was read again path=%s", self._rules.cert)
            except ConfigError as error:
                logger.error("the certificate in use stays, for the new files are wrong: %s", error)
        return True

    def _look(self) -> tuple[object, ...]:
        found = []
        for path in (self._rules.cert, self._rules.key, self._rules.trust):
            try:
                stat = None if path is None else os.stat(path)
            except OSError:
                stat = None
            found.append(None if stat is None else (stat.st_mtime_ns, stat.st_size, stat.st_ino))
        return tuple(found)

    def _load(self) -> ssl.SSLContext:
        rules = self._rules
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            if rules.cert is None:
                self_signed(context, self._clock.now_ms())
            else:
                context.load_cert_chain(rules.cert, rules.key, password=lambda: rules.key_password)
            if rules.trust is not None:
                context.load_verify_locations(rules.trust)
        except (OSError, ValueError) as error:
            files = (str(path) for path in (rules.cert, rules.key, rules.trust) if path is not None)
            raise ConfigError(f"tls.server: {tls_problem(error, *files)}") from error
        context.verify_mode = _ASKED[rules.client_auth]
        return context
