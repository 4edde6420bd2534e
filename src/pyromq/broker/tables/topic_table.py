"""The topics of this broker: their queues and permissions, which exist from the start, and how others come to be."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Executor
from typing import Final

from msgspec.structs import replace

from pyromq.broker.config.broker_config import BrokerConfig
from pyromq.broker.signals import Signal
from pyromq.broker.stats.time_series import CountSeries
from pyromq.broker.tables.changed_keys import ChangedKeys
from pyromq.broker.tables.save_progress import WhenSaved
from pyromq.broker.tables.table_parts import TableParts
from pyromq.broker.tables.table_saver import PrintTable, TableSaver
from pyromq.errors import BrokerError, LocalProtocolError, TopicNotFound
from pyromq.figures import BoundFigures, Figure, Kind
from pyromq.protocol.bodies import DataVersion, TopicConfig, TopicConfigSerializeWrapper, TopicFilterType
from pyromq.protocol.codes import PERM_INHERIT, PERM_READ, PERM_WRITE, TOPIC_UNIT_FLAG
from pyromq.protocol.delay_levels import DEFAULT_DELAY_LEVELS_MS
from pyromq.protocol.messages.record import MULTI_TAGS_FLAG
from pyromq.protocol.names import (
    BENCHMARK_TOPIC,
    MAX_QUEUES,
    NO_SEND_TOPICS,
    OFFSET_MOVED_TOPIC,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    SELF_TEST_TOPIC,
    TBW102,
    check_topic,
    is_system_topic,
    reply_topic,
)
from pyromq.store.small_files.table_file import TableFile
from pyromq.store.small_files.table_formats import TOPICS

logger = logging.getLogger(__name__)

READ_WRITE = PERM_READ | PERM_WRITE


class Topic:
    """One topic, with what every send and pull asks of it worked out beforehand."""

    __slots__ = (
        "accepts_plain_sends", "config", "is_retry", "is_saved", "name", "put_bytes", "puts", "queues",
        "read_queues", "readable", "row", "sampled_puts", "series", "sys_flag", "writable", "write_queues",
    )  # fmt: skip

    def __init__(self, config: TopicConfig) -> None:
        self.is_saved = True
        """Whether the table on disk is known to have this topic; no message is stored in it before that."""
        self.row = 0
        """The number of the change that created it."""
        self.name = config.topic_name
        self.is_retry = self.name.startswith(RETRY_PREFIX)
        self.puts = 0
        self.put_bytes = 0
        self.series: CountSeries | None = None
        self.sampled_puts = 0
        """What `puts` was when there was nothing more to note of this minute; -1 while there is."""
        self.configure(config)

    def count_put(self, size: int, messages: int = 1) -> None:
        """Count messages stored in this topic. Every stored message is counted here and nowhere else."""
        self.puts += messages
        self.put_bytes += size

    def configure(self, config: TopicConfig) -> None:
        """Take over a changed configuration."""
        self.config = config
        self.read_queues = config.read_queue_nums
        self.write_queues = config.write_queue_nums
        self.queues = max(self.read_queues, self.write_queues)
        self.readable = bool(config.perm & PERM_READ)
        self.writable = bool(config.perm & PERM_WRITE)
        self.sys_flag = MULTI_TAGS_FLAG if config.topic_filter_type is TopicFilterType.MULTI_TAG else 0
        self._look_for_plain_sends()

    def mark_saved(self) -> None:
        """Note that the table on disk has this topic."""
        self.is_saved = True
        self._look_for_plain_sends()

    def mark_new(self, row: int) -> None:
        """Note that the table on disk will have this topic when a change is saved."""
        self.row = row
        self.is_saved = False
        self._look_for_plain_sends()

    def _look_for_plain_sends(self) -> None:
        # A send that needs none of the rarer checks: the hot path looks at this one flag.
        self.accepts_plain_sends = (
            self.is_saved
            and self.writable
            and not (self.is_retry or self.config.order)
            and self.name not in NO_SEND_TOPICS
        )


class TopicTable:
    """All topics by name, kept in topics.json; `changed` tells which topics changed, None if it may be all."""

    def __init__(
        self,
        built_in: Iterable[TopicConfig],
        file: TableFile[TopicConfigSerializeWrapper, TopicConfig],
        *,
        now_ms: Callable[[], int],
        auto_create: bool = True,
        limit: int = 100_000,
        max_queues: int = MAX_QUEUES,
        executor: Executor | None = None,
    ) -> None:
        self.max_queues = max_queues
        """The most queues that a topic can get; one that has more keeps them."""
        self.by_name: dict[str, Topic] = {config.topic_name: Topic(config) for config in built_in}
        self.removed_puts = self.removed_put_bytes = 0
        """What topics that are gone had counted: totals never fall."""
        self.version = DataVersion(timestamp=now_ms(), counter=0)
        self.changed: Signal[[Collection[str] | None]] = Signal()
        self.changed_keys: ChangedKeys[str] = ChangedKeys()
        """For slaves: which topics changed, were made or deleted."""
        self.saver = TableSaver(file, self._whole, lambda: self.version, executor)
        self.parts = TableParts(
            lambda: self.by_name, _row_of_answer, TopicConfigSerializeWrapper, version=lambda: self.version
        )
        self._built_in = frozenset(self.by_name)
        self._file = file
        self._now_ms = now_ms
        self._auto_create = auto_create
        self._limit = limit

    def configure(self, config: BrokerConfig) -> None:
        """Take over changed settings; the template of new topics comes to be where creation was off before."""
        self._limit = config.max_topics
        self._auto_create = config.auto_create_topics
        if self._auto_create and TBW102 not in self.by_name:
            self._changed(self._put(default_template(config)))
        self._save()
        self.changed(None)  # what this broker allows is part of every registration

    def load(self) -> None:
        """Read the file over the built-in topics."""
        loaded = self._file.load()
        if loaded is None:
            return
        for name, config in loaded.topic_config_table.items():
            self._put(_sound(replace(config, topic_name=name)))
        self.version = loaded.data_version

    @property
    def is_older(self) -> bool:
        """Whether the file was damaged and its backup was read: the newest topics may be missing."""
        return self._file.is_older

    def get(self, name: str) -> Topic | None:
        """Return the topic, None if there is none."""
        return self.by_name.get(name)

    def find(self, name: str) -> Topic:
        """Return the topic; raise TopicNotFound if there is none."""
        topic = self.by_name.get(name)
        if topic is None:
            raise TopicNotFound(f"topic {name} does not exist on this broker")
        return topic

    def create_by_send(self, name: str, template_name: str, queues: int, unit_mode: bool) -> Topic | None:
        """Create the topic from the template that a producer named; return None where that is not allowed."""
        template = self.by_name.get(template_name)
        if template is None or not template.config.perm & PERM_INHERIT:
            return None
        if template_name == TBW102 and not self._auto_create:
            return None  # left in the file from a time when it was allowed
        count = max(0, min(queues, template.write_queues, self.max_queues))
        config = replace(
            template.config,
            topic_name=name,
            read_queue_nums=count,
            write_queue_nums=count,
            perm=template.config.perm & ~PERM_INHERIT,
            topic_sys_flag=TOPIC_UNIT_FLAG if unit_mode else 0,
            order=False,
        )
        return self._create(config, "by a send")

    def ensure(self, name: str, queues: int, why: str, sys_flag: int = 0) -> Topic:
        """Return a topic that the broker itself needs, creating it readable and writable."""
        config = topic_config(name, queues, topic_sys_flag=sys_flag)
        return self.by_name.get(name) or self._create(config, why)

    def update(self, config: TopicConfig) -> Topic:
        """Create the topic or change it, as an administrator says; its order flag stays what the name server said."""
        known = self.by_name.get(config.topic_name)
        topic = self._put(replace(config, order=known.config.order if known else False))
        logger.info("topic set topic=%s read=%d write=%d perm=%d", topic.name, *_shape(config))
        self._changed(topic, is_new=known is None)
        return topic

    def remove(self, name: str) -> None:
        """Forget a topic, if there is one."""
        topic = self.by_name.pop(name, None)
        if topic is not None:
            self.removed_puts += topic.puts
            self.removed_put_bytes += topic.put_bytes
            self.saver.changes.remove(name)
            self.parts.note_removal()
            self.changed_keys.note(name)
            self._save()
            self.changed((name,))

    def adopt(self, rows: Mapping[str, TopicConfig], removed: Iterable[str], version: DataVersion) -> None:
        """Take over rows of a master's table, and its version; saved soon."""
        gone = [name for name in removed if name not in self._built_in and name in self.by_name]
        for name in gone:
            del self.by_name[name]
            self.saver.changes.remove(name)
            self.parts.note_removal()
        for name, config in rows.items():
            self.saver.changes.put(name, self._put(replace(config, topic_name=name)).config)
        self.version = version
        self.saver.request()
        self.changed([*gone, *rows])

    def set_ordered(self, names: Collection[str]) -> None:
        """Take over from the name server which topics are ordered; all others are not."""
        wrong = [topic for topic in self.by_name.values() if topic.config.order != (topic.name in names)]
        for topic in wrong:
            topic.configure(replace(topic.config, order=not topic.config.order))
            logger.info("topic order changed topic=%s order=%s", topic.name, topic.config.order)
        if wrong:
            self._changed(*wrong)

    def is_saved(self, topic: Topic) -> bool:
        """Return True if the table on disk has a topic: a crash does not take it away from its messages."""
        if not topic.is_saved and topic.row <= self.saver.saved:
            topic.mark_saved()
        return topic.is_saved

    def when_saved(self, listener: WhenSaved) -> None:
        """Call `listener` once all topics up to now are on disk (True), or could not be saved (False)."""
        self.saver.retry()  # it may have failed for a moment only
        self.saver.when_saved(listener)

    def is_system(self, name: str) -> bool:
        """Tell whether administrators must leave this topic alone."""
        return name in self._built_in or is_system_topic(name)

    def system_names(self) -> list[str]:
        """Return the topics that this broker made by itself."""
        return sorted(self._built_in)

    def figures(self) -> BoundFigures[TopicTable]:
        """Return the figures of this table."""
        return BoundFigures(_FIGURES, lambda: self)

    def snapshot(self, names: Iterable[str] | None = None) -> TopicConfigSerializeWrapper:
        """Return the table as it is now: the whole, or the named topics that exist."""
        topics = self.by_name.values() if names is None else filter(None, map(self.by_name.get, names))
        table = {topic.name: topic.config for topic in topics}
        return TopicConfigSerializeWrapper(data_version=self.version, topic_config_table=table)

    def _create(self, config: TopicConfig, why: str) -> Topic:
        try:
            check_topic(config.topic_name)  # a group's name may be longer than its retry topic's may be
        except LocalProtocolError as error:
            raise BrokerError(str(error)) from None
        if len(self.by_name) >= self._limit:
            raise TopicNotFound(
                f"topic {config.topic_name} cannot be created {why}: {self._limit} topics exist, the most allowed"
                " (pyromqMaxTopics)",
                limit="pyromqMaxTopics",
            )
        topic = self._put(config)
        logger.info("topic created %s topic=%s queues=%d perm=%d", why, topic.name, topic.write_queues, config.perm)
        self._changed(topic, is_new=True)
        return topic

    def _put(self, config: TopicConfig) -> Topic:
        topic = self.by_name.get(config.topic_name)
        if topic is None:
            topic = self.by_name[config.topic_name] = Topic(config)
        else:
            topic.configure(config)
        return topic

    def _changed(self, *topics: Topic, is_new: bool = False) -> None:
        for topic in topics:
            self.saver.changes.put(topic.name, topic.config)
            self.changed_keys.note(topic.name)
        number = self._save()
        for topic in topics if is_new else ():
            topic.mark_new(number)
        self.changed([topic.name for topic in topics])

    def _save(self) -> int:
        self.version = self.version.next(self._now_ms())
        return self.saver.request()

    def _whole(self) -> PrintTable:
        rows, version = [(name, topic.config) for name, topic in self.by_name.items()], self.version
        return lambda: TOPICS.print(rows, version)


_FIGURES: Final[tuple[Figure[TopicTable], ...]] = (
    Figure("topics", "Topics, those of the broker itself included.", Kind.GAUGE, lambda table: len(table.by_name)),
)


def _sound(config: TopicConfig) -> TopicConfig:
    """Return a topic with as many queues as one can have: each of them is an object when somebody asks."""
    read, write = (max(0, min(count, MAX_QUEUES)) for count in (config.read_queue_nums, config.write_queue_nums))
    if (read, write) == (config.read_queue_nums, config.write_queue_nums):
        return config
    logger.warning(
        "topic with %d and %d queues gets %d and %d topic=%s",
        *(config.read_queue_nums, config.write_queue_nums, read, write, config.topic_name),
    )
    return replace(config, read_queue_nums=read, write_queue_nums=write)


def topic_config(name: str, queues: int, perm: int = READ_WRITE, topic_sys_flag: int = 0) -> TopicConfig:
    """Describe a topic with as many queues to read as to write."""
    return TopicConfig(
        topic_name=name,
        read_queue_nums=queues,
        write_queue_nums=queues,
        perm=perm,
        topic_sys_flag=topic_sys_flag,
        order=False,
    )


def default_template(config: BrokerConfig) -> TopicConfig:
    """Return the template of the topics that sends create."""
    return topic_config(TBW102, config.default_topic_queues, READ_WRITE | PERM_INHERIT)


def built_in_topics(config: BrokerConfig) -> list[TopicConfig]:
    """Return the topics that every broker has from the start."""
    cluster_perm = PERM_INHERIT | (READ_WRITE if config.cluster_topic_enabled else 0)
    broker_perm = PERM_INHERIT | (READ_WRITE if config.broker_topic_enabled else 0)
    topics = [
        topic_config(SELF_TEST_TOPIC, 1),
        topic_config(BENCHMARK_TOPIC, 1024),
        topic_config(config.cluster, 16, cluster_perm),
        topic_config(config.name, 1, broker_perm),
        topic_config(OFFSET_MOVED_TOPIC, 1),
        topic_config(SCHEDULE_TOPIC, len(DEFAULT_DELAY_LEVELS_MS)),
        topic_config(reply_topic(config.cluster), 1),
    ]
    if config.auto_create_topics:
        topics.append(default_template(config))
    if config.trace_topic_enabled:
        topics.append(topic_config(config.trace_topic, 1))
    return topics


def _row_of_answer(name: str, topic: Topic) -> tuple[int, TopicConfig]:
    return 200 + 2 * len(name), topic.config


def _shape(config: TopicConfig) -> tuple[int, int, int]:
    return config.read_queue_nums, config.write_queue_nums, config.perm
