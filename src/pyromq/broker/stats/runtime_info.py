"""Runtime information (GET_BROKER_RUNTIME_INFO, 28): the broker's figures under RocketMQ's names and in its notation.

The rows here describe this run of the broker. Those of its parts are beside the parts.
"""

from __future__ import annotations

from typing import Final

from pyromq.broker.config.broker_config import BrokerConfig
from pyromq.clock import Clock
from pyromq.figures import BoundFigures, Figure, Figures, Kind
from pyromq.lane import lane_text
from pyromq.protocol.codes import VERSION

VERSION_TEXT: Final = "V4_9_8"  # the release whose number we announce

# These do not exist here, or not in a slave. `mqadmin` prints errors if one is missing.
_NOT_HERE: Final = """
sendThreadPoolQueueSize pullThreadPoolQueueSize queryThreadPoolQueueSize EndTransactionQueueSize
sendThreadPoolQueueCapacity pullThreadPoolQueueCapacity queryThreadPoolQueueCapacity
EndTransactionThreadPoolQueueCapacity sendThreadPoolQueueHeadWaitTimeMills pullThreadPoolQueueHeadWaitTimeMills
queryThreadPoolQueueHeadWaitTimeMills pageCacheLockTimeMills dispatchBehindBytes remainTransientStoreBufferNumbs
putMessageEntireTimeMax putMessageFailedTimes putMessageDistributeTime dispatchMaxBuffer putLatency99 putLatency999
"""


def runtime_table(figures: Figures) -> dict[str, str]:
    """Return the texts that `mqadmin clusterList` and `brokerStatus` show, by RocketMQ's names."""
    table = dict.fromkeys(_NOT_HERE.split(), "0")
    for row, value in figures.read(lambda row: bool(row.runtime)):
        if "{}" in row.runtime:
            table |= {row.runtime.format(key): row.runtime_text(item) for key, item in value.items()}
        else:
            table[row.runtime] = row.runtime_text(value)
    return table


class BrokerRun:
    """This run of a broker: its release and when it started."""

    def __init__(self, config: BrokerConfig, clock: Clock) -> None:
        self.accepts_sends_from_ms = config.accept_sends_from_ms
        self.started_ms = clock.now_ms()
        self._started = clock.monotonic()
        self._clock = clock
        self.lane = lane_text()

    @property
    def duration_ms(self) -> int:
        """How long it has run."""
        return int((self._clock.monotonic() - self._started) * 1000)

    def figures(self) -> BoundFigures[BrokerRun]:
        """Return the figures of this run."""
        return BoundFigures(_FIGURES, lambda: self)


def _duration_text(duration_ms: int) -> str:
    minutes, seconds = divmod(duration_ms // 1000, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"[ {days} days, {hours} hours, {minutes} minutes, {seconds} seconds ]"


_FIGURES: Final[tuple[Figure[BrokerRun], ...]] = (
    Figure(
        "release_number",
        "RocketMQ's number of the release announced.",
        Kind.TEXT,
        lambda run: int(VERSION),
        runtime="brokerVersion",
        in_varz=False,
    ),
    Figure(
        "release",
        "RocketMQ's name of the release announced.",
        Kind.TEXT,
        lambda run: VERSION_TEXT,
        runtime="brokerVersionDesc",
        in_varz=False,
    ),
    Figure(
        "lane",
        "What serves plain messages: the plain lane, or the native one with its parts.",
        Kind.TEXT,
        lambda run: run.lane,
    ),
    Figure(
        "started_ms",
        "When the broker started, as time since the epoch.",
        Kind.GAUGE,
        lambda run: run.started_ms,
        runtime="bootTimestamp",
        in_varz=False,
        metric="start_timestamp_seconds",
    ),
    Figure(
        "running_ms",
        "How long the broker has run.",
        Kind.GAUGE,
        lambda run: run.duration_ms,
        runtime="runtime",
        runtime_text=_duration_text,
        in_varz=False,
    ),
    Figure(
        "accepts_sends_from_ms",
        "From when on sends are accepted, in ms since the epoch.",
        Kind.GAUGE,
        lambda run: run.accepts_sends_from_ms,
        runtime="startAcceptSendRequestTimeStamp",
        in_varz=False,
        in_metrics=False,
        exporter="rocketmq_brokeruntime_start_accept_sendrequest_time",
    ),
)
