"""Whether the members of a consumer group subscribe alike.

They must: a group shares out the queues of each topic among all its members, and has one subscription for each topic,
that of the latest heartbeat. A member that wants something else gets what it did not ask for, and misses what it did.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from pyromq.broker.clients.client_registry import Client, ConsumerGroup, GroupSubscription
from pyromq.figures import BoundFigures, Figure, Kind
from pyromq.protocol.names import RETRY_PREFIX
from pyromq.protocol.tag_filter import TAG
from pyromq.remoting.connection import Connection

logger = logging.getLogger(__name__)

_MOST_SHOWN = 200  # characters of an expression
MOST_NAMED = 5  # clients of one opinion, and topics of one client: a line in the log is to be read

Wants = frozenset[tuple[str, str, object]]


class _Opinion(NamedTuple):
    wants: Wants
    words: str


class _Opinions:
    """What each member of a group wants, and how many want each: a group may have thousands of members."""

    def __init__(self) -> None:
        self.of: dict[Connection, _Opinion] = {}
        self.counts: dict[Wants, int] = {}
        self.told: frozenset[Wants] = frozenset()

    def set(self, connection: Connection, opinion: _Opinion) -> None:
        self.remove(connection)
        self.of[connection] = opinion
        self.counts[opinion.wants] = self.counts.get(opinion.wants, 0) + 1

    def remove(self, connection: Connection) -> None:
        before = self.of.pop(connection, None)
        if before is not None:
            self.counts[before.wants] -= 1
            if not self.counts[before.wants]:
                del self.counts[before.wants]


class SubscriptionAgreement:
    """Notices when the members of a group subscribe differently, and says so once."""

    def __init__(self) -> None:
        self._groups: dict[str, _Opinions] = {}

    @property
    def disagreeing(self) -> list[str]:
        """The groups whose members subscribe differently now."""
        return sorted(name for name, opinions in self._groups.items() if opinions.told)

    def figures(self) -> BoundFigures[SubscriptionAgreement]:
        """Return the figures of disagreement."""
        return BoundFigures(_FIGURES, lambda: self)

    def heard(self, group: ConsumerGroup, client: Client, wanted: Iterable[GroupSubscription]) -> None:
        """Take note of what a member subscribes to; warn if others of its group subscribe differently."""
        opinions = self._groups.setdefault(group.name, _Opinions())
        opinion = _opinion(wanted)
        before = opinions.of.get(client.connection)
        if before is None or before.wants != opinion.wants:
            opinions.set(client.connection, opinion)
            self._compare(group, opinions)

    def left(self, name: str, connection: Connection, group: ConsumerGroup | None) -> None:
        """Forget a member that a group no longer has; `group` is None if it has none."""
        opinions = self._groups.get(name)
        if opinions is None:
            return
        opinions.remove(connection)
        if group is None:
            del self._groups[name]
        else:
            self._compare(group, opinions)

    def _compare(self, group: ConsumerGroup, opinions: _Opinions) -> None:
        found = frozenset(opinions.counts) if len(opinions.counts) > 1 else frozenset()
        if found == opinions.told:
            return
        opinions.told = found
        if found:
            text = _differences(group.members, opinions.of)
            logger.warning("members of one group subscribe differently group=%s %s", group.name, text)
        else:
            logger.info("the members of the group subscribe alike again group=%s", group.name)


_FIGURES: Final[tuple[Figure[SubscriptionAgreement], ...]] = (
    Figure(
        "groups_subscribing_differently",
        "Consumer groups whose members subscribe differently.",
        Kind.TEXT,
        lambda agreement: agreement.disagreeing,
    ),
)


def _opinion(wanted: Iterable[GroupSubscription]) -> _Opinion:
    """Return what is wanted, to be compared, and the same in words."""
    own = [each for each in wanted if not each.data.topic.startswith(RETRY_PREFIX)]
    own.sort(key=lambda each: each.data.topic)
    texts = [f"{each.data.topic} ({each.data.sub_string[:_MOST_SHOWN]})" for each in own[: MOST_NAMED + 1]]
    more = f" and {len(own) - MOST_NAMED} more" if len(own) > MOST_NAMED else ""
    return _Opinion(frozenset(map(_comparable, own)), ", ".join(texts[:MOST_NAMED]) + more or "nothing")


def _comparable(wanted: GroupSubscription) -> tuple[str, str, object]:
    """Leave out what makes no difference: the order of tags, blanks between them, the version."""
    data = wanted.data
    return (data.topic, TAG, wanted.codes) if wanted.is_tags else (data.topic, data.expression_type, data.sub_string)


def _differences(clients: Mapping[Connection, Client], members: Mapping[Connection, _Opinion]) -> str:
    opinions: dict[Wants, list[str]] = {}
    words: dict[Wants, str] = {}
    for connection, (wants, text) in members.items():
        opinions.setdefault(wants, []).append(clients[connection].client_id)
        words.setdefault(wants, text)
    return "; ".join(f"{_some(sorted(ids))} want {words[wants]}" for wants, ids in opinions.items())


def _some(items: list[str]) -> str:
    more = f" and {len(items) - MOST_NAMED} more" if len(items) > MOST_NAMED else ""
    return ", ".join(items[:MOST_NAMED]) + more
