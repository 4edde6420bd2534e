"""Settings that can be changed while the broker runs (UPDATE_BROKER_CONFIG).

What can be changed is an allow-list. Changes are kept in `config/changedSettings.json`, each with the value that
broker.conf had then: once the operator writes another value into broker.conf, that one counts, and the change is over.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Final

from msgspec import field
from msgspec.structs import replace

from pyromq.broker.config.broker_config import BrokerConfig, settings_of
from pyromq.broker.config.keys import BROKER_KEYS, STORE_KEYS
from pyromq.broker.signals import Signal
from pyromq.errors import BrokerError, ConfigError, NoPermission, ServiceNotAvailable, UnknownFormat
from pyromq.protocol.bodies.codec import Body, decode, encode
from pyromq.settings.properties_file import parse_properties
from pyromq.store.small_files.json_file import JsonFile

logger = logging.getLogger(__name__)

CHANGEABLE: Final = (
    "brokerPermission",
    "pyromqWritesPaused",
    "autoCreateTopicEnable",
    "autoCreateSubscriptionGroup",
    "pyromqMaxTopics",
    "pyromqMaxGroups",
    "longPollingEnable",
    "shortPollingTimeMills",
    "slaveReadEnable",
    "storeReplyMessageEnable",
    "notifyConsumerIdsChangedEnable",
    "transactionTimeOut",
    "transactionCheckMax",
    "rejectTransactionMessage",
    "fileReservedTime",
    "deleteWhen",
    "diskMaxUsedSpaceRatio",
    "diskSpaceCleanForciblyRatio",
    "diskSpaceWarningLevelRatio",
    "cleanFileForciblyEnable",
    "maxStoreBytes",
)


_FORMAT: Final = 1


class SettingChange(Body):
    """A setting that was changed, and what it was changed over."""

    value: str = ""
    over: str = ""


class SettingChanges(Body):
    """All settings that were changed, by key."""

    changes: dict[str, SettingChange] = field(default_factory=dict)
    format: int = _FORMAT


class LiveSettings:
    """The configuration in force; `changed` tells every change."""

    def __init__(self, given: BrokerConfig, file: JsonFile | None = None) -> None:
        self.current = given
        self.changed: Signal[[BrokerConfig]] = Signal()
        self._given = given
        self._file = file
        self._changes: dict[str, SettingChange] = {}
        self._changing = asyncio.Lock()

    def load(self) -> None:
        """Take up changes made before a restart; raise ConfigError or UnknownFormat if they are unreadable."""
        loaded = self._file.load(lambda text: decode(SettingChanges, text)) if self._file else None
        if self._file and loaded and loaded.format != _FORMAT:
            raise UnknownFormat(str(self._file.path), loaded.format, _FORMAT)
        shown = settings_of(self._given)
        for key, change in (loaded.changes if loaded else {}).items():
            if key in CHANGEABLE and shown[key] == change.over:
                self._changes[key] = change
                logger.warning("setting changed earlier key=%s value=%s instead of=%s", key, change.value, change.over)
            else:
                logger.warning("a change of a setting is over key=%s value=%s", key, change.value)
        try:
            self.current = _changed(self._given, self._changes)
        except ValueError as error:
            raise ConfigError(f"{self._file.path if self._file else ''}: {error}") from error

    async def change(self, text: bytes, who: str) -> list[str]:
        """Set what `key=value` lines say, and return which keys; it is durable on return.

        Raises NoPermission, BrokerError or ServiceNotAvailable, with nothing changed.
        """
        async with self._changing:
            values = _parse(text)
            changes = self._with(values)
            try:
                current = _changed(self._given, changes)
            except (ValueError, ConfigError) as error:
                raise BrokerError(str(error)) from None
            await self._save(changes)
            self._changes, self.current = changes, current
            self.changed(current)
        logger.info("settings changed %s by=%s", values, who)
        return list(values)

    def _with(self, values: Mapping[str, str]) -> dict[str, SettingChange]:
        """Return the changes with others added; one back to what broker.conf says is none."""
        refused = sorted(values.keys() - set(CHANGEABLE))
        if refused:
            raise NoPermission(f"cannot be changed while the broker runs: {', '.join(refused)[:200]}")
        shown = settings_of(self._given)
        changes = self._changes | {key: SettingChange(value, shown[key]) for key, value in values.items()}
        return {key: change for key, change in changes.items() if change.value != change.over}

    async def _save(self, changes: dict[str, SettingChange]) -> None:
        if self._file is None:
            return
        try:
            await asyncio.to_thread(self._file.save, encode(SettingChanges(changes)))
        except OSError as error:
            logger.error("changed settings could not be saved: %s", error)
            raise ServiceNotAvailable("the change could not be saved") from error


def _parse(text: bytes) -> dict[str, str]:
    try:
        values = parse_properties(text.decode())
    except UnicodeDecodeError:
        raise BrokerError("the settings are not key=value lines in UTF-8") from None
    return {key: value.strip() for key, value in values.items()}


def _changed(config: BrokerConfig, changes: Mapping[str, SettingChange]) -> BrokerConfig:
    """Return a configuration with changes; raises ValueError that names a key whose value is wrong."""
    own, store = _read(BROKER_KEYS, changes), _read(STORE_KEYS, changes)
    return replace(config, **own, store=replace(config.store, **store))


def _read(keys: Mapping[str, Any], changes: Mapping[str, SettingChange]) -> dict[str, Any]:
    fields = {}
    for key in keys.keys() & changes.keys():
        try:
            fields[keys[key].field] = keys[key].read(changes[key].value)
        except ValueError as error:
            raise ValueError(f"{key} {error}") from None
    return fields
