"""What /connz, /topicz and /groupz show: connections, topics and groups of this process, for people with curl.

Long lists are made in steps, as /metrics is. The names are those of the commands' JSON.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any, Final

from pyromq.broker.clients.client_registry import Client
from pyromq.broker.server import Broker
from pyromq.broker.stats.group_lag import GroupBacklog
from pyromq.broker.tables.topic_table import Topic
from pyromq.console.monitoring.watched import Watched
from pyromq.remoting.connection import Connection

ROWS_A_STEP: Final = 50


async def connections(watched: Watched) -> list[dict[str, Any]]:
    """Return the open connections of all servers, and which clients they belong to."""
    found: list[dict[str, Any]] = []
    if watched.name_server is not None:
        found += [_connection(watched.name_server.address, each) for each in watched.name_server.connections]
    for broker in list(watched.brokers):
        clients = _by_connection(broker)
        for number, connection in enumerate(broker.service.connections, 1):
            found.append(_connection(broker.address, connection) | clients.get(connection, {}))
            if number % ROWS_A_STEP == 0:
                await asyncio.sleep(0)
    return found


def _connection(server: str, connection: Connection) -> dict[str, Any]:
    return {"server": server, "peer": connection.peer, "local": connection.local, "running": connection.running}


def _by_connection(broker: Broker) -> dict[Connection, dict[str, Any]]:
    """Return what is known of clients, by connection."""
    found: dict[Connection, dict[str, Any]] = {}
    registry = broker.clients
    for name, group in registry.consumers.items():
        for connection, client in group.members.items():
            found.setdefault(connection, _client(client))["consumer_groups"].append(name)
    for name, members in registry.producers.items():
        for connection, client in members.items():
            found.setdefault(connection, _client(client))["producer_groups"].append(name)
    return found


def _client(client: Client) -> dict[str, Any]:
    return {
        "client_id": client.client_id,
        "language": client.language.name,
        "version": client.version,
        "consumer_groups": [],
        "producer_groups": [],
    }


async def topics(watched: Watched) -> list[dict[str, Any]]:
    """Return the topics of all brokers."""
    found: list[dict[str, Any]] = []
    for broker in list(watched.brokers):
        for number, topic in enumerate(list(broker.topics.by_name.values()), 1):
            found.append(_topic(broker, topic))
            if number % ROWS_A_STEP == 0:
                await asyncio.sleep(0)
    return found


def _topic(broker: Broker, topic: Topic) -> dict[str, Any]:
    queues = range(topic.queues)
    first = sum(broker.store.min_offset(topic.name, queue_id) for queue_id in queues)
    end = sum(max(broker.store.max_offset(topic.name, queue_id), 0) for queue_id in queues)
    return {
        "broker_name": broker.name,
        "topic": topic.name,
        "read_queues": topic.read_queues,
        "write_queues": topic.write_queues,
        "readable": topic.readable,
        "writable": topic.writable,
        "ordered": topic.config.order,
        "messages": max(end - first, 0),
        "messages_put": topic.puts,
        "bytes_put": topic.put_bytes,
        "put_rate": 0.0 if topic.series is None else round(topic.series.rate, 3),
    }


async def groups(watched: Watched) -> list[dict[str, Any]]:
    """Return how far the groups of all brokers are, topic by topic, with the queues in which messages wait."""
    found: list[dict[str, Any]] = []
    for broker in list(watched.brokers):
        async with aclosing(broker.service.reading.lags.walk()) as walk:
            async for batch in walk:
                found += [_progress(broker.name, each) for each in batch]
    return found


def _progress(broker_name: str, progress: GroupBacklog) -> dict[str, Any]:
    return {
        "broker_name": broker_name,
        "group": progress.group,
        "topic": progress.topic,
        "members": progress.members,
        "lag": progress.lag,
        "behind_seconds": progress.behind,
        "blocked_seconds": round(progress.still, 3),
        "queues": [
            {
                "queue_id": queue.queue_id,
                "committed_offset": queue.committed,
                "end_offset": queue.end,
                "lag": queue.lag,
                "behind_seconds": queue.behind,
                "blocked_seconds": round(queue.still, 3),
            }
            for queue in progress.queues
        ],
    }
