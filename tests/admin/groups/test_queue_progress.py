"""The rows of a group's description."""

from __future__ import annotations

from pyromq.admin.groups.queue_progress import GroupObservation, OldestMessage, QueuePosition
from pyromq.admin.groups.snapshot import GroupSnapshot
from pyromq.protocol.messages.message import MessageQueue

NOW = 1_700_000_000.0
QUEUE = MessageQueue("orders", "broker-a", 3)


def test_what_retention_has_removed_does_not_wait() -> None:
    snapshot = GroupSnapshot("billing", answers={}, silent={}, members={}, reports={})
    watch = GroupObservation(snapshot=snapshot, before=None, seconds=0, slow=10, now=NOW)
    assert watch.progress(QueuePosition(QUEUE, 10, 100), OldestMessage(90, None)).lag == 10
    ahead = watch.progress(QueuePosition(QUEUE, 110, 100))
    assert (ahead.lag, ahead.behind) == (0, 0)
