"""What the server commands share: settings from a file and --set, the store's directory, ports, signals."""

from __future__ import annotations

import asyncio
import errno
import signal
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from pyromq.cli.arguments import split_assignment
from pyromq.errors import CannotListen, ConfigError
from pyromq.settings.key_table import KeyTable
from pyromq.settings.properties_file import parse_properties, read_properties_file

STORE_PATHS = ("storePathRootDir", "storePathCommitLog")
DEFAULT_DATA = Path("pyromq-data")
BROKER_PORT = "--port; a broker also takes the ports two below (fast) and one above (for slaves)"


def read_settings(table: KeyTable, file: Path | None, assignments: Iterable[str]) -> tuple[dict[str, str], set[str]]:
    """Return the settings of a file and of --set, which wins, and the names that were given by --set."""
    settings = {} if file is None else table.renamed(parse_properties(read_properties_file(file)))
    given = table.renamed(dict(split_assignment(text) for text in assignments))
    return settings | given, set(given)


def store_root(settings: Mapping[str, str], data: Path | None, below: str = "store") -> str:
    """Return the directory of the store: from --data or from the file's own paths, but not both."""
    named = [key for key in STORE_PATHS if key in settings]
    if named and data is not None:
        raise ConfigError(f"--data and {named[0]} both name the store's directory: use only one of them")
    return settings.get("storePathRootDir") or str((data or DEFAULT_DATA) / below)


def port_option(text: str, default: int | None = None) -> Any:
    """Return the option of a port; `default` is shown where the value itself is None."""
    return typer.Option(min=0, max=65535, help=text, show_default=True if default is None else str(default))


@contextmanager
def port_from(option: str) -> Iterator[None]:
    """Add to the error of a server that cannot listen which option chooses its port or address."""
    try:
        yield
    except CannotListen as error:
        raise ConfigError(f"{error}; {_advice(error, option)}") from error


def _advice(error: CannotListen, option: str) -> str:
    match error.cause.errno:
        case errno.EADDRINUSE:
            return f"stop the server that uses it, or choose another port with {option}"
        case errno.EACCES:
            return f"you may not use this port: choose another one with {option}"
    return "choose an address of this machine with --host"


def stop_signals() -> asyncio.Event:
    """Return an event that SIGINT and SIGTERM set. Call it first: a signal during the start is a clean stop too."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    return stopped
