"""Settings of a name server, and those that can be changed over the wire."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from pyromq.errors import BrokerError, ConfigError, NoPermission
from pyromq.namesrv.keys import NAMESRV_TABLE
from pyromq.protocol.acl import Credentials
from pyromq.protocol.command import MAX_FRAME
from pyromq.remoting.tls.tls_settings import ServerTlsSettings
from pyromq.settings.key_table import raise_errors
from pyromq.settings.netty_keys import with_tls_file
from pyromq.settings.values import boolean, show_boolean
from pyromq.store.small_files.json_file import JsonFile

logger = logging.getLogger(__name__)

ORDER_MESSAGE_ENABLE: Final = "orderMessageEnable"


class NameServerConfig(ServerTlsSettings, frozen=True, kw_only=True):
    """What an operator can set."""

    port: int = 9876
    """The port to listen on (`listenPort`). 0: the system chooses one."""
    idle_timeout: float = 120.0
    """Seconds that a connection may be silent (`serverChannelMaxIdleTimeSeconds`)."""
    kv_path: Path | None = None
    """The file of the KV settings (`kvConfigPath`); `kvConfig.json` in the data directory unless given."""
    home: Path | None = None
    """The directory with `conf/plain_acl.yml` (`rocketmqHome`); the data directory unless given."""
    acl_enabled: bool = False
    """Whether every request needs an account and the right (`aclEnable`)."""
    acl_trusts_white_list: bool = False
    """Whether an address in a white list needs no signature (`pyromqAclTrustWhiteList`)."""
    acl_requires_tls: bool = False
    """Whether signed requests are refused on plain connections (`pyromqAclRequireTls`)."""
    acl_compatible: bool = False
    """Whether to decide as RocketMQ 4.9 (`pyromqAclCompatible`), whose name server lets everybody in."""
    audit_log: Path | None = None
    """The file of the audit log (`pyromqAuditLog`); `audit/audit.jsonl` in the data directory unless given."""
    inner_account: Credentials | None = None
    """An administrator that exists only within this process, for the brokers that it has; no key sets it."""
    order_message_enable: bool = False
    """Add the order config of a topic to its route; producers then take their queues from it (`orderMessageEnable`)."""
    broker_silence: float = 120.0
    """Seconds without a registration after which a broker is dropped."""
    scan_interval: float = 10.0
    """Seconds between two scans for silent brokers."""
    max_topics: int = 250_000
    """Topics of all brokers together (`pyromqMaxTopics`)."""
    max_brokers: int = 2_000
    """Broker names, clusters, and members of one broker name (`pyromqMaxBrokers`)."""
    max_kv_pairs: int = 20_000
    """KV settings (`pyromqMaxKvPairs`)."""
    max_kv_characters: int = 1 << 20
    """Characters of all names, keys and values of KV settings (`pyromqMaxKvCharacters`)."""
    max_registration_bytes: int = MAX_FRAME
    """Bytes of a registration (`pyromqMaxRegistrationBytes`)."""
    max_registered_topics: int = 100_000
    """Topics of a registration (`pyromqMaxRegisteredTopics`)."""
    without_effect: tuple[str, ...] = ()
    """Given keys that change nothing here: RocketMQ's, and unknown ones if these are accepted."""


def namesrv_config(
    values: Mapping[str, str], *, lenient: bool = False, always_strict: Collection[str] = ()
) -> NameServerConfig:
    """Read settings by RocketMQ's keys; raise ConfigError that names every key or value that is wrong.

    `lenient` accepts unknown keys, but not those of `always_strict`: what a user typed on the command line.
    """
    read, findings = NAMESRV_TABLE.read(with_tls_file(values), lenient=lenient, always_strict=always_strict)
    ignored = raise_errors(findings)
    return NameServerConfig(
        without_effect=ignored, **{NAMESRV_TABLE.keys[key].field: value for key, value in read.items()}
    )


class NameServerSettings:
    """The settings in force: those given at start, overridden by changes made over the wire.

    `fixed` returns the settings that can be read but not changed. Only keys of an allow-list can be changed: Apache's
    list of forbidden keys once had a typing error, and anybody could set a path.
    """

    def __init__(self, given: NameServerConfig, path: Path | None, fixed: Callable[[], Mapping[str, str]]) -> None:
        self.current = self._given = given
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
        given = _changeable(self._given)
        for key, value in _changeable(self.current).items():
            if value != given[key]:
                logger.warning("setting changed earlier key=%s value=%s instead of=%s", key, value, given[key])

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

    def changeable(self) -> dict[str, str]:
        """Return the settings that can be changed over the wire."""
        return _changeable(self.current)

    def text(self) -> bytes:
        """Return all settings as `key=value` lines."""
        return _format({**self._fixed(), **_changeable(self.current)})


def _changeable(config: NameServerConfig) -> dict[str, str]:
    return {ORDER_MESSAGE_ENABLE: show_boolean(config.order_message_enable)}


def _changed(config: NameServerConfig, changes: Mapping[str, str]) -> NameServerConfig:
    refused = [key for key in changes if key not in _changeable(config)]
    if refused:
        raise NoPermission(f"these settings cannot be changed over the wire: {', '.join(refused)[:200]}")
    if ORDER_MESSAGE_ENABLE in changes:
        config = replace(config, order_message_enable=_boolean(changes[ORDER_MESSAGE_ENABLE]))
    return config


def _boolean(value: str) -> bool:
    try:
        return boolean(value[:40])
    except ValueError as error:
        raise BrokerError(f"{ORDER_MESSAGE_ENABLE} {error}") from None


def _parse(text: bytes) -> dict[str, str]:
    lines = (line.strip() for line in text.decode().splitlines())
    pairs = (line.partition("=") for line in lines if line and line[0] not in "#!")
    return {key.strip(): value.strip() for key, _, value in pairs}


def _format(values: Mapping[str, str]) -> bytes:
    return "".join(f"{key}={value}\n" for key, value in values.items()).encode()
