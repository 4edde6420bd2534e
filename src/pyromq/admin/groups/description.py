"""The values that describe a consumer group: its members, its queues and what is wrong with them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from msgspec import Struct

from pyromq.protocol.bodies import ConsumeFromWhere, ConsumeType, MessageModel, SubscriptionGroupConfig
from pyromq.protocol.messages.message import MessageQueue
from pyromq.protocol.names import BUILT_IN_GROUPS, RETRY_PREFIX, is_system_group


class GroupSummary(Struct, frozen=True, kw_only=True):
    """One group in a list of all groups."""

    group: str
    members: int
    model: MessageModel | None
    """None if no member is online."""
    topics: tuple[str, ...]
    """The topics it has offsets of or subscribes to, without its retry topic."""
    lag: int
    """The number of messages that wait for it, as its brokers count them."""

    @property
    def is_built_in(self) -> bool:
        """True if the group is one of RocketMQ's own."""
        return self.group in BUILT_IN_GROUPS or is_system_group(self.group)


class GroupListing(Struct, frozen=True, kw_only=True):
    """All groups that brokers know."""

    groups: tuple[GroupSummary, ...]
    silent_brokers: Mapping[str, str]
    """Brokers that did not answer, and why. What only they know is missing."""


class TopicSubscription(Struct, frozen=True, kw_only=True, order=True):
    """Which messages of a topic are wanted."""

    topic: str
    expression: str
    kind: str
    """TAG, SQL92 or FUNCTION."""

    def __str__(self) -> str:
        return f"{self.topic} ({self.expression})"


class Member(Struct, frozen=True, kw_only=True):
    """A consumer that is online."""

    client_id: str
    address: str
    """As one of the brokers sees it."""
    language: str
    version: str
    brokers: tuple[str, ...]
    """The brokers that receive its heartbeats."""
    started: datetime | None = None
    orderly: bool | None = None
    subscriptions: tuple[TopicSubscription, ...] = ()
    queues: tuple[MessageQueue, ...] = ()
    """The queues that it owns, including those of the retry topic."""
    silence: str | None = None
    """Why it did not report its state; None if it did."""

    @property
    def is_idle(self) -> bool:
        """True if it owns no queue but that of retries: there are more members than queues."""
        return self.silence is None and all(queue.topic.startswith(RETRY_PREFIX) for queue in self.queues)


class Opinion(Struct, frozen=True, kw_only=True):
    """Members with the same subscriptions. A group with two opinions loses messages."""

    members: tuple[str, ...]
    subscriptions: tuple[TopicSubscription, ...]

    def __str__(self) -> str:
        return f"{', '.join(self.members)}: {', '.join(map(str, self.subscriptions)) or 'nothing'}"


class HeadMessage(Struct, frozen=True, kw_only=True):
    """The first message of a queue that the group has not consumed."""

    queue_offset: int
    message_id: str
    keys: tuple[str, ...]
    tags: str | None
    stored: datetime
    listening: float | None = None
    """Seconds for which a listener has had it; None if its consumer does not report that."""


class QueueProgress(Struct, frozen=True, kw_only=True):
    """How far the group is in a queue. A broadcasting group has one for each member."""

    queue: MessageQueue
    committed_offset: int
    end_offset: int
    lag: int
    """The number of waiting messages, including those that the group's filter leaves out."""
    behind: float | None
    """Seconds since the first of them was stored, 0 if there are none; None if it could not be read."""
    owners: tuple[str, ...] = ()
    """The members that own it. There should be exactly one."""
    held: int | None = None
    """The number of messages that its owner has pulled and not finished."""
    moved: bool | None = None
    """Whether its offset moved while it was watched; None if it was not watched."""
    head: HeadMessage | None = None
    blocked: str | None = None
    """What blocks it, in a few words."""

    def __str__(self) -> str:
        return f"{self.queue.topic} {self.queue.broker_name}:{self.queue.queue_id}"


class TopicCount(Struct, frozen=True, kw_only=True):
    """How many messages a topic holds."""

    topic: str
    messages: int


class GroupDescription(Struct, frozen=True, kw_only=True):
    """A consumer group, as brokers and its members describe it."""

    group: str
    model: MessageModel | None
    """None if no member is online, like the next two."""
    consume_type: ConsumeType | None
    start_from: ConsumeFromWhere | None
    settings: Mapping[str, SubscriptionGroupConfig]
    """What it may do, by broker."""
    members: tuple[Member, ...]
    subscriptions: tuple[TopicSubscription, ...]
    opinions: tuple[Opinion, ...]
    """Which members want what, if they do not agree; otherwise empty."""
    queues: tuple[QueueProgress, ...]
    rate: float
    """Messages a second that it consumed within the last minute."""
    retries: TopicCount | None
    """Its retry topic. Messages that wait there are part of the lag; those still delayed are not counted."""
    dead_letters: TopicCount | None
    findings: tuple[str, ...]
    """What an operator should look at, one line each."""
    silent_brokers: Mapping[str, str]
    """Brokers that did not answer, and why. What only they know is missing."""

    @property
    def lag(self) -> int:
        """The number of waiting messages in all queues."""
        return sum(queue.lag for queue in self.queues)

    @property
    def behind(self) -> float | None:
        """Seconds since the oldest waiting message was stored; None if no age is known."""
        ages = [queue.behind for queue in self.queues if queue.behind is not None]
        return max(ages, default=None)

    @property
    def idle_members(self) -> list[Member]:
        """The members that own no queue."""
        return [member for member in self.members if member.is_idle]

    @property
    def blocked(self) -> list[QueueProgress]:
        """The queues that are blocked."""
        return [queue for queue in self.queues if queue.blocked is not None]
