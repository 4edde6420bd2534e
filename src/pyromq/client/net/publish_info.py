"""The queue a message goes to: the next one in turn, the one for its key, or the caller's choice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import SystemRandom

from pyromq.errors import ClientError, InvalidMessage
from pyromq.protocol.bodies import QueueData, TopicRouteData
from pyromq.protocol.codes import MASTER_ID, PERM_WRITE
from pyromq.protocol.messages.message import Message, MessageQueue
from pyromq.protocol.tag_filter import java_hash

Select = Callable[[Sequence[MessageQueue], Message], MessageQueue]
"""Chooses one of the queues for a message."""

_random = SystemRandom()  # programs seed the default one: then all their replicas would choose alike


def write_queues(topic: str, route: TopicRouteData, most: int | None = None) -> list[MessageQueue]:
    """Return the queues that a producer may write to, in the order that all clients use.

    `most` limits the queues of each broker, for a topic that does not exist yet and uses the queues of its template.
    """
    if route.order_topic_conf:
        return _ordered_queues(topic, route.order_topic_conf)
    masters = {broker.broker_name for broker in route.broker_datas if MASTER_ID in broker.broker_addrs}
    writable = [data for data in route.queue_datas if data.perm & PERM_WRITE and data.broker_name in masters]
    writable.sort(key=lambda data: data.broker_name)
    return [MessageQueue(topic, data.broker_name, number) for data in writable for number in range(_count(data, most))]


def _count(data: QueueData, most: int | None) -> int:
    return data.write_queue_nums if most is None else min(most, data.read_queue_nums)


def _ordered_queues(topic: str, order_conf: str) -> list[MessageQueue]:
    # Text such as `broker-a:4;broker-b:4`: an order topic keeps its queues even while a broker is down.
    queues = []
    for part in order_conf.split(";"):
        broker_name, _, count = part.partition(":")
        if broker_name and count.isdigit():
            queues += [MessageQueue(topic, broker_name, number) for number in range(int(count))]
    return queues


class TopicPublishInfo:
    """The queues of one topic, handed out in turn from a random start."""

    def __init__(self, queues: Sequence[MessageQueue]) -> None:
        self.queues = tuple(queues)
        self._index = _random.randrange(1 << 20)

    def next(self) -> MessageQueue:
        """Return the next queue in turn."""
        self._index += 1
        return self.queues[self._index % len(self.queues)]

    def give_back(self) -> None:
        """Return the last queue once more next time: nothing was sent to it."""
        self._index -= 1

    def next_elsewhere(self, broker_name: str) -> MessageQueue:
        """Return the next queue of another broker, or the next queue if there is no other broker."""
        return self.next_where(lambda name: name != broker_name) or self.next()

    def next_where(self, accept: Callable[[str], bool]) -> MessageQueue | None:
        """Return the next queue whose broker is accepted, None if no broker is."""
        for _ in self.queues:
            queue = self.next()
            if accept(queue.broker_name):
                return queue
        return None

    def next_of(self, broker_name: str) -> MessageQueue | None:
        """Return the next queue of one broker, None if it has none."""
        queues = [queue for queue in self.queues if queue.broker_name == broker_name]
        self._index += 1
        return queues[self._index % len(queues)] if queues else None


def queue_for_key(queues: Sequence[MessageQueue], order_key: str) -> MessageQueue:
    """Return the queue that Java's SelectMessageQueueByHash picks for the same key."""
    if not isinstance(order_key, str) or not order_key.strip():
        raise InvalidMessage(f"an order key is a text that is not blank, not {order_key!r}")
    return queues[abs(java_hash(order_key)) % len(queues)]


def queue_by_choice(queues: Sequence[MessageQueue], message: Message, select: Select) -> MessageQueue:
    """Return the queue that the caller's function selects; raises ClientError if it returns something else."""
    queue = select(queues, message)
    if not isinstance(queue, MessageQueue):
        raise ClientError(f"select must return one of the queues it was given, not {queue!r}")
    return queue
