"""Right: what an account needs for a request. Every row of a table of requests names one; `access` enforces it.

What counts is what is read or written, never what the request says: the topic of the message at that offset, the group
in a retry topic's name, the topic stored with a delayed message.
"""

from __future__ import annotations

from enum import Enum


class Right(Enum):
    """The decision about one request code; the value says it in words."""

    PUB = "PUB on the topic; for a retry topic SUB on its group, and on the topic of the message"
    PUB_OF_HALF_MESSAGE = "PUB on the topic of the half message"
    PUB_OF_TIMED_MESSAGE = "PUB on the topic stored with the message that waits"
    REPLY = "any right on anything; the reply goes to the reply topic only"

    SUB = "SUB on the topic and on the group"
    SUB_OF_BODY = "SUB on the group and on the topics that the body names"
    SUB_TOPIC = "SUB on the topic"
    SUB_OF_MESSAGE = "SUB on the topic of the message at the offset"
    SEND_BACK = "SUB on the group, and on the topic of the message at the offset"
    MEMBERS = "SUB on topic and group for each consumer in it; a valid account for each producer"

    PUB_OR_SUB = "PUB or SUB on the topic"
    PUB_OR_SUB_OR_ADMIN = "PUB or SUB on the topic, or admin"

    ACCOUNT = "a valid account"
    ACCOUNT_OR_ADMIN = "a valid account, or admin"
    ADMIN = "admin"
