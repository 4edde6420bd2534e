"""The public face of the administrator's client.

>>> from pyromq.admin import AdminClient
"""

from __future__ import annotations

from pyromq.client.admin import AdminClient
from pyromq.client.admin_dead_letters import DeadLetters, DeadLetterTopic, Letter, Wanted
from pyromq.client.admin_delays import TimedMessage, TimedMessages
from pyromq.client.admin_transactions import HalfMessage, Transactions

__all__ = [
    "AdminClient",
    "DeadLetterTopic",
    "DeadLetters",
    "HalfMessage",
    "Letter",
    "TimedMessage",
    "TimedMessages",
    "Transactions",
    "Wanted",
]
