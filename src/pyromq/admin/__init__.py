"""The public face of the administrator's client.

>>> from pyromq.admin import AdminClient
"""

from __future__ import annotations

from pyromq.admin.admin_client import AdminClient
from pyromq.admin.dead_letters import DeadLetters, DeadLetterTopic, Letter, Wanted
from pyromq.admin.groups.description import (
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
from pyromq.admin.groups.groups import Groups
from pyromq.admin.groups.offset_reset import OffsetMove, ResetPlan, ResetTo
from pyromq.admin.timed_messages import TimedMessage, TimedMessages
from pyromq.admin.topics import (
    QueueContents,
    TopicConsumer,
    TopicDescription,
    TopicListing,
    Topics,
    TopicSummary,
)
from pyromq.admin.traces import ConsumeEvent, MessageTrace, SendEvent, TraceEvent, Traces, TransactionEvent
from pyromq.admin.transactions import HalfMessage, Transactions

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
