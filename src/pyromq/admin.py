"""The public face of the administrator's client.

>>> from pyromq.admin import AdminClient
"""

from __future__ import annotations

from pyromq.client.admin import AdminClient
from pyromq.client.admin_dead_letters import DeadLetters, DeadLetterTopic, Letter, Wanted
from pyromq.client.admin_delays import TimedMessage, TimedMessages
from pyromq.client.admin_groups import Groups
from pyromq.client.admin_groups_offsets import OffsetMove, ResetPlan, ResetTo
from pyromq.client.admin_groups_results import (
    GroupDescription,
    GroupListing,
    GroupSummary,
    HeadMessage,
    Member,
    Opinion,
    QueueProgress,
    TopicCount,
    TopicSubscription,
)
from pyromq.client.admin_topics import (
    QueueContents,
    TopicConsumer,
    TopicDescription,
    TopicListing,
    Topics,
    TopicSummary,
)
from pyromq.client.admin_traces import ConsumeEvent, MessageTrace, SendEvent, TraceEvent, Traces, TransactionEvent
from pyromq.client.admin_transactions import HalfMessage, Transactions

__all__ = [
    "AdminClient",
    "ConsumeEvent",
    "DeadLetterTopic",
    "DeadLetters",
    "GroupDescription",
    "GroupListing",
    "GroupSummary",
    "Groups",
    "HalfMessage",
    "HeadMessage",
    "Letter",
    "Member",
    "MessageTrace",
    "OffsetMove",
    "Opinion",
    "QueueContents",
    "QueueProgress",
    "ResetPlan",
    "ResetTo",
    "SendEvent",
    "TimedMessage",
    "TimedMessages",
    "TopicConsumer",
    "TopicCount",
    "TopicDescription",
    "TopicListing",
    "TopicSubscription",
    "TopicSummary",
    "Topics",
    "TraceEvent",
    "Traces",
    "TransactionEvent",
    "Transactions",
    "Wanted",
]
