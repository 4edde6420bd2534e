"""The operator's client: look at a cluster and change it.

>>> from pyromq.admin import AdminClient

`admin_client` opens the connections and holds one object for each theme: `groups` and `topics` (packages),
`clusters` (masters and slaves), `dead_letters`, `timed_messages`, `transactions` and `traces`. A theme asks the brokers
and returns frozen values. `masters` asks all brokers of a cluster at once and keeps the ones that do not answer apart.
`topic_reader` reads what a topic holds, without a group. `views` turns the values into JSON: commands and the console
show the same fields.
`blocking_client` is the whole client without `await`.

The names below are public. Each is loaded on first use, so that importing one part does not load all of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyromq.admin.admin_client import AdminClient as AdminClient
    from pyromq.admin.clusters import BrokerStatus as BrokerStatus
    from pyromq.admin.clusters import ClusterStatus as ClusterStatus
    from pyromq.admin.clusters import PromotionPlan as PromotionPlan
    from pyromq.admin.dead_letters import DeadLetters as DeadLetters
    from pyromq.admin.dead_letters import DeadLetterTopic as DeadLetterTopic
    from pyromq.admin.dead_letters import Letter as Letter
    from pyromq.admin.dead_letters import Wanted as Wanted
    from pyromq.admin.groups.description import GroupDescription as GroupDescription
    from pyromq.admin.groups.description import GroupListing as GroupListing
    from pyromq.admin.groups.description import GroupSummary as GroupSummary
    from pyromq.admin.groups.description import HeadMessage as HeadMessage
    from pyromq.admin.groups.description import Member as Member
    from pyromq.admin.groups.description import Opinion as Opinion
    from pyromq.admin.groups.description import QueueProgress as QueueProgress
    from pyromq.admin.groups.description import TopicCount as TopicCount
    from pyromq.admin.groups.description import TopicSubscription as TopicSubscription
    from pyromq.admin.groups.groups import Groups as Groups
    from pyromq.admin.groups.offset_reset import OffsetMove as OffsetMove
    from pyromq.admin.groups.offset_reset import ResetPlan as ResetPlan
    from pyromq.admin.groups.offset_reset import ResetTo as ResetTo
    from pyromq.admin.timed_messages import TimedMessage as TimedMessage
    from pyromq.admin.timed_messages import TimedMessages as TimedMessages
    from pyromq.admin.topics.deletion import TopicDeletion as TopicDeletion
    from pyromq.admin.topics.description import QueueContents as QueueContents
    from pyromq.admin.topics.description import TopicConsumer as TopicConsumer
    from pyromq.admin.topics.description import TopicDescription as TopicDescription
    from pyromq.admin.topics.description import TopicListing as TopicListing
    from pyromq.admin.topics.description import TopicSummary as TopicSummary
    from pyromq.admin.topics.resize import DrainingGroup as DrainingGroup
    from pyromq.admin.topics.resize import ResizePlan as ResizePlan
    from pyromq.admin.topics.resize import ResizeProgress as ResizeProgress
    from pyromq.admin.topics.topics import Topics as Topics
    from pyromq.admin.traces import ConsumeEvent as ConsumeEvent
    from pyromq.admin.traces import MessageTrace as MessageTrace
    from pyromq.admin.traces import SendEvent as SendEvent
    from pyromq.admin.traces import TraceEvent as TraceEvent
    from pyromq.admin.traces import Traces as Traces
    from pyromq.admin.traces import TransactionEvent as TransactionEvent
    from pyromq.admin.transactions import HalfMessage as HalfMessage
    from pyromq.admin.transactions import Transactions as Transactions

_HOMES = {
    "AdminClient": "admin_client",
    "BrokerStatus": "clusters",
    "ClusterStatus": "clusters",
    "ConsumeEvent": "traces",
    "DeadLetterTopic": "dead_letters",
    "DeadLetters": "dead_letters",
    "DrainingGroup": "topics.resize",
    "GroupDescription": "groups.description",
    "GroupListing": "groups.description",
    "GroupSummary": "groups.description",
    "Groups": "groups.groups",
    "HalfMessage": "transactions",
    "HeadMessage": "groups.description",
    "Letter": "dead_letters",
    "Member": "groups.description",
    "MessageTrace": "traces",
    "OffsetMove": "groups.offset_reset",
    "Opinion": "groups.description",
    "PromotionPlan": "clusters",
    "QueueContents": "topics.description",
    "QueueProgress": "groups.description",
    "ResetPlan": "groups.offset_reset",
    "ResetTo": "groups.offset_reset",
    "ResizePlan": "topics.resize",
    "ResizeProgress": "topics.resize",
    "SendEvent": "traces",
    "TimedMessage": "timed_messages",
    "TimedMessages": "timed_messages",
    "TopicConsumer": "topics.description",
    "TopicCount": "groups.description",
    "TopicDeletion": "topics.deletion",
    "TopicDescription": "topics.description",
    "TopicListing": "topics.description",
    "TopicSubscription": "groups.description",
    "TopicSummary": "topics.description",
    "Topics": "topics.topics",
    "TraceEvent": "traces",
    "Traces": "traces",
    "TransactionEvent": "traces",
    "Transactions": "transactions",
    "Wanted": "dead_letters",
}

__all__ = [*_HOMES]


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'pyromq.admin' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"pyromq.admin.{home}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
