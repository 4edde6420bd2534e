"""What a report needs besides messages: the topics and queues, and how far each group is.

It comes from the brokers of a cluster or the files of a store. Spark reads the messages themselves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from pyromq.blocking import Portal
from pyromq.client.environment import environment_credentials
from pyromq.client.net.calls.admin_calls import AdminCalls
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.pipelines.cluster import brokers_of, cluster
from pyromq.protocol.codes import MASTER_ID
from pyromq.protocol.messages.message import MessageQueue
from pyromq.protocol.names import TRACE_TOPIC, dlq_topic, is_system_group, retry_topic
from pyromq.spark.offsets import Offsets
from pyromq.spark.options.store_options import STORE
from pyromq.spark.read.files.store_queues import StoreQueues
from pyromq.spark.read.plan.queue_source import QueueSource
from pyromq.store.check.table_check import CONFIG_NAME
from pyromq.store.files import ReadOnlyFiles
from pyromq.store.read.file_view import QUEUES_NAME, find_root
from pyromq.store.small_files.table_file import read_table
from pyromq.store.small_files.table_formats import OFFSETS, TOPICS

_ALL = ".*"

OffsetTable = Mapping[str, Mapping[int, int]]
"""Committed offsets by `topic@group` and queue id, as brokers keep them."""


class GroupProgress(NamedTuple):
    """How far a group is in one queue."""

    group: str
    queue: MessageQueue
    committed_offset: int
    max_offset: int

    @property
    def lag(self) -> int:
        """Messages that the group has not consumed yet."""
        return max(0, self.max_offset - self.committed_offset)


class Survey(Struct, frozen=True, kw_only=True):
    """What there is to profile."""

    origin: str
    topics: list[str]
    sizes: dict[MessageQueue, int]
    """How many messages each queue of the topics holds, including empty queues."""
    progress: list[GroupProgress]
    failures: list[str]
    """Retry and dead-letter topics of the groups that consume the topics."""
    has_traces: bool

    @property
    def filled(self) -> list[str]:
        """The topics with messages, the largest first."""
        totals: Counter[str] = Counter()
        for queue, size in self.sizes.items():
            totals[queue.topic] += size
        return [topic for topic, messages in totals.most_common() if messages]


def survey_cluster(namesrv: str, topics: Sequence[str]) -> Survey:
    """Survey a cluster; without topics, all except RocketMQ's own."""
    brokers = brokers_of(cluster(namesrv))
    names = brokers.topics(topics, None if topics else _ALL)
    everything, tables = Portal.shared().call(_ask(namesrv))
    return _survey(f"the cluster at {namesrv}", names, brokers, brokers.queues(names), tables, everything)


async def _ask(namesrv: str) -> tuple[list[str], dict[str, OffsetTable]]:
    """Return the names of all topics, and the offsets that each broker keeps."""
    async with await BrokerApi.connect(namesrv, credentials=environment_credentials()) as api:
        brokers = (await api.cluster_info()).broker_addr_table
        masters = {name: broker.broker_addrs.get(MASTER_ID) for name, broker in brokers.items()}
        ask = AdminCalls(api.remoting).committed_offsets
        tables: dict[str, OffsetTable] = {
            name: await ask(address) for name, address in masters.items() if address is not None
        }
        return await api.topic_list(), tables


def survey_store(directory: str, topics: Sequence[str]) -> Survey:
    """Look at the files of a store, live or copied."""
    root = Path(find_root(directory, ReadOnlyFiles()))
    everything = [path.name for path in (root / QUEUES_NAME).iterdir()]
    committed = read_table(root / CONFIG_NAME, OFFSETS)
    offsets = committed.offset_table if committed else {}
    with StoreQueues(directory, None) as store:
        names = store.topics(topics, None if topics else _ALL)
        queues = sorted({*store.queues(names), *_configured(root, names)})
        return _survey(f"the store {root}", names, store, queues, {STORE: offsets}, everything)


def _configured(root: Path, topics: Sequence[str]) -> Iterator[MessageQueue]:
    """Yield the queues in the broker's configuration; a queue that never had a message has no files."""
    table = read_table(root / CONFIG_NAME, TOPICS)
    known = table.topic_config_table if table else {}
    for topic in known.keys() & set(topics):
        yield from (MessageQueue(topic, STORE, number) for number in range(known[topic].read_queue_nums))


def _survey(
    origin: str,
    topics: list[str],
    source: QueueSource,
    queues: Sequence[MessageQueue],
    tables: Mapping[str, OffsetTable],
    everything: Sequence[str],
) -> Survey:
    ends, starts = source.max_offsets(queues), source.min_offsets(queues)
    progress = list(_progress(tables, ends))
    groups = sorted({step.group for step in progress})
    return Survey(
        origin=origin,
        topics=topics,
        sizes={queue: ends[queue] - starts[queue] for queue in queues},
        progress=progress,
        failures=[name for group in groups for name in (retry_topic(group), dlq_topic(group)) if name in everything],
        has_traces=TRACE_TOPIC in everything,
    )


def _progress(tables: Mapping[str, OffsetTable], ends: Offsets) -> Iterator[GroupProgress]:
    """Yield the progress of each group in each of the queues."""
    for broker_name, table in tables.items():
        for name, offsets in sorted(table.items()):
            topic, _, group = name.partition("@")
            places = [(MessageQueue(topic, broker_name, queue_id), offset) for queue_id, offset in offsets.items()]
            if not is_system_group(group):
                yield from (
                    GroupProgress(group, queue, offset, ends[queue]) for queue, offset in places if queue in ends
                )
