"""What a fence keeps out: handlers refuse, and the lane takes nothing, neither frames nor whole reads."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from pyromq.broker.replication.failover.fence import Fence
from pyromq.broker.replication.failover.in_sync_replicas import InSyncReplicas
from pyromq.errors import ServiceNotAvailable
from pyromq.protocol.command import request
from pyromq.remoting.connection import Connection
from pyromq.remoting.round import PlainLane

NOBODY = cast(Connection, None)


def test_a_closed_fence_keeps_out_requests_frames_and_reads() -> None:
    fence = Fence()
    lane = fence.guarded_lane(PlainLane(lambda frames, first, most, connection: 7, lambda data, connection: 9))
    read = lane.take_read
    assert read is not None
    handler = fence.guarded(lambda command, connection: b"answer")
    command = request(310)
    replicas: Any = SimpleNamespace(is_fenced=False)
    for leads in (None, replicas):
        fence.replicas = cast(InSyncReplicas | None, leads)
        assert (handler(command, NOBODY), lane.take([], 0, 1, NOBODY), read(b"", NOBODY)) == (b"answer", 7, 9)
    replicas.is_fenced = True
    assert (lane.take([], 0, 1, NOBODY), read(b"", NOBODY)) == (0, 0)
    with pytest.raises(ServiceNotAvailable):
        handler(command, NOBODY)


def test_a_lane_without_whole_reads_has_none_behind_a_fence() -> None:
    assert Fence().guarded_lane(PlainLane(lambda frames, first, most, connection: 7)).take_read is None
