"""The topics and groups of the campaigns, and the fate of every message, which the seed decides."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Literal, NamedTuple

from msgspec import Struct

from tests.faults.journal import Formed, Journal

MAIN, KEYED, LATER, SIDE = "main", "keyed", "later", "side"
QUEUES = {MAIN: 4, KEYED: 4, LATER: 2, SIDE: 2}
LIMIT = 2
CONSUME_TIMEOUT = 1.0


class Role(Struct, frozen=True, kw_only=True):
    """A group."""

    group: str
    topics: tuple[str, ...]
    kind: Literal["push", "poll"] = "push"
    orderly: bool = False
    broadcasting: bool = False
    threads: bool = False
    """Its listener is a plain function."""
    hooks: bool = False
    batch: int = 1
    concurrency: int = 8
    mishaps: float = 0.12
    """The share of messages that do not go well."""
    processes: int = 0
    """Members in processes of their own."""
    tasks: int = 1
    """Members in the campaign's process."""
    resets: bool = False
    """An operator resets it."""

    @property
    def alone(self) -> bool:
        """Whether a life of its member has all queues for itself."""
        return self.broadcasting or (self.kind == "poll" and self.processes + self.tasks == 1)

    @property
    def limit(self) -> int | None:
        """How often a message is retried."""
        return None if self.kind == "poll" or self.broadcasting else LIMIT


ROLES = [
    Role(group="plain", topics=(MAIN, LATER), processes=2, resets=True),
    Role(group="threads", topics=(MAIN,), threads=True, hooks=True, concurrency=4),
    Role(group="batch", topics=(MAIN, SIDE), batch=8, processes=1, resets=True),
    Role(group="orderly", topics=(KEYED,), orderly=True, mishaps=0.04, processes=1, resets=True),
    Role(group="orderly-batch", topics=(KEYED,), orderly=True, batch=4, mishaps=0.04, processes=1),
    Role(group="poll", topics=(MAIN,), kind="poll"),
    Role(group="pair", topics=(MAIN, LATER), kind="poll", processes=1, tasks=1),
    Role(group="radio", topics=(KEYED,), broadcasting=True),
    Role(group="side", topics=(SIDE,), mishaps=0.0),
]


# --- of failover.py: brokers are struck there, not listeners
SUCCESSION_ROLES = [
    Role(group="plain", topics=(MAIN, LATER), mishaps=0.02, tasks=2),
    Role(group="orderly", topics=(KEYED,), orderly=True, mishaps=0.02, tasks=2),
]


def form_groups(journal: Journal, roles: Iterable[Role]) -> None:
    """Write down the groups and their rules."""
    for role in roles:
        journal.write(
            Formed,
            group=role.group,
            topics=list(role.topics),
            orderly=role.orderly,
            retries=not role.broadcasting,
            limit=role.limit,
            parallel=role.threads,
            alone=role.alone,
        )


def role_of(group: str) -> Role:
    """Return a role by its group."""
    return next(role for role in ROLES if role.group == group)


class Fate(NamedTuple):
    """What a listener does with a message."""

    mishap: str
    """Empty: nothing goes wrong."""
    tries: int
    """How often it goes wrong."""


# Each with its weight. The last two never end well.
_MISHAPS = {"raise": 4, "unprintable": 3, "odd": 2, "cancelled": 4, "hang": 2, "later": 3, "reject": 1, "poison": 1}
_DEALT = [mishap for mishap, weight in _MISHAPS.items() for _ in range(weight)]


def fate_of(seed: int, role: Role, value: str) -> Fate:
    """Return the fate of a message in a group, always the same."""
    digest = hashlib.blake2b(f"{seed} {role.group} {value}".encode(), digest_size=8).digest()
    number = int.from_bytes(digest) / 2**64
    if number >= role.mishaps:
        return Fate("", 0)
    mishap = _DEALT[digest[-1] % len(_DEALT)]
    return Fate(mishap, LIMIT + 1 if mishap == "poison" else 1 + digest[-2] % LIMIT)
