"""Settings of a name server, and those that can be changed over the wire."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from pyromq.errors import BrokerError, ConfigError, NoPermission
from pyromq.store.small_files.json_file import JsonFile

logger = logging.getLogger(__name__)

ORDER_MESSAGE_ENABLE: Final = "orderMessageEnable"


class NameServerConfig(Struct, frozen=True, kw_only=True):
    """What an operator can set."""

    order_message_enable: bool = False
    """Add the order config of a topic to its route; producers then take their queues from it."""
    broker_silence: float = 120.0
    """Seconds without a registration after which a broker is dropped."""
    scan_interval: float = 10.0
    """Seconds between two scans for silent brokers."""


class NameServerSettings:
    """The settings in force: those given at start, overridden by changes made over the wire.

    `fixed` returns the settings that can be read but not changed. Only keys of an allow-list can be changed: Apache's
    list of forbidden keys once had a typing error, and anybody could set a path.
    """

    def __init__(self, given: NameServerConfig, path: Path | None, fixed: Callable[[], Mapping[str, str]]) -> None:
        self.current = given
        self._file = JsonFile(path) if path else None
        self._fixed = fixed
        self._changing = asyncio.Lock()

    def load(self) -> None:
        """Load changes made before a restart; raise ConfigError if they are unreadable."""
        if self._file is None:
            return
        try:
            self.current = _changed(self.current, self._file.load(_parse) or {})
        except BrokerError as error:
            raise ConfigError(f"{self._file.path}: {error.remark}") from error

    async def change(self, text: bytes) -> None:
        """Change settings by `key=value` lines; they are durable on return.

        Raise NoPermission, BrokerError or OSError; then nothing has changed.
        """
        async with self._changing:
            try:
                changes = _parse(text)
            except ValueError as error:
                raise BrokerError("the settings must be key=value lines in UTF-8") from error
            changed = _changed(self.current, changes)
            if self._file is not None:
                await asyncio.to_thread(self._file.save, _format(_changeable(changed)))
            self.current = changed
            logger.info("settings changed %s", changes)

    def text(self) -> bytes:
        """Return all settings as `key=value` lines."""
        return _format({**self._fixed(), **_changeable(self.current)})


def _changeable(config: NameServerConfig) -> dict[str, str]:
    return {ORDER_MESSAGE_ENABLE: "true" if config.order_message_enable else "false"}


def _changed(config: NameServerConfig, changes: Mapping[str, str]) -> NameServerConfig:
    refused = [key for key in changes if key not in _changeable(config)]
    if refused:
        raise NoPermission(f"these settings cannot be changed over the wire: {', '.join(refused)[:200]}")
    if ORDER_MESSAGE_ENABLE in changes:
        config = replace(config, order_message_enable=_boolean(changes[ORDER_MESSAGE_ENABLE]))
    return config


def _boolean(value: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise BrokerError(f"{ORDER_MESSAGE_ENABLE} must be true or false, not {value[:40]!r}")
    return value.lower() == "true"


def _parse(text: bytes) -> dict[str, str]:
    lines = (line.strip() for line in text.decode().splitlines())
    pairs = (line.partition("=") for line in lines if line and line[0] not in "#!")
    return {key.strip(): value.strip() for key, _, value in pairs}


def _format(values: Mapping[str, str]) -> bytes:
    return "".join(f"{key}={value}\n" for key, value in values.items()).encode()
