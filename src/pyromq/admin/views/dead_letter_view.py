"""The JSON of dead letters and of the groups that have them."""

from __future__ import annotations

from typing import Any

from pyromq.admin.letters.dead_letters import DeadLetterTopic
from pyromq.admin.letters.letter import Letter
from pyromq.admin.views.iso_times import iso_moment
from pyromq.admin.views.message_view import message_fields

ORIGIN_FIELDS = ("group", "origin_topic", "origin_message_id", "cause")
"""What a dead letter has in addition to the fields of its message."""


def origin_fields(letter: Letter) -> dict[str, str | None]:
    """Return where a dead letter comes from, and why it failed."""
    values = (letter.group, letter.topic, letter.origin_id, letter.cause)
    return dict(zip(ORIGIN_FIELDS, values, strict=True))


def dead_letter_fields(letter: Letter) -> dict[str, Any]:
    """Return the fields of a dead letter."""
    return message_fields(letter.message) | origin_fields(letter) | {"resends": letter.resends}


def dead_letter_topic_fields(topic: DeadLetterTopic) -> dict[str, Any]:
    """Return the fields of one group's dead-letter topic."""
    return {
        "group": topic.group,
        "topic": topic.topic,
        "messages": topic.count,
        "oldest": iso_moment(topic.oldest),
        "expires": iso_moment(topic.expires),
        "expires_soon": topic.expires_soon,
    }
