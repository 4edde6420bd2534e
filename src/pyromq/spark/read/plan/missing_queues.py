"""Notices queues that a stream has read before and that its topics no longer have.

A topic can lose queues (it was shrunk), a pattern can lose a topic (it was deleted), and a route can lose a broker (it
is down). Offsets stay in the checkpoint, so what returns continues where it was.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection

from pyromq.errors import NoRoute
from pyromq.protocol.messages.message import MessageQueue
from pyromq.spark.offsets import Offsets
from pyromq.spark.options.read_options import ReadOptions
from pyromq.spark.read.plan.positions import GO_ON, report_cut, report_unreadable
from pyromq.spark.read.plan.queue_source import QueueSource, is_for_patterns

logger = logging.getLogger(__name__)


class MissingQueues:
    """Compares a stream's offsets with the queues of its topics; reports each missing queue once."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._known: set[MessageQueue] = set()

    def check(self, source: QueueSource, read: Offsets, queues: Collection[MessageQueue], *, bounded: bool) -> None:
        """Raise OffsetOutOfRange, or warn if the options allow it, if a missing queue has messages after `read`.

        If a broker is away, an endless stream waits for it. A `bounded` run would end without its messages: NoRoute.
        """
        missing = {queue for queue in read.keys() - set(queues) if self._is_wanted(queue.topic)}
        self._known &= missing
        news = sorted(missing - self._known)
        if not news:
            return
        ends = source.ends_at_brokers(news)
        unread = {queue: end - read[queue] for queue, end in ends.items() if end != read[queue]}
        for queue in (queue for queue, count in unread.items() if count < 0):
            report_cut(self._options, queue, read[queue], ends[queue])
        if left := {queue: count for queue, count in unread.items() if count > 0}:
            report_unreadable(self._options, left)
        if away := sorted({queue.broker_name for queue in news if queue not in ends}):
            self._report_away(away, bounded=bounded)
        self._known.update(news)

    def _is_wanted(self, topic: str) -> bool:
        pattern = self._options.pattern
        if pattern is None:
            return topic in self._options.topics
        return bool(re.fullmatch(pattern, topic)) and is_for_patterns(topic, pattern)

    def _report_away(self, names: Collection[str], *, bounded: bool) -> None:
        text = f"no name server knows a master of {', '.join(names)}, which this stream has read before"
        if bounded and self._options.fail_on_data_loss:
            raise NoRoute(f"{text}: this run would leave out its messages; {GO_ON}")
        logger.warning("%s: its messages wait until it is back", text)
