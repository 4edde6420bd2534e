"""Subscriptions: which messages of a topic a consumer wants, by tags, SQL92 or a filter function of the broker."""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

from pyromq.errors import ClientError
from pyromq.protocol.bodies import SubscriptionData
from pyromq.protocol.names import check_topic, with_namespace
from pyromq.protocol.sql92.sql_filter import compile_sql
from pyromq.protocol.tag_filter import FUNCTION, SQL92, TAG, parse_tags


class Sql(Struct, frozen=True):
    """A condition on a message's properties, in SQL92: `Sql("amount > 10 AND region = 'north'")`."""

    expression: str


class Function(Struct, frozen=True):
    """A filter function that the broker's operator installed under this name."""

    name: str


Expression = str | Sql | Function
"""A tag expression such as `created || paid`, an Sql or a Function."""


class Subscription(Struct, frozen=True):
    """A checked expression for one topic; brokers keep the one with the larger version."""

    topic: str
    expression: str
    expression_type: str = TAG
    tags: tuple[str, ...] = ()
    codes: frozenset[int] = frozenset()
    version_ms: int = 0

    @property
    def by_tags(self) -> bool:
        """Whether a broker needs nothing but the tag to decide."""
        return self.expression_type == TAG

    def accepts(self, tag: str | None) -> bool:
        """Return True if this tag is wanted. Brokers only compare hashes of tags; this check is exact."""
        return not self.tags or tag in self.tags

    def data(self) -> SubscriptionData:
        """Return it as heartbeats carry it."""
        return SubscriptionData(
            topic=self.topic,
            sub_string=self.expression,
            tags_set=list(self.tags),
            code_set=sorted(self.codes),
            sub_version=self.version_ms,
            expression_type=self.expression_type,
        )


def subscribe(topic: str, expression: Expression, version_ms: int = 0) -> Subscription:
    """Check an expression; raises LocalProtocolError if it is illegal, ClientError for a wrong type or empty text."""
    check_topic(topic)
    match expression:
        case str():
            _check_tags(topic, expression)
            tags = parse_tags(expression)
            return Subscription(topic, tags.expression, TAG, tags.tags, tags.codes, version_ms)
        case Sql(expression=text) if text.strip():
            _check_sql(topic, text)
            return Subscription(topic, text, SQL92, version_ms=version_ms)
        case Function(name=text) if text.strip():
            return Subscription(topic, text, FUNCTION, version_ms=version_ms)
    raise ClientError(
        f"subscription to {topic}: expected tags such as 'a || b', Sql('…') or Function('…'), not {expression!r}"
    )


def _right_form(given: object) -> str:
    names = re.split(r"[\s,;|]+", given) if isinstance(given, str) else given
    if isinstance(names, list | tuple | set | frozenset) and names and all(isinstance(name, str) for name in names):
        return f"write {dict.fromkeys(names, '*')}, not {given!r}"
    return f"write {{'orders': '*'}}, not {given!r:.100}"


def _check_sql(topic: str, text: str) -> None:
    unread = compile_sql(text).unread
    if unread:  # brokers silently ignore this part and filter by the rest: unwanted messages would come
        raise ClientError(f"subscription to {topic}: brokers ignore {unread!r} in Sql({text!r}); is an AND missing?")


def _check_tags(topic: str, expression: str) -> None:
    for tag in expression.split("||"):
        if mistaken := [sign for sign in (",", ";", "|", "&&") if sign in tag]:
            right = " || ".join(part for part in re.split(r"(?:\s|,|;|\||&&)+", expression) if part)
            raise ClientError(
                f"subscription to {topic}: tags are separated by ||, not by {mistaken[0]!r}: write {right!r}, or "
                f"Sql({f'TAGS = {tag.strip()!r}'!r}) if that is one tag"
            )


def subscribe_all(subscriptions: Mapping[str, Expression] | None, namespace: str | None) -> dict[str, Subscription]:
    """Check the expressions of several topics; return the subscriptions by the full names of the topics.

    Without any, a consumer gets its topics or queues later. An empty dict is an error: it is rarely meant.
    """
    if subscriptions is None:
        return {}
    if not isinstance(subscriptions, Mapping):
        raise ClientError(f"subscriptions must be a dict of topics and expressions: {_right_form(subscriptions)}")
    if not subscriptions:
        raise ClientError("subscriptions is empty: write {'orders': '*'}, or leave it out to choose topics later")
    found = [subscribe(with_namespace(topic, namespace), expression) for topic, expression in subscriptions.items()]
    return {subscription.topic: subscription for subscription in found}
