"""Fence: requests that change something are refused by a master that cannot know whether it still is one."""

from __future__ import annotations

from pyromq.broker.replication.failover.in_sync_replicas import InSyncReplicas
from pyromq.errors import ServiceNotAvailable
from pyromq.protocol.command import RemotingCommand
from pyromq.remoting.connection import Connection, Frames
from pyromq.remoting.requests import Handler, HandlerResult
from pyromq.remoting.round import PlainLane


class Fence:
    """Stands before handlers; open while there are no replicas to ask."""

    def __init__(self) -> None:
        self.replicas: InSyncReplicas | None = None
        """The slaves of this broker while it leads."""

    @property
    def is_closed(self) -> bool:
        """Whether this broker leads and cannot know whether it still does: another may have been elected."""
        return self.replicas is not None and self.replicas.is_fenced

    def guarded(self, handler: Handler) -> Handler:
        """Return a handler that refuses while another broker may be master."""

        def serve(request: RemotingCommand, connection: Connection) -> HandlerResult:
            if self.is_closed:
                raise ServiceNotAvailable("another broker may be master by now: ask for the route again")
            return handler(request, connection)

        return serve

    def guarded_lane(self, lane: PlainLane) -> PlainLane:
        """Return a lane that takes nothing while another broker may be master: the handler refuses it then."""
        take, take_read = lane

        def taken(frames: Frames, first: int, most: int, connection: Connection) -> int:
            return 0 if self.is_closed else take(frames, first, most, connection)

        def read(data: bytes, connection: Connection) -> int:
            return 0 if self.is_closed or take_read is None else take_read(data, connection)

        return PlainLane(taken, None if take_read is None else read)
