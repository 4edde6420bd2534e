"""Account: one entry of plain_acl.yml, and what it may do."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntFlag
from typing import Final

from msgspec import Struct

from pyromq.protocol.names import DLQ_PREFIX, NO_SEND_TOPICS, REPLY_SUFFIX, RETRY_PREFIX

PREFIX_MARK: Final = "*"
"""A name in a list of rights that ends in this stands for all names that begin so."""


class Permission(IntFlag):
    """What an account may do with a topic or a group; DENY is the absence of both."""

    DENY = 0
    PUB = 1
    SUB = 2


PUB: Final = Permission.PUB
SUB: Final = Permission.SUB
_TEXTS: Final = {
    "DENY": Permission.DENY,
    "PUB": PUB,
    "SUB": SUB,
    "PUB|SUB": PUB | SUB,
    "SUB|PUB": PUB | SUB,
}


def parse_permission(text: str) -> Permission:
    """Read DENY, PUB, SUB or PUB|SUB; raise ValueError."""
    try:
        return _TEXTS[text.replace(" ", "")]
    except KeyError:
        raise ValueError(f"{text!r} is no permission: use DENY, PUB, SUB or PUB|SUB") from None


def show_permission(permission: Permission) -> str:
    """Return the text of a permission as it stands in plain_acl.yml."""
    return next(text for text, value in _TEXTS.items() if value == permission)


class Account(Struct, frozen=True, kw_only=True, eq=True):
    """An account; its repr and its text never show the secret key."""

    access_key: str
    secret_key: str
    white_address: str = ""
    """Addresses from which 4.9 accepts it without a signature."""
    admin: bool = False
    default_topic: Permission = Permission.DENY
    default_group: Permission = Permission.DENY
    topics: Mapping[str, Permission] = {}
    groups: Mapping[str, Permission] = {}

    def __repr__(self) -> str:
        return f"Account({self.access_key!r}, admin={self.admin})"

    __str__ = __repr__

    def on_topic(self, topic: str) -> Permission:
        """Return what it may do with a topic; of a retry topic the group decides.

        So it does for dead letters, unless an entry has their whole name: who consumes as the group may read them. Only
        the broker writes them. The broker's own topics hold messages of all topics, and a reply topic the replies to
        everybody: only an entry with the whole name counts there.
        """
        if topic.startswith(RETRY_PREFIX):
            return self.on_group(topic.removeprefix(RETRY_PREFIX))
        found = self.topics.get(topic)
        if found is not None:
            return found
        if topic.startswith(DLQ_PREFIX):
            return self.on_group(topic.removeprefix(DLQ_PREFIX)) & SUB
        if topic in NO_SEND_TOPICS or topic.endswith(REPLY_SUFFIX):
            return Permission.DENY
        return _longest_prefix(self.topics, topic, self.default_topic)

    def on_topic_as_apache(self, topic: str) -> Permission:
        """Return what RocketMQ 4.9 lets it do with a topic: only of retry topics the group decides."""
        if topic.startswith(RETRY_PREFIX):
            return self.on_group(topic.removeprefix(RETRY_PREFIX))
        found = self.topics.get(topic)
        return _longest_prefix(self.topics, topic, self.default_topic) if found is None else found

    def on_group(self, group: str) -> Permission:
        """Return what it may do with a consumer group."""
        found = self.groups.get(group)
        return _longest_prefix(self.groups, group, self.default_group) if found is None else found

    @property
    def has_some_right(self) -> bool:
        """Whether it may do anything with any topic or group."""
        listed = (*self.topics.values(), *self.groups.values())
        return bool(self.admin or self.default_topic or self.default_group or any(listed))

    def covers(self, other: Account) -> bool:
        """Return True if whoever came in as `other` may stay: same secret, and no right is missing."""
        if self.secret_key != other.secret_key or self.admin < other.admin:
            return False
        topics = {name.removesuffix(PREFIX_MARK) for name in (*self.topics, *other.topics)}
        groups = {name.removesuffix(PREFIX_MARK) for name in (*self.groups, *other.groups)}
        return (
            other.default_topic in self.default_topic
            and other.default_group in self.default_group
            and all(other.on_topic(name) in self.on_topic(name) for name in topics)
            and all(other.on_group(name) in self.on_group(name) for name in groups)
        )


def _longest_prefix(rights: Mapping[str, Permission], name: str, default: Permission) -> Permission:
    best, length = default, -1
    for pattern, permission in rights.items():
        if pattern.endswith(PREFIX_MARK) and length < len(pattern) and name.startswith(pattern[:-1]):
            best, length = permission, len(pattern)
    return best
