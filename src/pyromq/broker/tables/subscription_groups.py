"""What each consumer group may do: consume at all, broadcast, retry how often."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor
from typing import Final

from msgspec.structs import replace

from pyromq.broker.config.broker_config import BrokerConfig
from pyromq.broker.signals import Signal
from pyromq.broker.tables.changed_keys import ChangedKeys
from pyromq.broker.tables.table_parts import TableParts
from pyromq.broker.tables.table_saver import PrintTable, TableSaver
from pyromq.errors import BrokerError, GroupNotFound, LocalProtocolError
from pyromq.figures import BoundFigures, Figure, Kind
from pyromq.protocol.bodies import DataVersion, SubscriptionGroupConfig, SubscriptionGroupWrapper
from pyromq.protocol.names import BUILT_IN_GROUPS, MAX_QUEUES, check_group, is_system_group
from pyromq.store.small_files.table_file import TableFile
from pyromq.store.small_files.table_formats import GROUPS

logger = logging.getLogger(__name__)


class SubscriptionGroups:
    """All consumer groups by name, kept in subscriptionGroup.json."""

    def __init__(
        self,
        file: TableFile[SubscriptionGroupWrapper, SubscriptionGroupConfig],
        *,
        now_ms: Callable[[], int],
        auto_create: bool = True,
        limit: int = 10_000,
        max_queues: int = MAX_QUEUES,
        executor: Executor | None = None,
    ) -> None:
        self._max_queues = max_queues
        self.by_name = {name: SubscriptionGroupConfig(group_name=name) for name in BUILT_IN_GROUPS}
        self.version = DataVersion(timestamp=now_ms(), counter=0)
        self.saver = TableSaver(file, self._whole, lambda: self.version, executor)
        self.parts = TableParts(lambda: self.by_name, _row_of_answer, _answer, version=lambda: self.version)
        self.changed_keys: ChangedKeys[str] = ChangedKeys()
        """For slaves: which groups changed, were made or deleted."""
        self.changed: Signal[[]] = Signal()
        """A group is new, different or gone."""
        self._file = file
        self._now_ms = now_ms
        self._auto_create = auto_create
        self._limit = limit

    def configure(self, config: BrokerConfig) -> None:
        """Take over changed settings."""
        self._auto_create = config.auto_create_groups
        self._limit = config.max_groups

    def load(self) -> None:
        """Read the file over the built-in groups."""
        loaded = self._file.load()
        if loaded is None:
            return
        for name, config in loaded.subscription_group_table.items():
            if not 0 <= config.retry_queue_nums <= MAX_QUEUES:
                logger.warning("group with %d retry queues gets one group=%s", config.retry_queue_nums, name)
                config = replace(config, retry_queue_nums=1)
            self.by_name[name] = replace(config, group_name=name)
        self.version = loaded.data_version

    def find_or_create(self, name: str) -> SubscriptionGroupConfig:
        """Return the group, new if it may be created by use; raise GroupNotFound where it may not."""
        return self.by_name.get(name) or self._create(name)

    def update(self, config: SubscriptionGroupConfig) -> None:
        """Create the group or change it, as an administrator says; raise BrokerError for what no group can have."""
        _check_name(config.group_name)
        if not 0 <= config.retry_queue_nums <= self._max_queues:
            text = f"a group has 0 to {self._max_queues} retry queues, not {config.retry_queue_nums}"
            raise BrokerError(f"{text} (pyromqMaxQueuesPerTopic)", limit="pyromqMaxQueuesPerTopic")
        self.by_name[config.group_name] = config
        self.saver.changes.put(config.group_name, config)
        self.changed_keys.note(config.group_name)
        logger.info("group set group=%s", config.group_name)
        self._changed()

    def delete(self, name: str) -> None:
        """Forget a group."""
        if self.by_name.pop(name, None) is not None:
            self.saver.changes.remove(name)
            self.parts.note_removal()
            self.changed_keys.note(name)
            logger.info("group deleted group=%s", name)
            self._changed()

    def adopt(self, rows: Mapping[str, SubscriptionGroupConfig], removed: Iterable[str], version: DataVersion) -> None:
        """Take over rows of a master's table, and its version; saved soon."""
        for name in removed:
            if name not in BUILT_IN_GROUPS and self.by_name.pop(name, None) is not None:
                self.saver.changes.remove(name)
                self.parts.note_removal()
        for name, config in rows.items():
            self.by_name[name] = replace(config, group_name=name)
            self.saver.changes.put(name, self.by_name[name])
        self.version = version
        self.saver.request()
        self.changed()

    def figures(self) -> BoundFigures[SubscriptionGroups]:
        """Return the figures of this table."""
        return BoundFigures(_FIGURES, lambda: self)

    def snapshot(self) -> SubscriptionGroupWrapper:
        """Return the whole table as it is now."""
        return SubscriptionGroupWrapper(data_version=self.version, subscription_group_table=dict(self.by_name))

    def _create(self, name: str) -> SubscriptionGroupConfig:
        _check_name(name)
        if not (self._auto_create or is_system_group(name)):
            raise GroupNotFound(f"consumer group {name} does not exist, and may not be created by use")
        if len(self.by_name) >= self._limit:
            text = f"consumer group {name} cannot be created: {self._limit} exist (pyromqMaxGroups)"
            raise GroupNotFound(text, limit="pyromqMaxGroups")
        config = self.by_name[name] = SubscriptionGroupConfig(group_name=name)
        self.saver.changes.put(name, config)
        self.changed_keys.note(name)
        logger.info("group created by use group=%s", name)
        self._changed()
        return config

    def _changed(self) -> None:
        self.version = self.version.next(self._now_ms())
        self.saver.request()
        self.changed()

    def _whole(self) -> PrintTable:
        rows, version = list(self.by_name.items()), self.version
        return lambda: GROUPS.print(rows, version)


_FIGURES: Final[tuple[Figure[SubscriptionGroups], ...]] = (
    Figure("groups", "Consumer groups, online or not.", Kind.GAUGE, lambda groups: len(groups.by_name)),
)


def _row_of_answer(name: str, config: SubscriptionGroupConfig) -> tuple[int, SubscriptionGroupConfig]:
    return 400 + 2 * len(name), config


def _answer(version: DataVersion, rows: dict[str, SubscriptionGroupConfig]) -> SubscriptionGroupWrapper:
    return SubscriptionGroupWrapper(data_version=version, subscription_group_table=rows)


def _check_name(name: str) -> None:
    try:
        check_group(name)
    except LocalProtocolError as error:
        raise GroupNotFound(str(error)) from None
