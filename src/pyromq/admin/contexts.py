"""Contexts: named clusters with their address and account, in one file of the user.

$XDG_CONFIG_HOME/pyromq/contexts.json        ~/.config where the variable is not set; mode 0600, it holds secrets

{"version": 1, "current": "prod", "contexts": {"prod": {"namesrv": "10.0.0.1:9876", "access_key": "ops", …}}}
"""

from __future__ import annotations

import os
import re
import stat
import tempfile
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct, field

from pyromq.client.net.address import discovery_url, parse_addresses
from pyromq.errors import ClientError, ConfigError
from pyromq.protocol.acl import Credentials
from pyromq.remoting.tls.client_tls import Tls

FORMAT_VERSION: Final = 1
COLOURS: Final = ("red", "green", "yellow", "blue", "magenta", "cyan", "white")
CONTEXT_VARIABLE: Final = "PYROMQ_CONTEXT"

_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]{0,63}")


class ClusterContext(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A cluster, and how to work with it."""

    namesrv: str
    """Its name servers: `host:port;host:port`."""
    access_key: str = ""
    """The account; empty if requests are not signed."""
    secret_key: str = ""
    tls: Tls | None = None
    """How connections are encrypted; None if they are not."""
    colour: str = ""
    """The colour of its name in questions; empty for none."""
    confirm: bool = False
    """Whether commands ask before they change anything."""

    def __repr__(self) -> str:
        """Return the address and the account, without the secret."""
        return f"ClusterContext(namesrv={self.namesrv!r}, access_key={self.access_key!r})"

    @property
    def credentials(self) -> Credentials | None:
        """The account, None if there is none."""
        return Credentials(self.access_key, self.secret_key) if self.access_key else None

    def check(self) -> None:
        """Raise ClientError if a field is wrong."""
        if discovery_url(self.namesrv) is None:
            parse_addresses(self.namesrv)
        if bool(self.access_key) != bool(self.secret_key):
            raise ClientError("an account is an access key and a secret key: one of them is missing")
        if self.colour and self.colour not in COLOURS:
            raise ClientError(f"{self.colour!r} is not one of the colours {', '.join(COLOURS)}")


class _ContextFile(Struct, kw_only=True):
    version: int = FORMAT_VERSION
    current: str | None = None
    contexts: dict[str, ClusterContext] = field(default_factory=dict)


def contexts_path(environment: Mapping[str, str] = os.environ) -> Path:
    """Return where the contexts of this user are kept."""
    home = environment.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(home) / "pyromq" / "contexts.json"


class Contexts:
    """The contexts of this user; every change is saved at once."""

    def __init__(self, path: Path | None = None) -> None:
        """Read the file, if there is one; raise ConfigError if it is unreadable or others may read its secrets."""
        self.path = path or contexts_path()
        self._file = _load(self.path)

    @property
    def current(self) -> str | None:
        """The name of the chosen context, None if none is."""
        return self._file.current

    @property
    def all(self) -> Mapping[str, ClusterContext]:
        """All contexts by name."""
        return dict(sorted(self._file.contexts.items()))

    def get(self, name: str) -> ClusterContext:
        """Return a context; raises ClientError if there is none of this name."""
        found = self._file.contexts.get(name)
        if found is None:
            nearest = get_close_matches(name, self._file.contexts, n=1)
            hint = f"; did you mean {nearest[0]}?" if nearest else "; `pyromq context list` shows all"
            raise ClientError(f"there is no context {name!r}{hint}")
        return found

    def add(self, name: str, context: ClusterContext, *, replace: bool = False) -> None:
        """Add a context; raises ClientError if something is wrong with it, or the name is taken."""
        if not _NAME.fullmatch(name):
            raise ClientError(
                f"a context's name has letters, digits, '_', '-' and '.', at most 64, and is not {name!r}"
            )
        if name in self._file.contexts and not replace:
            raise ClientError(f"there is already a context {name!r}; --replace replaces it")
        context.check()
        self._file.contexts[name] = context
        self._save()

    def use(self, name: str | None) -> None:
        """Choose a context for the commands to come, None for none; raises ClientError if it does not exist."""
        if name is not None:
            self.get(name)
        self._file.current = name
        self._save()

    def remove(self, name: str) -> None:
        """Remove a context with its secret; if it was chosen, none is."""
        self.get(name)
        del self._file.contexts[name]
        if self._file.current == name:
            self._file.current = None
        self._save()

    def _save(self) -> None:
        """Replace the file: a reader finds the old one or the new one, and only this user can read either."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        text = msgspec.json.format(msgspec.json.encode(self._file), indent=2)
        handle, temporary = tempfile.mkstemp(dir=self.path.parent, prefix=".contexts-")  # mode 0600
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(text + b"\n")
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, self.path)
        except BaseException:
            os.unlink(temporary)
            raise


def _load(path: Path) -> _ContextFile:
    try:
        text = path.read_bytes()
        mode = path.stat().st_mode
    except FileNotFoundError:
        return _ContextFile()
    try:
        version = msgspec.json.decode(text, type=_Version).version
        if version != FORMAT_VERSION:
            raise ConfigError(f"{path} has the format version {version}; this version of pyromq reads {FORMAT_VERSION}")
        file = msgspec.json.decode(text, type=_ContextFile)
    except msgspec.DecodeError as error:
        raise ConfigError(f"{path} is not a file of contexts: {error}") from error
    secret = any(context.secret_key for context in file.contexts.values())
    if secret and os.name == "posix" and mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise ConfigError(f"{path} holds secrets and others may use it: chmod 600 {path}")
    return file


class _Version(Struct):
    version: int = 0


def chosen_context(
    name: str | None = None, environment: Mapping[str, str] = os.environ, contexts: Contexts | None = None
) -> tuple[str, ClusterContext] | None:
    """Return the context of this name, else that of PYROMQ_CONTEXT, else the chosen one, None if there is none.

    Raises ClientError if it does not exist, ConfigError if the file is unreadable.
    """
    known = contexts or Contexts(contexts_path(environment))
    wanted = name or environment.get(CONTEXT_VARIABLE) or known.current
    return None if wanted is None else (wanted, known.get(wanted))


def required_context(name: str | None = None) -> ClusterContext:
    """Return the context that `chosen_context` finds; raises ClientError if there is none."""
    found = chosen_context(name)
    if found is None:
        raise ClientError("no context is chosen; `pyromq context use NAME` chooses one")
    return found[1]
