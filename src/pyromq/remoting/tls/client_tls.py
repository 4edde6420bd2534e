"""Tls: what a client trusts and shows, and the context of its connections."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from pyromq.errors import ConfigError

_MOST_CONTEXTS: Final = 100

TLS_VARIABLE: Final = "PYROMQ_TLS"
"""`true` or `false`; the variables below switch TLS on as well."""
_VARIABLES: Final = {
    "ca_file": "PYROMQ_TLS_CA_FILE",
    "cert_file": "PYROMQ_TLS_CERT_FILE",
    "key_file": "PYROMQ_TLS_KEY_FILE",
    "key_password": "PYROMQ_TLS_KEY_PASSWORD",
}
_VERIFY_VARIABLE: Final = "PYROMQ_TLS_VERIFY"


class Tls(Struct, frozen=True, kw_only=True):
    """How a client speaks TLS. Files are PEM, and read again for new connections when they have changed."""

    ca_file: str = ""
    """The certificates of those who may sign a server's; the system's unless given."""
    cert_file: str = ""
    """The certificate that this client shows, if a server wants to see one."""
    key_file: str = ""
    """Its key; by default it is in the same file."""
    key_password: str = ""
    verify: bool = True
    """Whether a server's certificate must be signed by somebody trusted, and name the host that was connected to."""
    pinned: bool = False
    """Whether `ca_file` is the very certificate of the server; then host names do not matter."""

    def __repr__(self) -> str:
        return f"Tls(ca_file={self.ca_file!r}, cert_file={self.cert_file!r}, verify={self.verify})"

    def context(self) -> ssl.SSLContext:
        """Return the context for a new connection; raise ConfigError if a file is unreadable or wrong."""
        stamp = self, *(_stamp(path) for path in (self.ca_file, self.cert_file, self.key_file))
        context = _contexts.get(stamp)
        if context is None:
            if len(_contexts) >= _MOST_CONTEXTS:
                _contexts.clear()
            context = _contexts[stamp] = self._new_context()
        return context

    def _new_context(self) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cafile=self.ca_file or None)
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            if self.pinned:
                context.check_hostname = False
                context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
            if not self.verify:
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
            if self.cert_file:
                context.load_cert_chain(self.cert_file, self.key_file or None, password=lambda: self.key_password)
        except (OSError, ValueError) as error:
            raise ConfigError(f"TLS cannot be used: {tls_problem(error, self.ca_file, self.cert_file)}") from error
        return context


_contexts: dict[tuple[object, ...], ssl.SSLContext] = {}


def chosen_tls(tls: bool | Tls | None, environment: Mapping[str, str] = os.environ) -> Tls | None:
    """Return how a client speaks TLS, None if it does not; where `tls` is None, the environment decides."""
    if tls is None:
        return environment_tls(environment)
    if isinstance(tls, Tls):
        return tls
    return Tls() if tls else None


def environment_tls(environment: Mapping[str, str] = os.environ) -> Tls | None:
    """Return what PYROMQ_TLS and PYROMQ_TLS_* say; raise ConfigError if one is neither true nor false."""
    given: dict[str, Any] = {field: environment[name] for field, name in _VARIABLES.items() if environment.get(name)}
    verify = _flag(environment, _VERIFY_VARIABLE)
    is_on = _flag(environment, TLS_VARIABLE)
    if is_on is None:
        is_on = bool(given) or verify is not None
    return Tls(**given, verify=verify is not False) if is_on else None


def tls_variables(tls: Tls) -> dict[str, str]:
    """Return the variables that say the same, for commands and the processes that they start."""
    files = {name: getattr(tls, field) for field, name in _VARIABLES.items() if getattr(tls, field)}
    return {TLS_VARIABLE: "true", **files, **({} if tls.verify else {_VERIFY_VARIABLE: "false"})}


def _flag(environment: Mapping[str, str], name: str) -> bool | None:
    text = environment.get(name, "").lower()
    if text not in ("", "true", "false"):
        raise ConfigError(f"{name} must be true or false, not {text!r}")
    return None if not text else text == "true"


def _stamp(path: str) -> tuple[int, ...]:
    try:
        found = os.stat(path) if path else None
    except OSError:
        return ()
    return () if found is None else (found.st_mtime_ns, found.st_size, found.st_ino)


def tls_problem(error: OSError | ValueError, *files: str) -> str:
    """Return what is wrong with certificate or key, in words for people."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        reason = (error.reason or str(error)).lower().replace("_", " ")
        named = ", ".join(file for file in files if file)
        return f"{reason} ({named})" if named else reason
    missing = next((file for file in files if file and not os.access(file, os.R_OK)), "")
    return f"{error}: {missing}" if missing and missing not in str(error) else str(error)
