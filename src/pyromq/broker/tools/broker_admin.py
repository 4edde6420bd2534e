"""What administrators ask about the broker itself: its settings, how it is doing, and what it has counted."""

from __future__ import annotations

import shutil
from collections.abc import Awaitable, Callable, Mapping

from pyromq.broker.config.broker_config import settings_of
from pyromq.broker.config.live_settings import LiveSettings
from pyromq.broker.stats.broker_stats import BrokerStats, Totals
from pyromq.broker.tables.topic_table import TopicTable
from pyromq.clock import Clock
from pyromq.errors import BrokerError
from pyromq.protocol.bodies import KVTable, encode
from pyromq.protocol.codes import VERSION
from pyromq.protocol.command import RemotingCommand, response
from pyromq.protocol.headers.admin import GetBrokerConfigResponseHeader, ViewBrokerStatsDataRequestHeader
from pyromq.protocol.messages.record import read_head
from pyromq.remoting.connection import Connection
from pyromq.store.files import DiskUsage
from pyromq.store.read.readable import ReadableStore
from pyromq.store.retention.retention import used_percent

VERSION_TEXT = "V4_9_8"  # the release whose number we announce

# What does not exist here, or is not measured; `mqadmin` prints errors where a figure is missing.
_NOT_HERE = """
sendThreadPoolQueueSize pullThreadPoolQueueSize queryThreadPoolQueueSize EndTransactionQueueSize
sendThreadPoolQueueCapacity pullThreadPoolQueueCapacity queryThreadPoolQueueCapacity
EndTransactionThreadPoolQueueCapacity sendThreadPoolQueueHeadWaitTimeMills pullThreadPoolQueueHeadWaitTimeMills
queryThreadPoolQueueHeadWaitTimeMills pageCacheLockTimeMills dispatchBehindBytes remainTransientStoreBufferNumbs
putMessageEntireTimeMax putMessageFailedTimes putMessageDistributeTime dispatchMaxBuffer putLatency99 putLatency999
"""


class BrokerHandlers:
    """Describes this broker to tools."""

    def __init__(
        self,
        settings: LiveSettings,
        clock: Clock,
        *,
        store: ReadableStore,
        topics: TopicTable,
        stats: BrokerStats,
        register: Callable[[], Awaitable[None]],
    ) -> None:
        self._settings = settings
        self._config = settings.current
        self._register = register
        self._clock = clock
        self._store = store
        self._topics = topics
        self._stats = stats
        self._started_ms = clock.now_ms()
        self.more_figures: list[Callable[[], Mapping[str, str]]] = []
        """Whatever else has figures to show, or better ones, by RocketMQ's names."""

    def settings(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Return the settings as lines of a broker.conf."""
        lines = "".join(f"{key}={value}\n" for key, value in settings_of(self._settings.current).items())
        header = GetBrokerConfigResponseHeader(version=encode(self._topics.version).decode())
        return response(request, header=header, body=lines.encode())

    async def change_settings(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Change settings that can be changed while the broker runs; answer when that is saved and in force."""
        if "brokerPermission" in await self._settings.change(request.body, connection.peer):
            await self._register()
        return response(request)

    def runtime_info(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Return the figures that `mqadmin clusterList` and `brokerStatus` show."""
        table = self._figures()
        for more in self.more_figures:
            table |= more()
        return response(request, body=encode(KVTable(table=table)))

    def _figures(self) -> dict[str, str]:
        store, totals = self._store, self._stats.totals()
        usage = shutil.disk_usage(self._config.store.root)
        ratio = str(used_percent(DiskUsage(usage.used, usage.free)) / 100)
        figures = {
            **dict.fromkeys(_NOT_HERE.split(), "0"),
            "brokerVersion": str(VERSION),
            "brokerVersionDesc": VERSION_TEXT,
            "bootTimestamp": str(self._started_ms),
            "runtime": _duration_text(self._clock.now_ms() - self._started_ms),
            "startAcceptSendRequestTimeStamp": str(self._config.accept_sends_from_ms),
            "commitLogMinOffset": str(store.min_physical_offset),
            "commitLogMaxOffset": str(store.max_physical_offset),
            "remainHowManyDataToFlush": f"{store.max_physical_offset - store.flushed_offset} B",
            "commitLogDiskRatio": ratio,
            f"commitLogDiskRatio_{self._config.store.commit_log_path}": ratio,
            "consumeQueueDiskRatio": ratio,
            "commitLogDirCapacity": f"Total : {_gibibytes(usage.total)}, Free : {_gibibytes(usage.free)}.",
            "earliestMessageTimeStamp": str(self._earliest_ms()),
            "putMessageTimesTotal": str(totals.puts),
            "putMessageSizeTotal": str(totals.put_bytes),
            "putMessageAverageSize": str(totals.put_bytes / totals.puts if totals.puts else 0.0),
            "putTps": self._stats.rates.text("puts"),
            "getTransferedTps": self._stats.rates.text("gets"),
            "getFoundTps": self._stats.rates.text("found"),
            "getMissTps": self._stats.rates.text("missed"),
            "getTotalTps": self._stats.rates.text("found", "missed"),
            "getMessageEntireTimeMax": str(round(self._stats.longest_get_ms)),
        }
        return figures | self._daily("msgPutTotal", "puts", totals) | self._daily("msgGetTotal", "gets", totals)

    def _daily(self, name: str, field: str, totals: Totals) -> dict[str, str]:
        moments = {
            "YesterdayMorning": self._stats.rates.yesterday_morning,
            "TodayMorning": self._stats.rates.this_morning,
            "TodayNow": totals,
        }
        return {name + moment: str(getattr(counted, field)) for moment, counted in moments.items()}

    def _earliest_ms(self) -> int:
        record = self._store.read(self._store.min_physical_offset)
        return read_head(record).store_timestamp_ms if record else -1


def _gibibytes(count: int) -> str:
    return f"{count / (1 << 30):.1f} GiB"


def _duration_text(duration_ms: int) -> str:
    minutes, seconds = divmod(duration_ms // 1000, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"[ {days} days, {hours} hours, {minutes} minutes, {seconds} seconds ]"


class StatsHandlers:
    """Shows figures under RocketMQ's names."""

    def __init__(self, cluster: str, stats: BrokerStats) -> None:
        self._cluster = cluster
        self._stats = stats

    def view(self, request: RemotingCommand, connection: Connection) -> RemotingCommand:
        """Return one figure, such as TOPIC_PUT_NUMS of a topic."""
        header = request.header(ViewBrokerStatsDataRequestHeader)
        data = self._stats.data(header.stats_name, header.stats_key, self._cluster)
        if data is None:
            raise BrokerError(f"nothing was counted as {header.stats_name} of {header.stats_key}")
        return response(request, body=encode(data))
