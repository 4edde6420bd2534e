"""BrokerLimits: how much clients may make a broker keep. docs/security.md has the list; keys.py reads it."""

from __future__ import annotations

from typing import Final

from pyromq.remoting.tls.tls_settings import BrokerTlsSettings
from pyromq.settings.key_table import Key
from pyromq.settings.port_keys import PORT_KEYS
from pyromq.settings.values import integer

_ANY: Final = 2**31 - 1


class BrokerLimits(BrokerTlsSettings, frozen=True, kw_only=True):
    """Limits of a broker, besides those of its ports; base of its settings."""

    max_topics: int = 100_000
    """The most topics that use may bring the table to (`pyromqMaxTopics`); administrators may go beyond."""
    max_groups: int = 10_000
    """The most groups that use may bring the table to (`pyromqMaxGroups`)."""
    max_queues: int = 1_024
    """Queues of one topic (`pyromqMaxQueuesPerTopic`); a topic that has more keeps them."""
    max_held_pulls: int = 100_000
    """The most pulls that wait at a time (`pyromqMaxHeldPulls`)."""
    max_client_body: int = 1 << 20
    """Bytes of a heartbeat, a lock or a check of a subscription (`pyromqMaxClientBodyBytes`)."""
    max_groups_per_client: int = 1_000
    """Groups of one connection, of producers and of consumers each (`pyromqMaxGroupsPerClient`)."""
    max_subscriptions_per_client: int = 5_000
    """Subscriptions of one heartbeat, in all its groups (`pyromqMaxSubscriptionsPerClient`)."""
    max_members: int = 500_000
    """Places of clients in groups, all together (`pyromqMaxMembers`)."""
    max_filters: int = 10_000
    """Registered SQL92 expressions (`pyromqMaxFilters`)."""
    max_offset_rows: int = 1_000_000
    """Pairs of a group and a topic with committed offsets (`pyromqMaxOffsetRows`)."""


LIMIT_KEYS: Final[dict[str, Key]] = {
    "pyromqMaxTopics": Key(
        "max_topics", integer(1, _ANY), help="topics that clients may create; administrators may create more"
    ),
    "pyromqMaxGroups": Key("max_groups", integer(1, _ANY), help="groups that clients may create"),
    "pyromqMaxQueuesPerTopic": Key(
        "max_queues", integer(1, 65_535), help="queues of a topic; one that has more keeps them"
    ),
    "pyromqMaxHeldPulls": Key("max_held_pulls", integer(1, _ANY), help="pulls that wait at a time"),
    "pyromqMaxClientBodyBytes": Key(
        "max_client_body", integer(1 << 10, 16 << 20), help="bytes of a heartbeat, lock or check of a subscription"
    ),
    "pyromqMaxGroupsPerClient": Key(
        "max_groups_per_client", integer(1, 10_000), help="groups of a connection, of producers and of consumers each"
    ),
    "pyromqMaxSubscriptionsPerClient": Key(
        "max_subscriptions_per_client", integer(1, 100_000), help="subscriptions of a heartbeat"
    ),
    "pyromqMaxMembers": Key("max_members", integer(1, _ANY), help="places of clients in groups, all together"),
    "pyromqMaxFilters": Key("max_filters", integer(1, _ANY), help="registered SQL92 expressions"),
    "pyromqMaxOffsetRows": Key(
        "max_offset_rows", integer(1, _ANY), help="pairs of a group and a topic with committed offsets"
    ),
    **PORT_KEYS,
}
