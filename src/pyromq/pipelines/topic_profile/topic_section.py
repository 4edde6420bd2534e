"""The section of a report about one topic."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from pyromq.pipelines.pages import charts
from pyromq.pipelines.pages.charts import Bar, Series
from pyromq.pipelines.pages.page import bar_rows, card, grid, section
from pyromq.pipelines.pages.wording import many, share, short, size, span, whole
from pyromq.pipelines.topic_profile.distributions import STEPS_OF_AN_OCTAVE
from pyromq.pipelines.topic_profile.profile import NameCount, Percentiles, Profile, QueueProfile, TopicProfile, Weight

_FEWEST_BARS, _MOST_BARS = 9, 32
_MOST_QUEUES = 32
_SEVERE = 1.5
"""A queue with more than this many times the mean is highlighted; keys that differ less are called even."""


def topic_section(topic: TopicProfile, profile: Profile) -> str:
    """Return all charts of a topic."""
    start = datetime.fromtimestamp(profile.steps.start * profile.width, UTC)
    cards = [
        _rates(topic, profile, start),
        _sizes(topic),
        _latencies(topic),
        _tags(topic),
        _keys(topic),
        _queues(topic),
        _latency_over_time(topic, profile, start),
    ]
    counts = many(topic.messages, "message"), many(len(topic.queues), "queue"), many(topic.key_count, "key")
    return section(topic.topic, [grid(cards)], f"{', '.join(counts)}, {size(topic.stored)} stored")


def rates_of(topic: TopicProfile, profile: Profile) -> list[float]:
    """Return the messages per second of each time step."""
    totals = dict.fromkeys(profile.steps, 0)
    for queue in topic.queues:
        for step, messages in queue.rates.items():
            totals[step] = totals.get(step, 0) + messages
    return [messages / profile.width for messages in totals.values()]


def _rates(topic: TopicProfile, profile: Profile, start: datetime) -> str:
    line = [Series("messages a second", rates_of(topic, profile))]
    rows = [
        Series(topic.name_of(queue), [queue.rates.get(step, 0) / profile.width for step in profile.steps])
        for queue in topic.queues[:_MOST_QUEUES]
    ]

    def draw(width: int) -> str:
        heat = charts.heat(start, profile.width, rows, width=width, unit="messages a second")
        return charts.timeline(start, profile.width, line, width=width, height=180) + heat

    note = f"Above all of them, below queue by queue, in steps of {span(profile.width * 1000)}."
    return card("Messages a second", charts.fitting(draw, charts.WIDE), note, wide=True)


def _sizes(topic: TopicProfile) -> str:
    steps = merged(topic.size_steps, STEPS_OF_AN_OCTAVE)
    has_round_edges = sum(is_power_of_two(low) for low, _, _ in steps) > 1
    bars = [
        Bar(
            size(low) if is_power_of_two(low) or not has_round_edges else "",
            weight.messages,
            f"{size(low)} to {size(high)}: {many(weight.messages, 'message')}, {size(weight.stored)} stored",
        )
        for low, high, weight in steps
    ]
    note = _percentiles(topic.sizes, size)
    if topic.compressed:
        part = share(topic.compressed, topic.messages)
        note = f"{note}. {part} of the messages are compressed; their bodies are larger."
        return card("Size of bodies, as stored", _bars(bars), note)
    return card("Size of bodies", _bars(bars), note)


def _bars(bars: Sequence[Bar]) -> str:
    return charts.fitting(lambda width: charts.bars(bars, width=width), charts.HALF)


def _latencies(topic: TopicProfile) -> str:
    bars = [
        Bar(span(low), weight.messages, f"{span(low)} to {span(high)}: {many(weight.messages, 'message')}", tone="c1")
        for low, high, weight in merged(topic.latency_steps, 1)
    ]
    return card("Born to stored", _bars(bars), _percentiles(topic.latencies_ms, span))


def _latency_over_time(topic: TopicProfile, profile: Profile, start: datetime) -> str:
    values = [topic.latency_over_time.get(step) for step in profile.steps]
    series = [
        Series("99 % of the messages", [value and value[1] for value in values]),
        Series("half of them", [value and value[0] for value in values]),
    ]
    chart = charts.fitting(
        lambda width: charts.timeline(start, profile.width, series, width=width, height=200, unit="ms"), charts.HALF
    )
    return card("Born to stored over time", chart, "Milliseconds within which they were stored.")


def _percentiles(values: Percentiles, wording: charts.Wording) -> str:
    names = ("Median", "90 %", "99 %", "99.9 %", "all")
    return " · ".join(f"{name} {wording(value)}" for name, value in zip(names, values, strict=True))


def merged(steps: Mapping[int, Weight], steps_of_an_octave: int) -> list[tuple[float, float, Weight]]:
    """Return a histogram's bars without gaps (from, to, weight), merging neighbours until there are few enough.

    Step -1 holds values below 1.
    """
    counted = {step: weight for step, weight in steps.items() if step >= 0} or {0: Weight(0, 0)}
    bars = [(0.0, 1.0, steps[-1])] if -1 in steps else []
    together = 1
    while (max(counted) // together) - (min(counted) // together) >= _MOST_BARS:
        together *= 2
    first, last = min(counted) // together, max(counted) // together
    missing = max(0, _FEWEST_BARS - 1 - (last - first))  # a single bar would fill the chart
    first = max(0, first - missing // 2)
    for bar in range(first, max(last, first + _FEWEST_BARS - 1) + 1):
        inside = [counted[step] for step in range(bar * together, (bar + 1) * together) if step in counted]
        low, high = (2 ** (edge * together / steps_of_an_octave) for edge in (bar, bar + 1))
        bars.append((low, high, Weight(sum(w.messages for w in inside), sum(w.stored for w in inside))))
    return bars


def is_power_of_two(value: float) -> bool:
    """Return True if a histogram's edge is a power of two."""
    return abs(math.log2(value) % 1) < 1e-9 if value > 0 else True


def _tags(topic: TopicProfile) -> str:
    bars = [
        Bar(
            tag.name if tag.name is not None else "(no tag)",
            tag.messages,
            f"{tag.name}: {many(tag.messages, 'message')}",
            f"{share(tag.messages, topic.messages)}",
            "c2" if tag.name is not None else "calm",
        )
        for tag in topic.tags
    ]
    note = (
        f"The {len(topic.tags)} most frequent of {whole(topic.tag_count)}." if topic.tag_count > len(topic.tags) else ""
    )
    return card("Tags", bar_rows(bars), note)


def _keys(topic: TopicProfile) -> str:
    bars = [
        Bar(
            str(key.name),
            key.messages,
            _key_title(key),
            f"{share(key.messages, topic.messages)}",
            "warn" if key.messages * 10 > topic.messages and topic.key_count > 20 else "",
        )
        for key in topic.keys
    ]
    if not bars:
        return card("Keys", "", "No message has a key.")
    if topic.keys[0].messages == 1:
        return card("Keys", "", f"{many(topic.key_count, 'key')}: no two messages have the same one.")
    mean = short(topic.with_key / topic.key_count)
    note = f"The hottest of {many(topic.key_count, 'key')}, which have {mean} messages each in the mean."
    if _is_even(topic):
        most = many(topic.keys[0].messages, "message")
        return card(
            "Keys", "", f"{many(topic.key_count, 'key')}: {mean} messages each in the mean, and at most {most}."
        )
    return card("Keys", bar_rows(bars), note)


def _is_even(topic: TopicProfile) -> bool:
    """Return True if a chart would show some of many keys, all about equally frequent."""
    return topic.key_count > len(topic.keys) and topic.keys[0].messages < _SEVERE * topic.keys[-1].messages


def _key_title(key: NameCount) -> str:
    where = f"queue {key.queue_id}" if key.queues == 1 else many(key.queues, "queue")
    return f"{key.name}: {many(key.messages, 'message')} in {where}"


def _queues(topic: TopicProfile) -> str:
    mean = topic.messages / len(topic.queues)
    bars = [
        Bar(
            f"queue {topic.name_of(queue)}",
            queue.messages,
            _queue_title(topic, queue),
            f"{short(queue.messages)} · {share(queue.messages, topic.messages)}",
            "warn" if queue.messages > _SEVERE * mean else "",
        )
        for queue in topic.queues[:_MOST_QUEUES]
    ]
    more = (
        f" The first {_MOST_QUEUES} of {len(topic.queues)} queues are shown."
        if len(topic.queues) > _MOST_QUEUES
        else ""
    )
    return card("Queues", bar_rows(bars), f"{short(mean)} messages would be an even share.{more}")


def _queue_title(topic: TopicProfile, queue: QueueProfile) -> str:
    text = f"queue {topic.name_of(queue)}: {many(queue.messages, 'message')}"
    if queue.hottest is None:
        return text
    return f"{text}; hottest key {queue.hottest.name}, {share(queue.hottest.messages, queue.messages)} of it"
