"""The tables in the store's `config` directory, opened, saved and closed together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyromq.broker.config import BrokerConfig
from pyromq.broker.consumer_filters import ConsumerFilters
from pyromq.broker.consumer_offsets import ConsumerOffsets
from pyromq.broker.functions import load_functions
from pyromq.broker.groups import SubscriptionGroups
from pyromq.broker.property_filters import Filters
from pyromq.broker.saver import Saver
from pyromq.broker.topics import TopicTable, built_in_topics
from pyromq.store.files import OsFiles
from pyromq.store.small_files.json_file import JsonFile


class Tables:
    """Topics, groups, committed offsets and registered filters."""

    def __init__(
        self,
        config: BrokerConfig,
        now_ms: Callable[[], int],
        files: OsFiles | None = None,
        *,
        kind: type[JsonFile] = JsonFile,
    ) -> None:
        directory = config.store.root / "config"
        self.topics = TopicTable(
            built_in_topics(config),
            kind(directory / "topics.json", files),
            now_ms=now_ms,
            auto_create=config.auto_create_topics,
            limit=config.max_topics,
        )
        self.groups = SubscriptionGroups(
            kind(directory / "subscriptionGroup.json", files),
            now_ms=now_ms,
            auto_create=config.auto_create_groups,
            limit=config.max_groups,
        )
        self.offsets = ConsumerOffsets(kind(directory / "consumerOffset.json", files))
        self.expressions = Filters(load_functions(dict(config.filter_functions)), by_sql=config.property_filter)
        self.filters = ConsumerFilters(
            kind(directory / "consumerFilter.json", files),
            now_ms=now_ms,
            keep=config.filter_keep_time,
            filters=self.expressions,
        )

    def load(self) -> None:
        """Read all files; raise ConfigError if one and its backup are unreadable."""
        self.topics.load()
        self.offsets.load()
        self.groups.load()
        self.filters.load()

    def save(self) -> None:
        """Have saved what changed since the last time, and what could not be saved then."""
        self.offsets.save_if_changed()
        self.filters.save_if_changed()
        for saver in self._savers:
            saver.retry()

    async def close(self) -> None:
        """Save what changed, and wait until it is on disk."""
        self.save()
        for saver in self._savers:
            await saver.finish()

    @property
    def _savers(self) -> tuple[Saver[Any], ...]:
        return self.topics.saver, self.groups.saver, self.offsets.saver, self.filters.saver
