"""The filters by property that groups have registered by heartbeat, one for each topic and group.

A filter outlives its group for a day: messages that come again are still filtered (`filterSupportRetry`), and a
consumer that comes back finds its filter in place.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Generator, Iterable
from concurrent.futures import Executor
from typing import Final

from msgspec import Struct

from pyromq.broker.clients.client_registry import TAG_TYPES
from pyromq.broker.pulls.property_filters import MOST_SCANNED, PropertyFilters, Scan
from pyromq.broker.tables.bloom import BIT_COUNT, bit_positions
from pyromq.broker.tables.changed_keys import ChangedKeys
from pyromq.broker.tables.saver import Saver
from pyromq.errors import BrokerError, ConfigError
from pyromq.figures import BoundFigures, Figure, Kind
from pyromq.protocol.bodies import SubscriptionData, decode
from pyromq.protocol.bodies.clients import (
    BloomFilterData,
    ConsumerFilterData,
    ConsumerFilterWrapper,
    FilterDataMapByTopic,
)
from pyromq.protocol.bodies.fastjson import dumps_pretty
from pyromq.store.small_files.json_file import JsonFile

logger = logging.getLogger(__name__)

_SILENT_BEFORE_LOAD_MS = 30_000  # whoever was there before a restart has been gone for that long, as RocketMQ assumes


class ConsumerFilter(Struct):
    """What a group wants of a topic; `dead_ms` says since when nobody has asked for it, 0 if somebody does."""

    expression: str
    expression_type: str
    version: int
    born_ms: int
    scan: Scan
    dead_ms: int = 0

    def says(self, data: SubscriptionData) -> bool:
        """Tell whether a subscription has this expression."""
        return (self.expression, self.expression_type) == (data.sub_string, data.expression_type)


class ConsumerFilters:
    """All registered filters, kept in consumerFilter.json."""

    def __init__(
        self,
        file: JsonFile,
        *,
        now_ms: Callable[[], int],
        keep: float,
        filters: PropertyFilters | None = None,
        executor: Executor | None = None,
        limit: int = 10_000,
    ) -> None:
        """Keep at most `limit` filters."""
        self._limit = limit
        self._file = file
        self._filters = filters or PropertyFilters()
        self._now_ms = now_ms
        self._keep = keep
        self._by_group: dict[str, dict[str, ConsumerFilter]] = {}
        self._changed = False
        self.saver = Saver(file, self.snapshot, encode_filters, executor)
        self.changed_keys: ChangedKeys[tuple[str, str]] = ChangedKeys()
        """For slaves: of which topic and group the filter is new, different or gone."""

    def figures(self) -> BoundFigures[ConsumerFilters]:
        """Return the figures of this table."""
        return BoundFigures(_FIGURES, lambda: self)

    @property
    def count(self) -> int:
        """How many filters are registered."""
        return sum(map(len, self._by_group.values()))

    def get(self, topic: str, group: str) -> ConsumerFilter | None:
        """Return the filter of a group for a topic, whether or not the group is online."""
        return self._by_group.get(group, {}).get(topic)

    def stored(self, topic: str, group: str) -> ConsumerFilterData | None:
        """Return a filter as RocketMQ writes it."""
        found = self.get(topic, group)
        return _stored(topic, group, found) if found else None

    def reads_bodies(self, group: str) -> bool:
        """Tell whether one of the group's filters needs whole records."""
        return any(each.scan.reads_bodies for each in self._by_group.get(group, {}).values())

    def scan_limit(self, group: str) -> int:
        """Return how many messages may be looked at in one read, whichever filter of the group each of them needs."""
        return min((each.scan.scan_limit for each in self._by_group.get(group, {}).values()), default=MOST_SCANNED)

    def register(self, group: str, wanted: Iterable[SubscriptionData]) -> None:
        """Take over the subscriptions of a heartbeat; a filter of another topic has nobody who asks for it now."""
        for _ in self.registering(group, wanted):
            pass

    def registering(self, group: str, wanted: Iterable[SubscriptionData]) -> Generator[None, None, None]:
        """Do the same in steps, one for each filter: compiling one takes up to 20 ms."""
        wanted = list(wanted)
        for data in wanted:
            if data.expression_type not in TAG_TYPES and data.sub_string:
                self._register(group, data)
                yield
        topics = {data.topic for data in wanted}
        self._mark_dead(group, [topic for topic in self._by_group.get(group, {}) if topic not in topics])

    def unregister(self, group: str) -> None:
        """Note that the last member of a group has left."""
        self._mark_dead(group, self._by_group.get(group, {}))

    def _register(self, group: str, data: SubscriptionData) -> None:
        """Keep the newest version; one that says the same only keeps the filter alive."""
        known = self.get(data.topic, group)
        if known is None:
            self._replace(group, data)
        elif data.sub_version < known.version:
            return
        elif data.sub_version == known.version or known.says(data):
            self._renew(group, data.topic, known, data.sub_version)
        else:
            self._replace(group, data)

    def _renew(self, group: str, topic: str, known: ConsumerFilter, version: int) -> None:
        if (known.version, known.dead_ms) != (version, 0):
            known.version, known.dead_ms = version, 0
            self._note(topic, group)

    def _note(self, topic: str, group: str) -> None:
        self._changed = True
        self.changed_keys.note((topic, group))

    def _replace(self, group: str, data: SubscriptionData) -> None:
        """Compile a filter; where that fails there is none, and the group's pulls say so."""
        filters = self._by_group.setdefault(group, {})
        if filters.pop(data.topic, None) is not None:
            self._note(data.topic, group)
        try:
            if self.count >= self._limit:
                raise BrokerError(f"{self._limit} filters are registered already (pyromqMaxFilters)")
            scan = self._filters.find(data.expression_type, data.sub_string)
        except BrokerError as error:
            logger.warning("filter refused group=%s topic=%s reason=%s", group, data.topic, error.remark)
            self._forget_empty(group)
        else:
            filters[data.topic] = ConsumerFilter(
                data.sub_string, data.expression_type, data.sub_version, self._now_ms(), scan
            )
            self._note(data.topic, group)
            logger.info("filter registered group=%s topic=%s", group, data.topic)

    def _mark_dead(self, group: str, topics: Iterable[str]) -> None:
        for topic in topics:
            each = self._by_group[group][topic]
            if not each.dead_ms:
                each.dead_ms = self._now_ms()
                self._note(topic, group)

    def _forget_empty(self, group: str) -> None:
        if not self._by_group[group]:
            del self._by_group[group]

    # --- the file ----------------------------------------------------------------------------------------------------

    def load(self) -> None:
        """Read the file; without it nothing is lost, for heartbeats bring every filter again."""
        try:
            loaded = self._file.load(lambda text: decode(ConsumerFilterWrapper, text))
        except ConfigError as error:
            logger.warning("registered filters are forgotten: %s", error)
            return
        for topic, by_group in (loaded.filter_data_by_topic if loaded else {}).items():
            for group, data in by_group.group_filter_data.items():
                dead_ms = data.dead_time or max(data.born_time, self._now_ms() - _SILENT_BEFORE_LOAD_MS)
                self._load(topic, group, data, dead_ms)

    def _load(self, topic: str, group: str, data: ConsumerFilterData, dead_ms: int) -> None:
        try:
            scan = self._filters.find(data.expression_type, data.expression)
        except BrokerError as error:
            logger.warning("stored filter left out group=%s topic=%s reason=%s", group, topic, error.remark)
            return
        self._by_group.setdefault(group, {})[topic] = ConsumerFilter(
            data.expression, data.expression_type, data.client_version, data.born_time, scan, dead_ms
        )

    def save_if_changed(self) -> None:
        """Forget filters that nobody has asked for in a long time, and ask for a save if something has changed."""
        self._forget_old()
        if self._changed:
            self._changed = False
            self.saver.request()

    def _forget_old(self) -> None:
        latest_ms = self._now_ms() - self._keep * 1000
        for group, filters in list(self._by_group.items()):
            for topic, each in list(filters.items()):
                if 0 < each.dead_ms <= latest_ms:
                    del filters[topic]
                    self._note(topic, group)
            self._forget_empty(group)

    # --- for slaves

    @property
    def keys(self) -> list[tuple[str, str]]:
        """All that has a filter, as topic and group."""
        return [(topic, group) for group, filters in self._by_group.items() for topic in filters]

    def adopt(self, data: ConsumerFilterData) -> None:
        """Take over a filter of the master, unless a member has told a newer one here."""
        known = self.get(data.topic, data.consumer_group)
        if known is None or known.version <= data.client_version:
            self._load(data.topic, data.consumer_group, data, dead_ms=data.dead_time)
            self._changed = True

    def discard(self, keys: Iterable[tuple[str, str]], online: Container[str]) -> None:
        """Drop filters that the master does not have, unless a member of the group is online here: it asks for them."""
        for topic, group in keys:
            if group not in online and self._by_group.get(group, {}).pop(topic, None) is not None:
                self._forget_empty(group)
                self._changed = True

    def let_go_of_absent(self, online: Container[str]) -> None:
        """Note that no member of other groups than these is here, as a broker does that becomes master."""
        for group, filters in self._by_group.items():
            if group not in online:
                self._mark_dead(group, list(filters))

    def snapshot(self) -> ConsumerFilterWrapper:
        """Return the table as it is now, in the form of RocketMQ's file."""
        table = ConsumerFilterWrapper()
        for group, filters in self._by_group.items():
            for topic, each in filters.items():
                by_group = table.filter_data_by_topic.setdefault(topic, FilterDataMapByTopic(topic))
                by_group.group_filter_data[group] = _stored(topic, group, each)
        return table


_FIGURES: Final[tuple[Figure[ConsumerFilters], ...]] = (
    Figure("filters", "Registered filters of groups.", Kind.GAUGE, lambda filters: filters.count),
)


def encode_filters(table: ConsumerFilterWrapper) -> bytes:
    """Return the text of consumerFilter.json."""
    return dumps_pretty(table)


def _stored(topic: str, group: str, each: ConsumerFilter) -> ConsumerFilterData:
    return ConsumerFilterData(
        topic=topic,
        consumer_group=group,
        expression=each.expression,
        expression_type=each.expression_type,
        client_version=each.version,
        born_time=each.born_ms,
        dead_time=each.dead_ms,
        dead=each.dead_ms > 0,
        bloom_filter_data=BloomFilterData(BIT_COUNT, bit_positions(group, topic)),
    )
