"""All that answers administrators, over any store."""

from __future__ import annotations

from pyromq.broker.parts import Parts
from pyromq.broker.tools.account_admin import AccountHandlers
from pyromq.broker.tools.activity import ActivityHandlers
from pyromq.broker.tools.broker_admin import BrokerHandlers, StatsHandlers
from pyromq.broker.tools.consume_progress import ProgressHandlers
from pyromq.broker.tools.consumer_relay import RelayHandlers
from pyromq.broker.tools.group_admin import GroupHandlers
from pyromq.broker.tools.offset_resets import ResetHandlers
from pyromq.broker.tools.queue_entries import QueueHandlers
from pyromq.broker.tools.topic_admin import TopicHandlers

_HANDLERS = (
    BrokerHandlers,
    TopicHandlers,
    GroupHandlers,
    ProgressHandlers,
    ActivityHandlers,
    StatsHandlers,
    QueueHandlers,
    RelayHandlers,
    ResetHandlers,
    AccountHandlers,
)


def administration(parts: Parts) -> list[object]:
    """Build what answers administrators."""
    return [handlers(parts) for handlers in _HANDLERS]
