"""Which messages a pull wants: by its own expression, or by the subscription in its group's heartbeats."""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

from pyromq.broker.clients.client_registry import TAG_TYPES, GroupSubscription
from pyromq.broker.parts import Parts
from pyromq.broker.pulls.property_filters import accepts_record
from pyromq.broker.tables.consumer_filters import ConsumerFilters
from pyromq.errors import BrokerError, LocalProtocolError, NoPermission
from pyromq.protocol.bodies import MessageModel, SubscriptionGroupConfig
from pyromq.protocol.codes import PULL_SUBSCRIPTION_FLAG, ResponseCode
from pyromq.protocol.headers.pull import PullMessageRequestHeader
from pyromq.protocol.messages.properties import RETRY_TOPIC, find_property
from pyromq.protocol.messages.record import read_properties
from pyromq.protocol.names import RETRY_PREFIX
from pyromq.protocol.tag_filter import FUNCTION, parse_tags
from pyromq.store.read.readable import PropertyFilter


class MessageFilter(NamedTuple):
    """The hashes of the wanted tags, and a filter by property; None accepts every message."""

    codes: frozenset[int] | None = None
    properties: PropertyFilter | None = None


class Selection:
    """Works out which messages a pull wants, with RocketMQ's checks in its order."""

    def __init__(self, parts: Parts) -> None:
        self._clients = parts.clients
        self._registered_filters = parts.tables.filters
        self._filters = parts.tables.expressions
        self._filter_retries = parts.config.filter_retries

    def wanted(self, header: PullMessageRequestHeader, group: SubscriptionGroupConfig) -> MessageFilter:
        """Return the filter of a pull; raise BrokerError if it is unknown, out of date or not supported."""
        carried = header.sys_flag & PULL_SUBSCRIPTION_FLAG
        wanted = self._carried(header) if carried else self._registered(header, group)
        if self._filter_retries and header.topic.startswith(RETRY_PREFIX):
            owner = header.topic.removeprefix(RETRY_PREFIX)
            return wanted._replace(properties=RetryScan(self._registered_filters, owner))
        return wanted

    def _carried(self, header: PullMessageRequestHeader) -> MessageFilter:
        """Return the filter for the expression in the pull itself."""
        if header.expression_type in TAG_TYPES:
            return _wanted_tags(header.subscription)
        if header.subscription:
            self._filters.check_on(header.expression_type)
        return MessageFilter(properties=self._filters.find(header.expression_type, header.subscription))

    def _registered(self, header: PullMessageRequestHeader, config: SubscriptionGroupConfig) -> MessageFilter:
        """Return the filter for the subscription in the group's heartbeats."""
        found = self._subscription(header, config)
        if found.is_tags:
            return MessageFilter(found.codes)
        known = self._registered_filters.get(header.topic, header.consumer_group)
        if known is None:
            if found.data.expression_type == FUNCTION:  # not a RocketMQ client: it can be told what is wrong
                self._filters.find(FUNCTION, found.data.sub_string)
            raise BrokerError(
                f"the broker has no filter of {header.consumer_group} for {header.topic}: its expression may be wrong",
                ResponseCode.FILTER_DATA_NOT_EXIST,
            )
        if known.version < header.sub_version:
            raise BrokerError(
                f"the broker has an older filter of {header.consumer_group} for {header.topic}",
                ResponseCode.FILTER_DATA_NOT_LATEST,
            )
        self._filters.check_on(found.data.expression_type)
        return MessageFilter(properties=known.scan)

    def _subscription(self, header: PullMessageRequestHeader, config: SubscriptionGroupConfig) -> GroupSubscription:
        group = self._clients.consumers.get(header.consumer_group)
        if group is None:
            raise BrokerError(
                f"consumer group {header.consumer_group} is not online", ResponseCode.SUBSCRIPTION_NOT_EXIST
            )
        if not config.consume_broadcast_enable and group.message_model is MessageModel.BROADCASTING:
            raise NoPermission(f"consumer group {header.consumer_group} is not allowed to broadcast")
        found = group.subscriptions.get(header.topic)
        if found is None:
            raise BrokerError(
                f"consumer group {header.consumer_group} does not subscribe to {header.topic}",
                ResponseCode.SUBSCRIPTION_NOT_EXIST,
            )
        if found.data.sub_version < header.sub_version:
            raise BrokerError(
                f"the broker knows an older subscription of {header.consumer_group} to {header.topic}",
                ResponseCode.SUBSCRIPTION_NOT_LATEST,
            )
        return found


class RetryScan:
    """Filters retried messages by the group's subscription to their original topic (`filterSupportRetry`)."""

    def __init__(self, filters: ConsumerFilters, group: str) -> None:
        self.scan_limit = filters.scan_limit(group)
        self.reads_bodies = filters.reads_bodies(group)
        self._filters = filters
        self._group = group

    def accepts(self, stored: bytes, /) -> bool:
        """Return True if a message is wanted; one from a topic without a filter always is."""
        topic = find_property(read_properties(stored) if self.reads_bodies else stored, RETRY_TOPIC)
        known = None if topic is None else self._filters.get(topic, self._group)
        if known is None:
            return True
        return accepts_record(known.scan, stored) if self.reads_bodies else known.scan.accepts(stored)


def _wanted_tags(expression: str | None) -> MessageFilter:
    short = expression is None or len(expression) <= _MOST_CACHED
    return _cached_tags(expression) if short else _parsed_tags(expression)


def _parsed_tags(expression: str | None) -> MessageFilter:
    try:
        tags = parse_tags(expression)
    except LocalProtocolError as error:
        raise BrokerError(str(error), ResponseCode.SUBSCRIPTION_PARSE_FAILED) from None
    return MessageFilter(None if tags.everything else tags.codes)


_MOST_CACHED: Final = 512  # characters: strangers choose them, and a thousand long ones would fill the memory
_cached_tags = lru_cache(maxsize=1024)(_parsed_tags)
