"""Which files of the log may go, and whether the disk has room for more messages. RocketMQ's rules:

    hour of deleteWhen, disk above diskMaxUsedSpaceRatio, or asked for      files older than fileReservedTime go
    disk above diskSpaceCleanForciblyRatio                                  files go whatever their age
    disk above diskSpaceWarningLevelRatio                                   … and no message is taken

and ours: a log above maxStoreBytes loses its oldest files. Oldest first, ten files a pass, never the last one.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from enum import IntEnum
from itertools import islice, takewhile
from pathlib import Path
from typing import Final

from pyromq.store.commit_log import CommitLog
from pyromq.store.config import StoreConfig
from pyromq.store.files import DiskUsage, OsFiles, disk_usage

logger = logging.getLogger(__name__)

_FILES_A_PASS: Final = 10
_MANUAL_PASSES: Final = 20
_HOUR_MS: Final = 3_600_000
_LARGEST_STEP_MS: Final = _HOUR_MS  # of the clock between two passes


class DiskLevel(IntEnum):
    """How full the disk is, by what follows from it."""

    FINE = 0
    EXPIRED_FILES_GO = 1
    ALL_FILES_GO = 2
    NO_MORE_MESSAGES = 3


_CONSEQUENCES: Final = {
    DiskLevel.FINE: "there is room again",
    DiskLevel.EXPIRED_FILES_GO: "expired files are removed at any hour",
    DiskLevel.ALL_FILES_GO: "the oldest files are removed whatever their age",
    DiskLevel.NO_MORE_MESSAGES: "the oldest files are removed whatever their age, and no message is taken",
}


class Retention:
    """Judges age, size and disk; removes nothing itself."""

    def __init__(self, config: StoreConfig, files: OsFiles, now_ms: Callable[[], int]) -> None:
        self.level = DiskLevel.FINE
        self.disk_percent = 0
        """How full the fuller of the two disks is, in whole percent, rounded up."""
        self.usable = 0
        """The bytes that are free on the one that has fewer."""
        self._config = config
        self._files = files
        self._now_ms = now_ms
        self._manual_passes = 0
        self._steady = _SteadyTime(now_ms)

    def configure(self, config: StoreConfig) -> None:
        """Take over other limits."""
        self._config = config

    def check_disk(self) -> None:
        """Look how full the disks of log and queues are."""
        try:
            disks = [self._usage(self._config.root), self._usage(self._config.commit_log_path)]
        except OSError as error:
            logger.warning("cannot tell how full the disk is: %s", error)
            return
        self.disk_percent = max(map(used_percent, disks))
        self.usable = min(disk.usable for disk in disks)
        level = self._level(self.disk_percent)
        if level is not self.level:
            log = logger.info if level is DiskLevel.FINE else logger.warning
            log("disk used=%d%%: %s", self.disk_percent, _CONSEQUENCES[level])
            self.level = level

    def _usage(self, path: Path) -> DiskUsage:
        return disk_usage(self._files, str(path.absolute()))

    def _level(self, percent: int) -> DiskLevel:
        if percent > self._config.disk_space_warning_level_ratio * 100:
            return DiskLevel.NO_MORE_MESSAGES
        if percent > self._config.disk_space_clean_forcibly_ratio * 100:
            return DiskLevel.ALL_FILES_GO
        return DiskLevel.EXPIRED_FILES_GO if percent > self._config.disk_max_used_space_ratio else DiskLevel.FINE

    def delete_soon(self) -> None:
        """Have expired files removed in the next passes, at any hour."""
        self._manual_passes = _MANUAL_PASSES

    def log_start(self, log: CommitLog, durable_end: int) -> int:
        """Return where the log should begin from this pass on; what is not durable yet stays."""
        now_ms = self._now_ms()
        by_age = self._steady.holds(now_ms) and self._is_time(now_ms)
        last = min(log.segments.file_start(durable_end), log.segments.stop - log.file_size)
        start = log.start
        for candidate in islice(range(log.start, last, log.file_size), _FILES_A_PASS):
            if not (self._is_excess(log, candidate) or (by_age and self._is_expired(log, candidate, now_ms))):
                break
            start = candidate + log.file_size
        return start

    def expired_end(self, log: CommitLog, durable_end: int) -> int:
        """Return where the log would begin if all expired files went now."""
        now_ms = self._now_ms()
        last = min(log.segments.file_start(durable_end), log.segments.stop - log.file_size)
        files = range(log.start, last, log.file_size)
        gone = takewhile(lambda start: self._is_excess(log, start) or self._is_expired(log, start, now_ms), files)
        return max((start + log.file_size for start in gone), default=log.start)

    def _is_time(self, now_ms: int) -> bool:
        if self._manual_passes:
            self._manual_passes -= 1
            return True
        return self.level > DiskLevel.FINE or time.localtime(now_ms / 1000).tm_hour in self._config.delete_when

    def _is_excess(self, log: CommitLog, start: int) -> bool:
        """Tell whether a file goes whatever its age."""
        if self.level >= DiskLevel.ALL_FILES_GO and self._config.clean_file_forcibly:
            return True
        return 0 < self._config.max_store_bytes < log.end - start

    def _is_expired(self, log: CommitLog, start: int, now_ms: int) -> bool:
        try:
            modified_ms = self._files.modified_ms(log.segments.path(start))
        except FileNotFoundError:
            return True  # somebody removed it
        return modified_ms + self._config.file_reserved_hours * _HOUR_MS <= now_ms


class _SteadyTime:
    """Distrusts a clock that has just jumped ahead: one set wrong for a moment must not expire everything."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._last_ms = now_ms()
        self._trusted_from_ms = 0

    def holds(self, now_ms: int) -> bool:
        """Tell whether ages can be counted by this time; asked at every pass."""
        step_ms, self._last_ms = now_ms - self._last_ms, now_ms
        if step_ms > _LARGEST_STEP_MS:
            self._trusted_from_ms = now_ms + _HOUR_MS
            logger.warning("the clock jumped ahead by %d s: no file expires within the next hour", step_ms // 1000)
        elif step_ms < 0:
            self._trusted_from_ms = min(self._trusted_from_ms, now_ms + _HOUR_MS)
        return now_ms >= self._trusted_from_ms


def used_percent(usage: DiskUsage) -> int:
    """Return how full a disk is in whole percent, rounded up as `df` does."""
    total = usage.used + usage.usable
    return -(-usage.used * 100 // total) if total else 0
