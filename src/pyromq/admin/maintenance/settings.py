"""The configuration of brokers and name servers: what is in force, what differs from the default, and changes."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from functools import cache

from msgspec import Struct
from msgspec.structs import replace

from pyromq.admin.masters import gather_limited
from pyromq.broker.config.broker_config import broker_config, settings_of
from pyromq.broker.config.keys import BROKER_TABLE
from pyromq.broker.config.live_settings import CHANGEABLE
from pyromq.client.net.calls.admin_calls import AdminCalls
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.client.net.calls.maintenance_calls import MaintenanceCalls
from pyromq.client.net.calls.namesrv_calls import NamesrvCalls
from pyromq.errors import AccessDenied, ClientError, PyroMQError
from pyromq.namesrv.config import ORDER_MESSAGE_ENABLE, NameServerConfig
from pyromq.namesrv.keys import NAMESRV_TABLE
from pyromq.protocol.codes import MASTER_ID
from pyromq.settings.key_table import KeyTable, show_settings

logger = logging.getLogger(__name__)

OURS = "pyromqMaxTopics"
"""A key that only our brokers have."""


class Setting(Struct, frozen=True, kw_only=True):
    """One setting of a server."""

    key: str
    value: str
    default: str | None
    """None if it is not known: a key of Apache's broker."""
    changeable: bool | None
    """Whether it can be changed while the server runs; None if that is not known."""

    @property
    def differs(self) -> bool:
        """Whether it differs from the default, as far as that is known."""
        return self.value != self.default


class ServerSettings(Struct, frozen=True, kw_only=True):
    """All settings of one broker or name server."""

    address: str
    broker: str | None = None
    """The broker's name; None of a name server."""
    broker_id: int | None = None
    settings: Mapping[str, Setting] = {}
    silence: str = ""
    """Why it does not answer; empty if it does."""

    @property
    def is_slave(self) -> bool:
        """Whether it is a slave."""
        return self.broker_id not in (None, MASTER_ID)

    @property
    def title(self) -> str:
        """What to call it in a table."""
        if self.broker is None:
            return f"namesrv {self.address}"
        return self.broker if self.broker_id == MASTER_ID else f"{self.broker} slave {self.broker_id}"


class PlannedChange(Struct, frozen=True, kw_only=True):
    """A setting of one server before and after a change."""

    server: ServerSettings
    key: str
    before: str
    after: str


class SettingsPlan(Struct, frozen=True, kw_only=True):
    """What a change of settings changes."""

    changes: tuple[PlannedChange, ...]
    silent_slaves: Mapping[str, str] = {}
    """Slaves that keep their settings because they do not answer or refuse, by title, and why."""


class Settings:
    """Reads and changes the configuration of servers."""

    def __init__(self, api: BrokerApi) -> None:
        self._api = api
        self._calls = AdminCalls(api.remoting)
        self._changes = MaintenanceCalls(api.remoting)
        self._namesrv = NamesrvCalls(api)

    async def of_brokers(self, broker: str | None = None) -> list[ServerSettings]:
        """Return the settings of all brokers and their slaves, or of those of one name; raises ClientError."""
        table = (await self._api.cluster_info()).broker_addr_table
        if broker is not None and broker not in table:
            raise ClientError(f"no name server knows a broker {broker!r}{_nearest(broker, table)}")
        servers = [
            ServerSettings(address=address, broker=name, broker_id=int(broker_id))
            for name, data in sorted(table.items())
            for broker_id, address in sorted(data.broker_addrs.items())
            if broker in (None, name)
        ]
        return await gather_limited(servers, self._of_broker)

    async def of_name_servers(self) -> list[ServerSettings]:
        """Return the settings of all name servers."""
        return await gather_limited(await self._namesrv.addresses(), self._of_name_server)

    async def plan_set(
        self, values: Mapping[str, str], *, broker: str | None = None, name_servers: bool = False
    ) -> SettingsPlan:
        """Return what `set` would change, and change nothing.

        Raises ClientError if a key is unknown or cannot be changed while servers run, a value is wrong, or a master or
        name server does not answer.
        """
        if not values:
            raise ClientError("nothing to change: give key=value")
        servers = await self.of_name_servers() if name_servers else await self._brokers(broker)
        silent = [server for server in servers if server.silence]
        for server in silent:
            if not server.is_slave:
                raise ClientError(f"{server.title} does not answer, so nothing was changed: {server.silence}")
        changed = [server for server in servers if not server.silence]
        for server in changed:
            _check(values, server, NAMESRV_TABLE if name_servers else BROKER_TABLE)
        changes = (
            PlannedChange(server=server, key=key, before=server.settings[key].value, after=value)
            for server in changed
            for key, value in values.items()
        )
        return SettingsPlan(changes=tuple(changes), silent_slaves={one.title: one.silence for one in silent})

    async def set(
        self, values: Mapping[str, str], *, broker: str | None = None, name_servers: bool = False
    ) -> SettingsPlan:
        """Change settings of all brokers and their slaves, of one name, or of all name servers; return what changed.

        They are in force and saved on return. Raises ClientError as `plan_set` does, with nothing changed, or names the
        server that refused and those that were changed before it.
        """
        plan = await self.plan_set(values, broker=broker, name_servers=name_servers)
        change = self._namesrv.change_settings if name_servers else self._changes.change_settings
        done: list[str] = []
        refused: dict[str, str] = {}
        for server in {change.server.address: change.server for change in plan.changes}.values():
            try:
                await change(server.address, values)
            except PyroMQError as error:
                if server.is_slave:
                    refused[server.title] = str(error)
                    continue
                changed = f"; changed before it: {', '.join(done)}" if done else "; nothing was changed"
                raise ClientError(f"{server.title} did not take it: {error}{changed}") from error
            done.append(server.title)
            logger.info("settings changed server=%s %s", server.address, dict(values))
        return replace(
            plan,
            changes=tuple(change for change in plan.changes if change.server.title not in refused),
            silent_slaves={**plan.silent_slaves, **refused},
        )

    async def _brokers(self, broker: str | None) -> list[ServerSettings]:
        """Return the brokers to change, masters first."""
        servers = await self.of_brokers(broker)
        if all(server.is_slave for server in servers):
            raise ClientError(f"{broker} has no master now" if broker else "no name server knows a master")
        return sorted(servers, key=lambda server: server.is_slave)

    async def _of_broker(self, server: ServerSettings) -> ServerSettings:
        return await _asked(server, self._calls.broker_config, _broker_settings)

    async def _of_name_server(self, address: str) -> ServerSettings:
        return await _asked(ServerSettings(address=address), self._namesrv.settings, _namesrv_settings)


async def _asked(
    server: ServerSettings,
    ask: Callable[[str], Awaitable[Mapping[str, str]]],
    read: Callable[[Mapping[str, str]], Iterable[Setting]],
) -> ServerSettings:
    """Return a server with its settings, or with why it does not say them."""
    try:
        values = await ask(server.address)
    except AccessDenied:
        raise
    except PyroMQError as error:
        return replace(server, silence=str(error))
    return replace(server, settings={setting.key: setting for setting in read(values)})


def _broker_settings(values: Mapping[str, str]) -> Iterator[Setting]:
    defaults = _broker_defaults()
    is_ours = OURS in values
    for key, value in sorted(values.items()):
        changeable = key in CHANGEABLE if is_ours else None
        yield Setting(key=key, value=value, default=defaults.get(key), changeable=changeable)


@cache
def _broker_defaults() -> Mapping[str, str]:
    return settings_of(broker_config({}))


def _namesrv_settings(values: Mapping[str, str]) -> Iterator[Setting]:
    defaults = _namesrv_defaults()
    for key, value in sorted(values.items()):
        yield Setting(key=key, value=value, default=defaults.get(key), changeable=key == ORDER_MESSAGE_ENABLE)


@cache
def _namesrv_defaults() -> Mapping[str, str]:
    config = NameServerConfig()
    shown = show_settings(NAMESRV_TABLE.keys, config)
    return shown | {"serverChannelMaxIdleTimeSeconds": f"{config.idle_timeout:g}", **_NAMESRV_FIXED}


_NAMESRV_FIXED = {"clusterTest": "false", "productEnvName": "center"}


def _check(values: Mapping[str, str], server: ServerSettings, table: KeyTable) -> None:
    """Raise ClientError if a server does not have a key, does not let it change, or would refuse its value."""
    for key, value in values.items():
        setting = server.settings.get(key)
        if setting is None:
            raise ClientError(f"{server.title} has no setting {key!r}{_nearest(key, server.settings)}")
        if setting.changeable is False:
            raise ClientError(
                f"{key} cannot be changed while {server.title} runs: set it in its configuration file and restart it"
            )
        if "\n" in value or "\r" in value:
            raise ClientError(f"the value of {key} has a line break")
        if setting.changeable and key in table.keys:
            try:
                table.keys[key].read(value)
            except ValueError as error:
                raise ClientError(f"{key} {error}") from None


def _nearest(name: str, known: Iterable[str]) -> str:
    nearest = get_close_matches(name, list(known), n=1)
    return f"; did you mean {nearest[0]}?" if nearest else ""
