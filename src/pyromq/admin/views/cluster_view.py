"""The JSON of masters and slaves."""

from __future__ import annotations

from typing import Any

import msgspec

from pyromq.admin.clients import ConnectedClient
from pyromq.admin.clusters import BrokerStatus, ClusterStatus
from pyromq.admin.views.iso_times import iso_time
from pyromq.protocol.bodies.replication import FollowerState, LastFailover, Promotion


def cluster_fields(status: ClusterStatus) -> dict[str, Any]:
    """Return how all brokers stand, and what is wrong with them."""
    return {"findings": list(status.findings), "brokers": [broker_status_fields(one) for one in status.brokers]}


def client_fields(client: ConnectedClient) -> dict[str, Any]:
    """Return a client that is connected."""
    return {
        "client_id": client.client_id,
        "address": client.address,
        "language": client.language,
        "version": client.version,
        "producer_groups": list(client.producer_groups),
        "consumer_groups": list(client.consumer_groups),
        "brokers": list(client.brokers),
    }


def broker_status_fields(broker: BrokerStatus) -> dict[str, Any]:
    """Return how one broker stands."""
    return {
        "cluster": broker.cluster,
        "broker_name": broker.name,
        "broker_id": broker.broker_id,
        "address": broker.address,
        "role": broker.role,
        "version": broker.version,
        "epoch": broker.epoch,
        "in_sync": list(broker.in_sync),
        "min_offset": broker.min_offset,
        "max_offset": broker.max_offset,
        "lag_bytes": broker.lag_bytes,
        "lag_seconds": None if broker.lag_seconds is None else round(broker.lag_seconds, 3),
        "share": None if broker.share is None else round(broker.share, 4),
        "follows": _follower_fields(broker.follows),
        "last_failover": _failover_fields(broker.last_failover),
        "problems": msgspec.to_builtins(broker.problems),
        "writes": broker.writes,
        "silence": broker.silence,
    }


def promotion_fields(promotion: Promotion) -> dict[str, Any]:
    """Return what a promotion has done."""
    fields: dict[str, Any] = msgspec.to_builtins(promotion)
    return fields


def _follower_fields(follows: FollowerState | None) -> dict[str, Any] | None:
    if follows is None:
        return None
    return {"master": follows.master, "connected": follows.is_connected, "problem": follows.problem}


def _failover_fields(failover: LastFailover | None) -> dict[str, Any] | None:
    if failover is None:
        return None
    return {
        "at": iso_time(failover.at_ms),
        "took_seconds": failover.took_ms / 1000,
        "epoch": failover.epoch,
        "how": failover.how,
    }
