"""What is wrong with the cluster, in words, the worst first, with what to do about it.

Texts are keys of the catalog of translations. What brokers say of themselves is shown as they say it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec import Struct

from pyromq.admin.health.overview import GroupLoad
from pyromq.console.reading.forecast import seconds_until_full
from pyromq.console.reading.history import FigureHistory
from pyromq.console.reading.snapshot import Snapshot

DISK_BAD, DISK_WARN = 90.0, 80.0
SOON: Final = 3 * 86400.0
LATE: Final = 300.0
CLOCKS_APART: Final = 5.0
_MOST_GROUPS: Final = 5


class Trouble(Struct, frozen=True, kw_only=True):
    """One thing that is wrong."""

    tone: str
    """`bad` or `warn`."""
    text: str
    advice: str = ""
    values: Mapping[str, Any] = {}
    link: str = ""
    """`group/NAME`, `broker/NAME` or a path: where to look."""


def find_trouble(snapshot: Snapshot, history: FigureHistory) -> list[Trouble]:
    """Return what is wrong, the worst first."""
    found = [
        *_unreadable(snapshot),
        *_brokers(snapshot),
        *_disks(snapshot, history),
        *_groups(snapshot),
        *_clocks(snapshot),
    ]
    return sorted(found, key=lambda trouble: trouble.tone != "bad")


def _unreadable(snapshot: Snapshot) -> Iterator[Trouble]:
    if snapshot.failure:
        yield Trouble(
            tone="bad",
            text="The cluster cannot be read: {reason}",
            advice="What you see is from the last successful reading. Is the name server up, and does the console's"
            " account have the rights?",
            values={"reason": snapshot.failure},
        )


def _brokers(snapshot: Snapshot) -> Iterator[Trouble]:
    for finding in snapshot.findings:
        yield Trouble(tone="bad", text="{finding}", values={"finding": finding[:1].upper() + finding[1:]})
    named = {one.name for one in snapshot.brokers if one.silence}
    for name, reason in snapshot.silent_brokers.items():
        if name not in named:
            yield Trouble(
                tone="bad",
                text="Broker {name} does not answer: {reason}",
                advice="Topics and groups that only it has are missing on these pages.",
                values={"name": name, "reason": reason},
            )


def _disks(snapshot: Snapshot, history: FigureHistory) -> Iterator[Trouble]:
    for load in snapshot.loads.values():
        left = seconds_until_full(history.points(f"broker/{load.name}/disk", long=True))
        percent = load.disk_percent or 0.0
        if percent >= DISK_WARN:
            yield Trouble(
                tone="bad" if percent >= DISK_BAD else "warn",
                text="The disk of {name} is {percent} % full",
                advice="Free space or shorten fileReservedTime: a broker that runs out of space refuses messages.",
                values={"name": load.name, "percent": f"{percent:g}"},
            )
        elif left is not None and left < SOON:
            yield Trouble(
                tone="warn",
                text="The disk of {name} will be full in {time}",
                advice="It fills faster than old files expire. Shorten fileReservedTime or add space.",
                values={"name": load.name, "time": left},
            )


def _groups(snapshot: Snapshot) -> Iterator[Trouble]:
    own = [group for group in snapshot.groups.values() if not group.is_built_in]
    waiting = sorted((group for group in own if group.lag), key=lambda group: -group.lag)
    yield from (_abandoned(group) for group in [each for each in waiting if not each.members][:_MOST_GROUPS])
    late = [group for group in waiting if group.members and (group.behind or 0.0) > LATE]
    for group in late[:_MOST_GROUPS]:
        yield Trouble(
            tone="warn",
            text="Group {name} is {time} behind: {count} messages wait",
            advice="Look for a blocked queue or too few threads on the page of the group.",
            values={"name": group.group, "time": group.behind, "count": group.lag},
            link=f"group/{group.group}",
        )
    for group in sorted((each for each in own if each.dead_letters), key=lambda one: -one.dead_letters)[:_MOST_GROUPS]:
        yield Trouble(
            tone="warn",
            text="Group {name} has {count} dead letters",
            advice="These messages failed at every try. Find the cause, mend it, and resend them.",
            values={"name": group.group, "count": group.dead_letters},
            link=f"group/{group.group}",
        )


def _abandoned(group: GroupLoad) -> Trouble:
    return Trouble(
        tone="warn",
        text="{count} messages wait for group {name}, and no member is online",
        advice="Start its consumers, or delete the group if it is no longer used.",
        values={"name": group.group, "count": group.lag},
        link=f"group/{group.group}",
    )


def _clocks(snapshot: Snapshot) -> Iterator[Trouble]:
    for name, difference in snapshot.clock_differences.items():
        if abs(difference) > CLOCKS_APART:
            yield Trouble(
                tone="warn",
                text="The clock of {name} differs by {time}",
                advice="Delayed messages and times on these pages are wrong by as much. Check NTP.",
                values={"name": name, "time": abs(difference)},
            )
