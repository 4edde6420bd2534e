"""What brokers say about all of their groups at once, put together group by group."""

from __future__ import annotations

from collections.abc import Iterable

from pyromq.admin.groups.description import GroupSummary
from pyromq.protocol.bodies.activity import GroupActivities, GroupActivity
from pyromq.protocol.bodies.clients import MessageModel
from pyromq.protocol.names import RETRY_PREFIX


def rows_by_group(answers: Iterable[GroupActivities | None]) -> dict[str, list[GroupActivity]]:
    """Return the rows of all brokers for each group; None is the answer of a broker that is not ours."""
    found: dict[str, list[GroupActivity]] = {}
    for answer in answers:
        for name, row in answer.groups.items() if answer else ():
            found.setdefault(name, []).append(row)
    return found


def is_unclear(rows: list[GroupActivity]) -> bool:
    """Return True if the brokers' rows of a group do not say how far it is.

    Of a broadcasting group only its members know. A broker that knows none of the members also counts topics that the
    group no longer consumes.
    """
    online = [row for row in rows if row.members]
    if any(row.model is MessageModel.BROADCASTING for row in online):
        return True
    return bool(online) and any(row.lag and not row.members for row in rows)


def members_of(rows: Iterable[GroupActivity]) -> int:
    """Return the number of members; one may be known to several brokers."""
    return len({client for row in rows for client in row.members})


def summary_of(group: str, rows: list[GroupActivity]) -> GroupSummary:
    """Return a group in a list of all groups; only where `is_unclear` is False."""
    online = [row for row in rows if row.members]
    topics = {topic for row in online or rows for topic in row.topics}
    return GroupSummary(
        group=group,
        members=members_of(rows),
        model=online[0].model if online else None,
        topics=tuple(sorted(topic for topic in topics if not topic.startswith(RETRY_PREFIX))),
        lag=sum(row.lag for row in rows),
    )
