"""PlainSends: the broker's side of the lane for sends.

The lane (`lane/sends.py`) knows messages, the log and queues. Here is what else stands between a send and the log:
access control, flow control, a store that takes no messages, queues without a file, an index that waits for space.
While one of them has a say, every send goes the ordinary way, `SendHandler.send`, which knows what to answer.
"""

from __future__ import annotations

from time import perf_counter

from pyromq.broker.messages.flow_control import SendFlowControl
from pyromq.broker.messages.send import BORN_HOST, STOCK_REGION
from pyromq.broker.parts import Parts, Writing
from pyromq.lane.sends import Frames, SendPlace, send_lane
from pyromq.protocol.command import MAX_HEADER
from pyromq.remoting.connection import LANE_SHARE, Connection
from pyromq.remoting.round import PlainLane


class PlainSends:
    """Takes plain messages from connections, and keeps their answers until they are stored."""

    def __init__(self, parts: Parts, writing: Writing, flow: SendFlowControl) -> None:
        config, store = parts.config, writing.store
        self.is_usable = (config.region, config.trace_on) == STOCK_REGION and not config.accept_sends_from_ms
        """Whether answers and times are those that the lane knows."""
        self._flow = flow
        self._store = store
        self._new_queues = writing.new_queues
        self._now_ms = parts.clock.now_ms
        self._acknowledge = writing.acknowledgements.add_all
        self._expect_group = writing.acknowledgements.expect_group
        self._is_open = parts.access.is_open
        self._caller_of = parts.access.caller
        self._round = parts.round
        place = store.lane_place()
        self._index = place.message_index
        lane = send_lane(
            SendPlace(
                log=place.log,
                groups=place.groups,
                topics=parts.topics.by_name,
                queues=place.queues.by_topic,
                store_host=parts.store_host,
                cluster=config.cluster,
                max_header=min(config.max_header_bytes, MAX_HEADER),
                max_body=place.max_body,
                max_record=place.max_record,
                has_index=place.has_index,
            )
        )
        self._take, self._take_read = lane.take, lane.take_read
        self.lane = PlainLane(self.take, self.take_read if self._is_open else None)

    def take(self, frames: Frames, first: int, most: int, connection: Connection) -> int:
        """Take plain messages from a frame on, up to the first that is not plain; return how many were taken."""
        if self._flow.refuses or self._new_queues.holds_any or self._index.is_stuck or not self._store.writable:
            return 0
        caller = None if self._is_open else self._caller_of(connection)
        if caller is None and not self._is_open:
            return 0
        born_host: bytes = connection.attributes[BORN_HOST]  # type: ignore[assignment]  # set when it connected
        count, answers = self._take(frames, first, most, born_host, self._now_ms(), caller)
        if count and caller is not None:
            connection.is_proven = True  # as the guard notes of all that it lets in
        if answers:
            self._acknowledge(connection, answers)
        elif count:
            self._expect_group()
        return count

    def take_read(self, data: bytes, connection: Connection) -> int:
        """Take plain messages from a read, in a round that has served nothing else: so nothing here has a say.

        Return how many of its bytes were taken.
        """
        if perf_counter() >= self._round.serves_until:
            return 0
        born_host: bytes = connection.attributes[BORN_HOST]  # type: ignore[assignment]
        taken, answers = self._take_read(data, LANE_SHARE, born_host, self._now_ms())
        if answers:
            self._acknowledge(connection, answers)
        elif taken:
            self._expect_group()
        return taken
