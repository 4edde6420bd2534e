"""The running info of a consumer, as RocketMQ's tools expect it (GET_CONSUMER_RUNNING_INFO)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyromq.client.consume.assigned_queue import AssignedQueue
from pyromq.client.consume.consumer_stats import ConsumerStats
from pyromq.client.consume.process_queue import LOCK_LIFETIME, ProcessQueue
from pyromq.client.consume.subscriptions import Subscription
from pyromq.clock import Clock, wall_ms
from pyromq.protocol.bodies import ConsumerRunningInfo, ConsumeStatus, ConsumeType, ProcessQueueInfo

CLIENT_VERSION = "V4_9_8"  # what we announce on the wire
_MIB = 1024 * 1024


def consumer_properties(
    name_servers: Iterable[str], consume_type: ConsumeType, started_ms: int, *, orderly: bool = False, threads: int = 0
) -> dict[str, str]:
    """Return the properties that tools expect from every consumer."""
    return {
        "PROP_NAMESERVER_ADDR": "".join(f"{address};" for address in name_servers),
        "PROP_CONSUME_TYPE": consume_type.value,
        "PROP_CONSUMEORDERLY": "true" if orderly else "false",
        "PROP_THREADPOOL_CORE_SIZE": str(threads),
        "PROP_CLIENT_VERSION": CLIENT_VERSION,
        "PROP_CONSUMER_START_TIMESTAMP": str(started_ms),
    }


def running_info(
    properties: Mapping[str, str],
    subscriptions: Mapping[str, Subscription],
    queues: Iterable[AssignedQueue],
    stats: ConsumerStats | None,
    clock: Clock,
) -> ConsumerRunningInfo:
    """Return the state of a consumer's queues and the rates of its topics."""
    now = clock.monotonic()
    statuses = {topic: stats.status(topic, now) if stats else ConsumeStatus() for topic in subscriptions}
    return ConsumerRunningInfo(
        properties=dict(properties),
        subscription_set=[subscription.data() for subscription in subscriptions.values()],
        mq_table={held.queue: _queue_info(held, clock) for held in queues},
        status_table=statuses,
    )


def _queue_info(held: AssignedQueue, clock: Clock) -> ProcessQueueInfo:
    count = len(held)
    info = ProcessQueueInfo(
        commit_offset=held.consumed_offset or 0,
        cached_msg_count=count,
        cached_msg_size_in_mib=held.size // _MIB,
        dropped=held.dropped,
        last_pull_timestamp=wall_ms(clock, held.pulled_at) if held.pulled_at else 0,
    )
    if isinstance(held, ProcessQueue):
        info.cached_msg_min_offset = (held.consumed_offset or 0) if count else 0
        info.cached_msg_max_offset = held.last_offset if count else 0
        info.last_consume_timestamp = int(held.consumed_at * 1000)
        info.locked = held.locked and held.lock_expires > 0
        if held.lock_expires:
            info.last_lock_timestamp = wall_ms(clock, held.lock_expires - LOCK_LIFETIME)
    return info
