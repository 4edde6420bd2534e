"""Figures of the store: where its log begins and ends, what is not flushed yet, how full the disk is."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from time import perf_counter
from typing import Final, NamedTuple

from pyromq.figures import BoundFigures, Figure, Kind
from pyromq.protocol.messages.record import read_head
from pyromq.store.config import StoreConfig
from pyromq.store.files import DiskUsage
from pyromq.store.message_store import MessageStore
from pyromq.store.read.readable import ReadableStore
from pyromq.store.retention.retention import used_percent

NO_MESSAGE: Final = -1


class DiskReading(NamedTuple):
    """The disk that holds a store, and how far back the store reaches."""

    total: int
    free: int
    used_ratio: float
    commit_log_path: str
    earliest_ms: int
    """When the oldest message was stored; NO_MESSAGE if there is none."""


def log_figures(store: ReadableStore) -> BoundFigures[ReadableStore]:
    """Return the figures of any store."""
    return BoundFigures(_LOG, lambda: store)


def disk_figures(store: ReadableStore, config: StoreConfig) -> BoundFigures[DiskReading]:
    """Return the figures of the disk that holds a store."""
    return BoundFigures(_DISK, lambda: _read_disk(store, config))


def writing_figures(store: MessageStore) -> BoundFigures[MessageStore]:
    """Return the figures that only a store has that is written to."""
    return BoundFigures(_WRITING, lambda: store)


def _read_disk(store: ReadableStore, config: StoreConfig) -> DiskReading:
    usage = shutil.disk_usage(config.root)
    ratio = used_percent(DiskUsage(usage.used, usage.free)) / 100
    record = store.read(store.min_physical_offset)
    earliest_ms = read_head(record).store_timestamp_ms if record else NO_MESSAGE
    return DiskReading(usage.total, usage.free, ratio, str(config.commit_log_path), earliest_ms)


def _gibibytes(count: int) -> str:
    return f"{count / (1 << 30):.1f} GiB"


_LOG: Final[tuple[Figure[ReadableStore], ...]] = (
    Figure(
        "commit_log_min_offset",
        "Where the log begins.",
        Kind.GAUGE,
        lambda store: store.min_physical_offset,
        runtime="commitLogMinOffset",
        exporter="rocketmq_brokeruntime_commitlog_minoffset",
    ),
    Figure(
        "commit_log_max_offset",
        "Where the log ends.",
        Kind.GAUGE,
        lambda store: store.max_physical_offset,
        runtime="commitLogMaxOffset",
        exporter="rocketmq_brokeruntime_commitlog_maxoffset",
    ),
    Figure(
        "unflushed_bytes",
        "Bytes of the log that are not durable yet.",
        Kind.GAUGE,
        lambda store: store.max_physical_offset - store.flushed_offset,
        runtime="remainHowManyDataToFlush",
        runtime_text=lambda count: f"{count} B",
        exporter="rocketmq_brokeruntime_remain_howmanydata_toflush",
    ),
    Figure(
        "commit_log_flushed_offset",
        "Up to where the log is durable.",
        Kind.GAUGE,
        lambda store: store.flushed_offset,
    ),
    Figure("writable", "Whether messages are accepted.", Kind.GAUGE, lambda store: store.writable),
)

_DISK: Final[tuple[Figure[DiskReading], ...]] = (
    Figure(
        "commit_log_disk_ratio",
        "Used part of the disk that holds the log, from 0 to 1.",
        Kind.GAUGE,
        lambda disk: disk.used_ratio,
        runtime="commitLogDiskRatio",
        in_varz=False,
        exporter="rocketmq_brokeruntime_commitlog_disk_ratio",
    ),
    Figure(
        "commit_log_disk_ratio_by_path",
        "Used part of the disk, for each directory that holds a part of the log.",
        Kind.GAUGE,
        lambda disk: {disk.commit_log_path: disk.used_ratio},
        label="path",
        runtime="commitLogDiskRatio_{}",
        in_varz=False,
        in_metrics=False,
    ),
    Figure(
        "consume_queue_disk_ratio",
        "Used part of the disk that holds the consume queues, from 0 to 1.",
        Kind.GAUGE,
        lambda disk: disk.used_ratio,
        runtime="consumeQueueDiskRatio",
        in_varz=False,
        exporter="rocketmq_brokeruntime_consumequeue_disk_ratio",
    ),
    Figure(
        "commit_log_disk_bytes",
        "Size of the disk that holds the log, and what is free of it.",
        Kind.GAUGE,
        lambda disk: {"total": disk.total, "free": disk.free},
        label="part",
        runtime="commitLogDirCapacity",
        runtime_text=lambda disk: f"Total : {_gibibytes(disk['total'])}, Free : {_gibibytes(disk['free'])}.",
        in_varz=False,
        exporter="rocketmq_brokeruntime_commitlogdir_capacity_{}",
    ),
    Figure(
        "earliest_message_ms",
        "When the oldest message was stored, in ms since the epoch; -1 if there is none.",
        Kind.GAUGE,
        lambda disk: disk.earliest_ms,
        runtime="earliestMessageTimeStamp",
        in_varz=False,
        in_metrics=False,
        exporter="rocketmq_brokeruntime_earliest_message_timestamp",
    ),
)

_STEPS: Final = {
    "0ms": "[<=0ms]",
    "0to10ms": "[0~10ms]",
    "10to50ms": "[10~50ms]",
    "50to100ms": "[50~100ms]",
    "100to200ms": "[100~200ms]",
    "200to500ms": "[200~500ms]",
    "500to1s": "[500ms~1s]",
    "1to2s": "[1~2s]",
    "2to3s": "[2~3s]",
    "3to4s": "[3~4s]",
    "4to5s": "[4~5s]",
    "5to10s": "[5~10s]",
    "10stomore": "[10s~]",
}
"""The steps of `WriteTimes.messages`: rocketmq-exporter's names, and those in the runtime information."""


def _steps_text(messages: Mapping[str, int]) -> str:
    return " ".join(f"{name}:{messages[step]}" for step, name in _STEPS.items())


def _percentile(share: float, name: str, runtime: str, exporter: str) -> Figure[MessageStore]:
    return Figure(
        name,
        f"What {share * 100:g} % of the messages of the last full minute took at most to be written.",
        Kind.GAUGE,
        lambda store: store.write_times.percentile(share, perf_counter()) * 1000,
        runtime=runtime,
        runtime_text="{:.2f}".format,
        exporter=exporter,
    )


_WRITING: Final[tuple[Figure[MessageStore], ...]] = (
    Figure(
        "flush_disk_type",
        "Whether an acknowledged message is durable (SYNC_FLUSH) or will be soon (ASYNC_FLUSH).",
        Kind.TEXT,
        lambda store: store.config.flush_disk_type,
    ),
    Figure(
        "unflushed_ms",
        "How long the oldest message that is not durable has waited.",
        Kind.GAUGE,
        lambda store: store.flusher.unflushed_ms,
    ),
    Figure(
        "max_unflushed_ms",
        "The longest that a message has waited for its flush.",
        Kind.GAUGE,
        lambda store: store.flusher.max_unflushed_ms,
    ),
    Figure(
        "invisible_bytes",
        "Bytes of the log that consumers do not see yet: they wait for a flush, or for slaves to confirm them.",
        Kind.GAUGE,
        lambda store: store.flusher.undispatched_bytes,
        runtime="dispatchBehindBytes",
        exporter="rocketmq_brokeruntime_dispatch_behind_bytes",
    ),
    Figure(
        "longest_write_ms",
        "The longest write of the log.",
        Kind.GAUGE,
        lambda store: store.write_times.longest * 1000,
        runtime="putMessageEntireTimeMax",
        runtime_text=lambda value: str(round(value)),
        exporter="rocketmq_brokeruntime_putmessage_entire_time_max",
    ),
    _percentile(0.99, "write_p99_ms", "putLatency99", "rocketmq_brokeruntime_put_latency_99"),
    _percentile(0.999, "write_p999_ms", "putLatency999", "rocketmq_brokeruntime_put_latency_999"),
    Figure(
        "messages_written",
        "Messages written, by how long the write took.",
        Kind.COUNTER,
        lambda store: dict(zip(_STEPS, store.write_times.messages, strict=True)),
        label="took",
        runtime="putMessageDistributeTime",
        runtime_text=_steps_text,
        in_varz=False,
        exporter="rocketmq_brokeruntime_pmdt_{}",
    ),
    Figure("damaged_ranges", "Damaged parts of the log.", Kind.GAUGE, lambda store: len(store.fences)),
    Figure(
        "damaged_messages_left_out",
        "Messages that reads left out because they are damaged.",
        Kind.COUNTER,
        lambda store: store.fences.skipped,
    ),
    Figure(
        "disk_used_percent",
        "How full the disk is, as the cleaner last measured it.",
        Kind.GAUGE,
        lambda store: store.cleaner.retention.disk_percent,
    ),
)
