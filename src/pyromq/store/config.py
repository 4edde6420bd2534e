"""Settings of a store; every one has a default but the directory."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

from msgspec import Struct

from pyromq.errors import ConfigError
from pyromq.protocol.delay_levels import DEFAULT_DELAY_LEVELS_MS
from pyromq.protocol.messages.message import MAX_BODY_SIZE

FlushDiskType = Literal["ASYNC_FLUSH", "SYNC_FLUSH"]

MIB: Final = 1 << 20
LONGEST_FLUSH_INTERVAL_MS: Final = 900
"""Of a server: what a power cut takes under ASYNC_FLUSH is promised to stay under a second."""

_ENTRY_SIZE: Final = 20


class StoreConfig(Struct, frozen=True, kw_only=True):
    """How a store keeps its files and when it flushes them."""

    root: Path
    """The store's directory (`storePathRootDir`)."""
    commit_log: Path | None = None
    """The directory of the log (`storePathCommitLog`); `commitlog` below the root unless given."""
    commit_log_file_size: int = 1 << 30
    """Bytes of each file of the log (`mappedFileSizeCommitLog`)."""
    consume_queue_file_size: int = 6_000_000
    """Bytes of each file of a consume queue (`mappedFileSizeConsumeQueue`), whole entries of 20 bytes."""
    reserve_step: int = 16 * MIB
    """Bytes of disk space reserved ahead of the log's end at a time: a full disk is noticed before it is needed."""

    max_message_size: int = MAX_BODY_SIZE
    """Bytes of the largest body that is stored (`maxMessageSize`)."""

    flush_disk_type: FlushDiskType = "ASYNC_FLUSH"
    """Whether a message counts as durable before it is flushed (`flushDiskType`)."""
    flush_interval_ms: int = 500
    """Pause between two flushes of the log (`flushIntervalCommitLog`); bounds what a power cut can take."""
    quick_flush_us: int = 300
    """Microseconds that a flush may typically take for the loop to wait for it, 0 for never (`pyromqQuickFlush`)."""
    prepared_bytes: int = 512 * 1024
    """Zeros written ahead of the log's end at a time under SYNC_FLUSH, 0 for none (`pyromqPreparedBytes`)."""
    checkpoint_interval_ms: int = 5_000
    """Pause between two flushes of the consume queues; bounds what a restart after a crash has to read again."""
    shows_confirmed_only: bool = False
    """Whether a message is visible only when MessageStore.confirm() has covered it: set where brokers fail over."""

    access_message_in_memory_max_ratio: int = 40
    """Percent of the machine's memory within which the end of the log counts as cached."""
    physical_memory: int | None = None
    """Bytes of memory of the machine; found out unless given."""
    max_transfer_count_in_memory: int = 32
    max_transfer_bytes_in_memory: int = 256 * 1024
    """Most messages and bytes of one read of the cached end of the log (`maxTransfer…OnMessageInMemory`)."""
    max_transfer_count_in_disk: int = 8
    max_transfer_bytes_in_disk: int = 64 * 1024
    """Most messages and bytes of one read further back (`maxTransfer…OnMessageInDisk`)."""

    max_open_files: int = 256
    """Descriptors kept open for consume queues and old files of the log, whatever number of queues there is."""
    max_mapped_files: int = 16
    """Files of the log that are mapped for reading at a time."""
    mapped_tail: int = 32 * MIB
    """How many of the newest bytes of the log are taken to be in memory without asking the system."""

    message_index: bool = True
    """Whether messages can be found by key (`messageIndexEnable`)."""
    max_hash_slots: int = 5_000_000
    max_index_entries: int = 20_000_000
    """Slots and entries of an index file (`maxHashSlotNum`, `maxIndexNum`); a store keeps those it was made with."""
    max_query_count: int = 64
    """Most messages that a query by key answers with (`maxMsgsNumBatch`)."""
    unique_key_query_count: int = 32
    """How many messages a query by unique key asks for, whatever it says (`defaultQueryMaxNum`)."""

    file_reserved_hours: int = 72
    """How long a file of the log is kept after its last message (`fileReservedTime`)."""
    delete_when: tuple[int, ...] = (4,)
    """The hours, local time, in which expired files are removed (`deleteWhen`)."""
    disk_max_used_space_ratio: int = 75
    """Percent of the disk above which expired files are removed at any hour (`diskMaxUsedSpaceRatio`)."""
    disk_space_clean_forcibly_ratio: float = 0.85
    """Part of the disk above which the oldest files are removed whatever their age (`diskSpaceCleanForciblyRatio`)."""
    disk_space_warning_level_ratio: float = 0.90
    """Part of the disk above which no message is taken (`diskSpaceWarningLevelRatio`)."""
    clean_file_forcibly: bool = True
    """Whether files that have not expired are removed from a full disk (`cleanFileForciblyEnable`)."""
    max_store_bytes: int = 0
    """Most bytes of the log, 0 for any number (`maxStoreBytes`); queues and index come on top, some percent of it."""

    delay_levels_ms: tuple[int, ...] = DEFAULT_DELAY_LEVELS_MS
    """Milliseconds of each delay level (`messageDelayLevel`): a delayed message's entry holds its delivery time."""

    def __post_init__(self) -> None:
        if self.flush_disk_type not in ("ASYNC_FLUSH", "SYNC_FLUSH"):
            raise ConfigError(f"flushDiskType: {self.flush_disk_type!r} is neither ASYNC_FLUSH nor SYNC_FLUSH")
        for name in ("commit_log_file_size", "consume_queue_file_size", "reserve_step", "max_message_size",
                     "flush_interval_ms", "checkpoint_interval_ms", "max_open_files", "max_mapped_files",
                     "max_hash_slots", "max_index_entries", "max_query_count", "unique_key_query_count"):  # fmt: skip
            if getattr(self, name) <= 0:
                raise ConfigError(f"{name}: {getattr(self, name)} is not a positive number")
        if self.max_index_entries < 2:
            raise ConfigError("max_index_entries: 1 leaves room for no key, for the first entry is never used")

    @property
    def waits_for_flush(self) -> bool:
        """Whether a message is visible, and may be acknowledged, only when it is flushed."""
        return self.flush_disk_type == "SYNC_FLUSH"

    @property
    def commit_log_path(self) -> Path:
        """The directory of the log's files."""
        return self.commit_log or self.root / "commitlog"

    @property
    def queue_file_size(self) -> int:
        """Bytes of a consume queue's file, rounded up to whole entries."""
        return -(-self.consume_queue_file_size // _ENTRY_SIZE) * _ENTRY_SIZE
