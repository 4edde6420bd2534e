"""Where all queues of a topic begin and end, those included that are read and no longer written."""

from __future__ import annotations

from collections.abc import Mapping

from pyromq.admin.masters import Masters, gather_limited
from pyromq.client.net.calls.admin_calls import AdminCalls
from pyromq.client.net.calls.broker_api import BrokerApi
from pyromq.protocol.bodies import QueueData, TopicConfig, TopicOffset
from pyromq.protocol.messages.message import MessageQueue

QueueEnds = dict[MessageQueue, TopicOffset]


async def find_ends(
    api: BrokerApi, masters: Masters, topic: str, settings: Mapping[str, QueueData | TopicConfig]
) -> QueueEnds:
    """Return where the queues of a topic begin and end, on the brokers that answer.

    Brokers list only the queues that are written. While a topic is being resized, others are still read; when their
    last message was stored is not known.
    """
    calls = AdminCalls(api.remoting)

    async def ask(address: str) -> QueueEnds:
        name = next(name for name, known in masters.addresses.items() if known == address)
        written = await calls.topic_ends(address, topic)
        if written is None:
            return {}
        shape = settings[name]
        queues = [MessageQueue(topic, name, at) for at in range(shape.write_queue_nums, shape.read_queue_nums)]
        return written | dict(await gather_limited(queues, lambda queue: _ask_queue(api, address, queue)))

    return {queue: ends for found in (await masters.ask(ask)).values() for queue, ends in found.items()}


async def _ask_queue(api: BrokerApi, address: str, queue: MessageQueue) -> tuple[MessageQueue, TopicOffset]:
    first = await api.min_offset(address, queue.topic, queue.queue_id)
    end = await api.max_offset(address, queue.topic, queue.queue_id)
    return queue, TopicOffset(min_offset=first, max_offset=end, last_update_timestamp=0)
