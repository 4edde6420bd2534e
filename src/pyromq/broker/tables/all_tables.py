"""The tables in the store's `config` directory, opened, saved and closed together."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pyromq.broker.config.broker_config import BrokerConfig
from pyromq.broker.pulls.filter_functions import load_functions
from pyromq.broker.pulls.property_filters import PropertyFilters
from pyromq.broker.tables.consumer_filters import ConsumerFilters
from pyromq.broker.tables.consumer_offsets import ConsumerOffsets
from pyromq.broker.tables.delay_offsets import DelayOffsets
from pyromq.broker.tables.queue_locks import QueueLockTable
from pyromq.broker.tables.reset_ids import ResetIds
from pyromq.broker.tables.subscription_groups import SubscriptionGroups
from pyromq.broker.tables.table_saver import TableSaver
from pyromq.broker.tables.topic_table import TopicTable, built_in_topics
from pyromq.errors import BrokerError
from pyromq.protocol.names import LMQ_PREFIX, TRANSACTION_OP_TOPIC
from pyromq.store.files import OsFiles
from pyromq.store.message_store import MessageStore
from pyromq.store.small_files.json_file import JsonFile, ReadOnlyFile
from pyromq.store.small_files.table_file import ReadOnlyTable, TableFile
from pyromq.store.small_files.table_formats import GROUPS, OFFSETS, TOPICS

SAVING_THREADS = 4


class Tables:
    """Topics, groups, committed offsets, registered filters, and how far the delay levels are."""

    def __init__(
        self,
        config: BrokerConfig,
        now_ms: Callable[[], int],
        files: OsFiles | None = None,
        *,
        read_only: bool = False,
    ) -> None:
        """Prepare to load; what is `read_only` is never written, and changes are forgotten at the end."""
        self.executor = ThreadPoolExecutor(SAVING_THREADS, thread_name_prefix="pyromq-tables")
        """Threads in which tables are saved: no other work can keep them waiting."""
        directory = config.store.root / "config"
        table_file = ReadOnlyTable if read_only else TableFile
        self.topics = TopicTable(
            built_in_topics(config),
            table_file(directory / TOPICS.name, TOPICS, files),
            now_ms=now_ms,
            auto_create=config.auto_create_topics,
            limit=config.max_topics,
            max_queues=config.max_queues,
            executor=self.executor,
        )
        self.groups = SubscriptionGroups(
            table_file(directory / GROUPS.name, GROUPS, files),
            now_ms=now_ms,
            auto_create=config.auto_create_groups,
            limit=config.max_groups,
            max_queues=config.max_queues,
            executor=self.executor,
        )
        self.offsets = ConsumerOffsets(
            table_file(directory / OFFSETS.name, OFFSETS, files),
            ResetIds(config.store.root, files, self.executor, read_only=read_only),
            self.executor,
            config.max_offset_rows,
        )
        json_file = ReadOnlyFile if read_only else JsonFile
        self.delays = DelayOffsets(json_file(directory / "delayOffset.json", files), self.executor)
        self.locks = QueueLockTable()
        """Who consumes a queue in order; in memory only."""
        self.expressions = PropertyFilters(load_functions(dict(config.filter_functions)), by_sql=config.property_filter)
        self.filters = ConsumerFilters(
            json_file(directory / "consumerFilter.json", files),
            now_ms=now_ms,
            keep=config.filter_keep_time,
            filters=self.expressions,
            executor=self.executor,
            limit=config.max_filters,
        )

    def load(self) -> None:
        """Read all files; raise ConfigError if one and its backup are unreadable."""
        self.topics.load()
        self.offsets.load()
        self.groups.load()
        self.filters.load()
        self.delays.load()
        for saver in self._savers:
            saver.begin()

    def save(self) -> None:
        """Have saved what changed since the last time, and what could not be saved then; called every few seconds."""
        self.offsets.save_if_changed()
        self.filters.save_if_changed()
        self.filters.saver.retry()
        self.delays.saver.retry()
        for saver in self._savers:
            saver.tick()

    async def close(self) -> None:
        """Save what changed, wait until it is on disk, and leave no journal."""
        self.save()
        await self.offsets.resets.saver.finish()
        await self.filters.saver.finish()
        await self.delays.saver.finish()
        for saver in self._savers:
            await saver.close()
        self.executor.shutdown(wait=False)

    @property
    def _savers(self) -> tuple[TableSaver[Any], ...]:
        return self.topics.saver, self.groups.saver, self.offsets.saver


logger = logging.getLogger(__name__)


def restore_tables(tables: Tables, store: MessageStore, *, is_copy: bool = False) -> None:
    """Add the topics that a crash took from the table, and bring back committed offsets that lie behind their queue.

    In a copy, made of a master that is gone, the row of any topic may be missing, and offsets may be ahead of the log.
    """
    found = store.found_topics
    if tables.topics.is_older or is_copy:  # the newest rows may be missing, whenever they were added
        found = {topic: max(store.queue_ids(topic)) + 1 for topic in store.topics} | found
    for topic, queues in found.items():
        if tables.topics.get(topic) is None and not _never_has_a_row(topic):
            _restore_topic(tables, topic, queues)
    tables.offsets.stay_within(store.next_offset)  # what is not visible yet may have been consumed elsewhere


def _restore_topic(tables: Tables, topic: str, queues: int) -> None:
    try:
        tables.topics.ensure(topic, queues, "because the log has messages of it")
    except BrokerError as error:
        logger.warning("a topic found in the log has no row: %s", error)


def _never_has_a_row(topic: str) -> bool:
    return topic == TRANSACTION_OP_TOPIC or topic.startswith(LMQ_PREFIX)
