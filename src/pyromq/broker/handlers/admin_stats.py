"""VIEW_BROKER_STATS_DATA (315): what was counted over the last minute, hour and day."""

from __future__ import annotations

from collections.abc import Mapping

from pyromq.broker.stats import BrokerStats
from pyromq.errors import BrokerError
from pyromq.protocol.bodies import encode
from pyromq.protocol.codes import RequestCode
from pyromq.protocol.command import RemotingCommand, response
from pyromq.protocol.headers.admin import ViewBrokerStatsDataRequestHeader
from pyromq.remoting.connection import Connection, Handler


class StatsHandlers:
    """Shows figures under RocketMQ's names."""

    def __init__(self, cluster: str, stats: BrokerStats) -> None:
        self._cluster = cluster
        self._stats = stats

    def handlers(self) -> Mapping[int, Handler]:
        """Return who answers which request."""
        return {RequestCode.VIEW_BROKER_STATS_DATA: self.view}

    def view(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Return one figure, such as TOPIC_PUT_NUMS of a topic."""
        header = request.header(ViewBrokerStatsDataRequestHeader)
        data = self._stats.data(header.stats_name, header.stats_key, self._cluster)
        if data is None:
            raise BrokerError(f"nothing was counted as {header.stats_name} of {header.stats_key}")
        return response(request, body=encode(data))
