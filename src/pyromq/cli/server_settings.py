"""What the server commands share: broker.conf, --set, --data, and which of them wins."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Iterable, Mapping
from pathlib import Path

import typer

from pyromq.broker.config.properties_file import parse_properties
from pyromq.errors import ConfigError

STORE_PATHS = ("storePathRootDir", "storePathCommitLog")
DEFAULT_DATA = Path("pyromq-data")


def read_settings(file: Path | None, assignments: Iterable[str]) -> tuple[dict[str, str], set[str]]:
    """Return the settings of a broker.conf and of --set (which wins), and the names that came by --set."""
    settings: dict[str, str] = {}
    if file is not None:
        try:
            settings.update(parse_properties(file.read_text(encoding="utf-8")))
        except OSError as error:
            raise ConfigError(f"cannot read {file}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise ConfigError(f"cannot read {file}: it is not UTF-8 text") from None
    given = dict(split_assignment(text) for text in assignments)
    settings.update(given)
    return settings, set(given)


def split_assignment(text: str, option: str = "--set") -> tuple[str, str]:
    """Split `key=value`."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise typer.BadParameter(f"{option} wants key=value, not {text!r}")
    return key.strip(), value.strip()


def store_root(settings: Mapping[str, str], data: Path | None, below: str = "store") -> str:
    """Decide where the store lies: --data, or the file's own paths, but not both."""
    named = [key for key in STORE_PATHS if key in settings]
    if named and data is not None:
        raise ConfigError(f"--data and {named[0]} both say where the store lies: give one of them")
    return settings.get("storePathRootDir") or str((data or DEFAULT_DATA) / below)


def namesrv_addresses(given: str | None) -> str:
    """Return the name servers to use: the option, else NAMESRV_ADDR, else the default."""
    return given or os.environ.get("NAMESRV_ADDR") or "127.0.0.1:9876"


def start_logging(debug: bool = False) -> None:
    """Send the servers' story to stderr, one line each."""
    logging.basicConfig(
        level=logging.DEBUG if debug else logging.INFO,
        format="%(asctime)s %(levelname)s %(name)s %(message)s",
        datefmt="%H:%M:%S",
    )


def stop_signals() -> asyncio.Event:
    """Return an event that SIGINT and SIGTERM set, from the start on: a stop while starting is a clean stop too."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    return stopped
