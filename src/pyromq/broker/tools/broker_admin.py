"""What administrators ask about the broker itself: its settings, how it is doing, and what it has counted."""

from __future__ import annotations

from pyromq.broker.config.broker_config import settings_of
from pyromq.broker.parts import Parts
from pyromq.broker.stats.runtime_info import runtime_table
from pyromq.errors import BrokerError
from pyromq.protocol.bodies import KVTable, encode
from pyromq.protocol.command import RemotingCommand, response
from pyromq.protocol.headers.admin import GetBrokerConfigResponseHeader, ViewBrokerStatsDataRequestHeader
from pyromq.remoting.connection import Connection
from pyromq.settings.netty_keys import TLS_OLD_SPELLINGS
from pyromq.settings.properties_file import parse_properties


class BrokerHandlers:
    """Describes this broker to tools."""

    def __init__(self, parts: Parts) -> None:
        self._settings = parts.settings
        self._topics = parts.topics
        self._figures = parts.figures
        self._register = parts.register

    def settings(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Return the settings as lines of a broker.conf."""
        settings = settings_of(self._settings.current)
        old = {name: settings[current] for name, current in TLS_OLD_SPELLINGS.items()}  # exportConfigs reads it
        lines = "".join(f"{key}={value}\n" for key, value in (settings | old).items())
        header = GetBrokerConfigResponseHeader(version=encode(self._topics.version).decode())
        return response(request, header=header, body=lines.encode())

    async def change_settings(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Change settings that can be changed while the broker runs; answer when that is saved and in force."""
        changed = await self._settings.change(request.body, connection.peer)
        if "brokerPermission" in changed or "pyromqWritesPaused" in changed:
            await self._register()
        return response(request)

    def state(self, request: RemotingCommand) -> dict[str, str]:
        """Return the settings that a request names, for the audit log."""
        shown = settings_of(self._settings.current)
        return {key: shown[key] for key in parse_properties(request.body.decode(errors="replace")) if key in shown}

    def runtime_info(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Return the figures that `mqadmin clusterList` and `brokerStatus` show."""
        return response(request, body=encode(KVTable(table=runtime_table(self._figures()))))


class StatsHandlers:
    """Shows figures under RocketMQ's names."""

    def __init__(self, parts: Parts) -> None:
        self._cluster = parts.config.cluster
        self._stats = parts.stats

    def view(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Return one figure, such as TOPIC_PUT_NUMS of a topic."""
        header = request.header(ViewBrokerStatsDataRequestHeader)
        data = self._stats.data(header.stats_name, header.stats_key, self._cluster)
        if data is None:
            raise BrokerError(f"nothing was counted as {header.stats_name} of {header.stats_key}")
        return response(request, body=encode(data))
