"""The rows of a group's description: each queue with its lag, its owner and what holds it up."""

from __future__ import annotations

from datetime import timedelta

from msgspec import Struct

from pyromq.client.admin_groups_blocks import Case, what_blocks
from pyromq.client.admin_groups_members import EPOCH
from pyromq.client.admin_groups_queues import First, Place
from pyromq.client.admin_groups_results import HeadMessage, QueueProgress
from pyromq.client.admin_groups_sight import Sight
from pyromq.protocol.bodies import ConsumerRunningInfo, ProcessQueueInfo

_NOT_READ = First(0, None)


class Watch(Struct, frozen=True, kw_only=True):
    """Two looks at a group, one after the other; only one if nobody watched."""

    sight: Sight
    before: Sight | None
    seconds: float
    slow: float
    now: float

    def progress(self, place: Place, waiting: First | None = None) -> QueueProgress:
        """Return how far the group is in a queue, given the first message that waits there, if one does."""
        first = waiting or _NOT_READ
        lag = max(place.end - max(place.committed, first.offset), 0)
        owners = (place.client_id,) if place.client_id else tuple(self.sight.holders(place.queue))
        moved = self._moved(place) if lag else None
        case = self._case(place, owners, moved)
        return QueueProgress(
            queue=place.queue,
            committed_offset=place.committed,
            end_offset=place.end,
            lag=lag,
            behind=self._behind(lag, first),
            owners=owners,
            held=case.state.cached_msg_count if owners else None,
            moved=moved,
            head=_head(case, first),
            blocked=self._blocked(owners, case) if lag else None,
        )

    def _moved(self, place: Place) -> bool | None:
        if self.before is None:
            return None
        return self.before.position(place.queue) != self.sight.position(place.queue)

    def _behind(self, lag: int, first: First) -> float | None:
        if not lag:
            return 0.0
        if first.message is None:
            return None
        return max(self.now - first.message.store_timestamp_ms / 1000, 0.0)

    def _blocked(self, owners: tuple[str, ...], case: Case) -> str | None:
        if len(owners) > 1:
            return f"{len(owners)} members say that they have it"
        everybody_answered = len(self.sight.infos) == len(self.sight.known)
        if not owners and self.sight.known and everybody_answered:
            return "no member has it"
        return what_blocks(case)

    def _case(self, place: Place, owners: tuple[str, ...], moved: bool | None) -> Case:
        info = self.sight.infos[owners[0]] if owners else ConsumerRunningInfo()
        return Case(
            queue=place.queue,
            info=info,
            state=info.mq_table.get(place.queue, ProcessQueueInfo()),
            is_broadcasting=self.sight.is_broadcasting,
            moved=moved,
            watch=self.seconds,
            slow=self.slow,
            now=self.now,
        )


def _head(case: Case, first: First) -> HeadMessage | None:
    message, working = first.message, case.head
    if message is None:
        return None
    has_it = working is not None and working.queue_offset == message.queue_offset
    return HeadMessage(
        queue_offset=message.queue_offset,
        message_id=message.message_id,
        keys=tuple(message.keys),
        tags=message.tags,
        stored=EPOCH + timedelta(milliseconds=message.store_timestamp_ms),
        listening=case.since(working.since_ms) if working is not None and has_it else None,
    )
