"""The groups that consume a topic, or did so before, with their members and lag."""

from __future__ import annotations

from pyromq.admin.masters import Masters, gather_limited
from pyromq.admin.topics.description import TopicConsumer
from pyromq.client.net.calls.admin_calls import AdminCalls


async def group_names(calls: AdminCalls, masters: Masters, topic: str) -> list[str]:
    """Return the groups that have members or offsets for a topic."""
    known = await masters.ask(lambda address: calls.topic_groups(address, topic))
    return sorted({name for groups in known.values() for name in groups})


async def find_consumers(calls: AdminCalls, masters: Masters, topic: str) -> tuple[TopicConsumer, ...]:
    """Return the groups of a topic, with their lag in all of its queues."""
    names = await group_names(calls, masters, topic)
    return tuple(await gather_limited(names, lambda name: _consumer(calls, masters, topic, name)))


async def _consumer(calls: AdminCalls, masters: Masters, topic: str, group: str) -> TopicConsumer:
    stats = await masters.ask(lambda address: calls.consume_stats(address, group, topic))
    online = await masters.ask(lambda address: calls.group_connections(address, group))
    rows = [row for answer in stats.values() for row in answer.offset_table.values()]
    ids = {member.client_id for found in online.values() if found for member in found.connection_set}
    lag = sum(max(row.broker_offset - row.consumer_offset, 0) for row in rows)
    return TopicConsumer(group=group, members=len(ids), lag=lag)
