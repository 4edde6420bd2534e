"""What operators see of a consumer group: its members, its queues and what is wrong with them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from msgspec import Struct

from pyromq.protocol.bodies import ConsumeFromWhere, ConsumeType, MessageModel, SubscriptionGroupConfig
from pyromq.protocol.messages.message import MessageQueue
from pyromq.protocol.names import BUILT_IN_GROUPS, RETRY_PREFIX, is_system_group


class GroupSummary(Struct, frozen=True, kw_only=True):
    """One group among all."""

    group: str
    members: int
    model: MessageModel | None
    """None if no member is online."""
    topics: tuple[str, ...]
    """Those that it has offsets of, or subscribes to, without its retries."""
    lag: int
    """Messages that wait for it, as its brokers count them."""

    @property
    def is_built_in(self) -> bool:
        """Whether it is RocketMQ's own."""
        return self.group in BUILT_IN_GROUPS or is_system_group(self.group)


class GroupListing(Struct, frozen=True, kw_only=True):
    """All groups that brokers know."""

    groups: tuple[GroupSummary, ...]
    silent_brokers: Mapping[str, str]
    """Brokers that did not answer, and why: what only they know is missing."""


class TopicSubscription(Struct, frozen=True, kw_only=True, order=True):
    """What is wanted of a topic."""

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
    """The brokers that hear from it."""
    started: datetime | None = None
    orderly: bool | None = None
    subscriptions: tuple[TopicSubscription, ...] = ()
    queues: tuple[MessageQueue, ...] = ()
    """The queues that it has, those of retries among them."""
    silence: str | None = None
    """Why it did not tell what goes on inside it; None if it did."""

    @property
    def is_idle(self) -> bool:
        """Whether it has no queue but that of retries: there are more members than queues."""
        return self.silence is None and all(queue.topic.startswith(RETRY_PREFIX) for queue in self.queues)


class Opinion(Struct, frozen=True, kw_only=True):
    """Members that want the same; where a group has two of these, some of its messages go astray."""

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
    """Seconds for which a listener has had it, as far as its consumer tells."""


class QueueProgress(Struct, frozen=True, kw_only=True):
    """How far the group is in a queue; a broadcasting group has one for each member."""

    queue: MessageQueue
    committed_offset: int
    end_offset: int
    lag: int
    """Messages that wait, also those that the group's filter leaves out."""
    behind: float | None
    """Seconds since the first of them was stored, 0 if there are none; None if it could not be read."""
    owners: tuple[str, ...] = ()
    """The members that have it: one, if all is well."""
    held: int | None = None
    """Messages of it that its owner has pulled and not finished."""
    moved: bool | None = None
    """Whether its offset moved while it was watched; None if it was not."""
    head: HeadMessage | None = None
    blocked: str | None = None
    """What holds it up, in a few words."""

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
    """None, as the next two, if no member is online."""
    consume_type: ConsumeType | None
    start_from: ConsumeFromWhere | None
    settings: Mapping[str, SubscriptionGroupConfig]
    """What it may do, by broker."""
    members: tuple[Member, ...]
    subscriptions: tuple[TopicSubscription, ...]
    opinions: tuple[Opinion, ...]
    """Who wants what, if its members do not agree; else empty."""
    queues: tuple[QueueProgress, ...]
    rate: float
    """Messages a second that it took within the last minute."""
    retries: TopicCount | None
    """Its retry topic: what waits in there is the lag of its queues; what waits for its time is not counted."""
    dead_letters: TopicCount | None
    findings: tuple[str, ...]
    """What an operator should look at, a line each."""
    silent_brokers: Mapping[str, str]
    """Brokers that did not answer, and why: what only they know is missing."""

    @property
    def lag(self) -> int:
        """All messages that wait."""
        return sum(queue.lag for queue in self.queues)

    @property
    def behind(self) -> float | None:
        """Seconds since the oldest of them was stored; None if no age is known."""
        ages = [queue.behind for queue in self.queues if queue.behind is not None]
        return max(ages, default=None)

    @property
    def idle_members(self) -> list[Member]:
        """Members that have no queue."""
        return [member for member in self.members if member.is_idle]

    @property
    def blocked(self) -> list[QueueProgress]:
        """Queues that something holds up."""
        return [queue for queue in self.queues if queue.blocked is not None]
