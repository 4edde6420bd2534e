"""What a consumer wants of a topic: tags, a SQL92 expression, or a filter function that the broker has."""

from __future__ import annotations

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
    """A filter that the broker's operator installed under this name."""

    name: str


Expression = str | Sql | Function
"""A tag expression such as `created || paid`, or one of the two others."""


class Subscription(Struct, frozen=True):
    """A checked expression for one topic; of two versions brokers keep the larger."""

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
        """Tell whether this tag is wanted: the exact check behind the broker's check by hash."""
        return not self.tags or tag in self.tags

    def data(self) -> SubscriptionData:
        """Return what heartbeats say of it."""
        return SubscriptionData(
            topic=self.topic,
            sub_string=self.expression,
            tags_set=list(self.tags),
            code_set=sorted(self.codes),
            sub_version=self.version_ms,
            expression_type=self.expression_type,
        )


def subscribe(topic: str, expression: Expression, version_ms: int = 0) -> Subscription:
    """Check an expression; raises LocalProtocolError for an illegal one, ClientError for what is none."""
    check_topic(topic)
    match expression:
        case str():
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


def _check_sql(topic: str, text: str) -> None:
    unread = compile_sql(text).unread
    if unread:  # brokers say nothing of it and filter by the part before: more would come than was wanted
        raise ClientError(
            f"subscription to {topic}: brokers do not read {unread!r} of Sql({text!r}); is an AND missing?"
        )


def subscribe_all(subscriptions: Mapping[str, Expression], namespace: str | None) -> dict[str, Subscription]:
    """Check the expressions of several topics; return them by the topics' full names."""
    found = [subscribe(with_namespace(topic, namespace), expression) for topic, expression in subscriptions.items()]
    return {subscription.topic: subscription for subscription in found}
