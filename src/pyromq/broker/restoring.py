"""Tables that agree with what recovery found in the log: topics that are in it, and offsets that exist."""

from __future__ import annotations

import logging

from pyromq.broker.tables import Tables
from pyromq.errors import BrokerError
from pyromq.protocol.names import LMQ_PREFIX, TRANSACTION_OP_TOPIC
from pyromq.store.message_store import MessageStore

logger = logging.getLogger(__name__)


def restore_tables(tables: Tables, store: MessageStore) -> None:
    """Add the topics that a crash took from the table, and bring back committed offsets that lie behind their queue."""
    found = store.found_topics
    if tables.topics.is_older:  # the newest rows may be missing, whenever they were added
        found = {topic: max(store.queue_ids(topic)) + 1 for topic in store.topics} | found
    for topic, queues in found.items():
        if tables.topics.get(topic) is None and not _never_has_a_row(topic):
            _restore_topic(tables, topic, queues)
    tables.offsets.stay_within(store.max_offset)


def _restore_topic(tables: Tables, topic: str, queues: int) -> None:
    try:
        tables.topics.ensure(topic, queues, "because the log has messages of it")
    except BrokerError as error:
        logger.warning("a topic found in the log has no row: %s", error)


def _never_has_a_row(topic: str) -> bool:
    return topic == TRANSACTION_OP_TOPIC or topic.startswith(LMQ_PREFIX)
