"""The tables in the store's `config` directory, opened, saved and closed together."""

from __future__ import annotations

from collections.abc import Callable

from pyromq.broker.config import BrokerConfig
from pyromq.broker.consumer_offsets import ConsumerOffsets
from pyromq.broker.groups import SubscriptionGroups
from pyromq.broker.topics import TopicTable, built_in_topics
from pyromq.store.files import OsFiles
from pyromq.store.json_file import JsonFile


class Tables:
    """Topics, groups and committed offsets."""

    def __init__(self, config: BrokerConfig, now_ms: Callable[[], int], files: OsFiles | None = None) -> None:
        directory = config.store.root / "config"
        self.topics = TopicTable(
            built_in_topics(config),
            JsonFile(directory / "topics.json", files),
            now_ms=now_ms,
            auto_create=config.auto_create_topics,
            limit=config.max_topics,
        )
        self.groups = SubscriptionGroups(
            JsonFile(directory / "subscriptionGroup.json", files),
            now_ms=now_ms,
            auto_create=config.auto_create_groups,
            limit=config.max_groups,
        )
        self.offsets = ConsumerOffsets(JsonFile(directory / "consumerOffset.json", files))

    def load(self) -> None:
        """Read all files; raise ConfigError if one and its backup are unreadable."""
        self.topics.load()
        self.offsets.load()
        self.groups.load()

    def save(self) -> None:
        """Have saved what changed since the last time, and what could not be saved then."""
        self.offsets.save_if_changed()
        for saver in (self.topics.saver, self.groups.saver, self.offsets.saver):
            saver.retry()

    async def close(self) -> None:
        """Save what changed, and wait until it is on disk."""
        self.save()
        for saver in (self.topics.saver, self.groups.saver, self.offsets.saver):
            await saver.finish()
