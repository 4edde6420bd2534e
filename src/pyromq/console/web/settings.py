"""ConsoleSettings: what an operator decides about a console when it starts."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from pyromq.console.login.console_file import FILE_NAME


class ConsoleSettings(Struct, frozen=True, kw_only=True):
    """How a console is set up."""

    host: str = "127.0.0.1"
    """Where its port listens."""
    data: Path | None = None
    """The directory of its own files: console.yml, history, audit log; None keeps all in memory."""
    login: bool = True
    """Whether people sign in; off only in `pyromq up` on loopback."""

    def file(self, name: str) -> Path | None:
        """Return one of its files."""
        return None if self.data is None else self.data / name

    @property
    def console_file(self) -> Path | None:
        """The file with users and rules."""
        return self.file(FILE_NAME)
