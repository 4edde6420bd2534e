"""TopicLives: tells topics of one name apart.

An offset counts in one life of a topic: in the next one, after the topic was deleted and created again, it means
another message. A life is known by where the log ended when the topic was deleted; the first is 0. Our clients learn it
with the offset that they begin at, and name it in pulls and commits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pyromq.errors import TopicNotFound


@dataclass(frozen=True)
class TopicLives:
    """What the store knows of deletions."""

    of: Callable[[str], int]
    """Returns the life of a topic."""
    log_start: Callable[[], int]
    """Returns where the log begins: earlier deletions are forgotten."""

    def check(self, topic: str, known: int | None) -> None:
        """Raise TopicNotFound if a client's offsets are of another life."""
        if not self.is_current(topic, known):
            raise TopicNotFound(f"topic {topic} was deleted and created again since: its offsets begin anew")

    def is_current(self, topic: str, known: int | None) -> bool:
        """Return True if a life is the present one; also if a client does not say, or asks with -1."""
        if known is None or known < 0:
            return True
        life = self.of(topic)
        return known == life or (not life and known <= self.log_start())


EACH_HAS_ONE: Final = TopicLives(lambda topic: 0, lambda: 0)
"""For stores from which no topic is deleted."""
