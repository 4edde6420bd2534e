"""The JSON of consumerFilter.json: which group filters which topic by what."""

from __future__ import annotations

from msgspec import field

from pyromq.protocol.body_codec import Body
from pyromq.protocol.headers import I32, I64


class BloomFilterData(Body):
    """The bits of a group and topic in the maps that Apache's broker can keep beside consume queues."""

    bit_num: I32 = 0
    bit_pos: list[I32] = field(default_factory=list)


class ConsumerFilterData(Body):
    """One filter: its expression, since when it holds, and since when nobody asks for it (0: somebody does)."""

    topic: str = ""
    consumer_group: str = ""
    expression: str = ""
    expression_type: str = ""
    client_version: I64 = 0
    born_time: I64 = 0
    dead_time: I64 = 0
    dead: bool = False
    bloom_filter_data: BloomFilterData | None = None


class FilterDataMapByTopic(Body):
    """The filters of one topic by group."""

    topic: str = ""
    group_filter_data: dict[str, ConsumerFilterData] = field(default_factory=dict)


class ConsumerFilterWrapper(Body):
    """All filters of a broker by topic (consumerFilter.json)."""

    filter_data_by_topic: dict[str, FilterDataMapByTopic] = field(default_factory=dict)
