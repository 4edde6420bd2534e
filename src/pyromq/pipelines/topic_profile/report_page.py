"""A profile as a page: what stands out, all topics, each topic, the groups, and how it was measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryFile

from pyromq.errors import ConfigError
from pyromq.pipelines.pages import charts
from pyromq.pipelines.pages.charts import Series
from pyromq.pipelines.pages.page import Cell, Tile, card, document, grid, headlines, section, table, tiles
from pyromq.pipelines.pages.wording import many, moment, share, short, size, span, whole
from pyromq.pipelines.topic_profile.frames import MOST_TOPICS
from pyromq.pipelines.topic_profile.group_sections import group_sections
from pyromq.pipelines.topic_profile.headlines import headlines as what_stands_out
from pyromq.pipelines.topic_profile.profile import Profile, TopicProfile
from pyromq.pipelines.topic_profile.topic_section import rates_of, topic_section

_COMPRESSED = "*"


def check_page(page: Path) -> None:
    """Raise ConfigError if the page cannot be written, before minutes of counting."""
    try:
        page.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=page.parent):
            pass
    except OSError as error:
        raise ConfigError(f"--out {page} cannot be written: {error.strerror}") from None
    if page.is_dir():
        raise ConfigError(f"--out {page} is a directory; name the page in it")


def render(profile: Profile, title: str, now: datetime) -> str:
    """Return the page as HTML."""
    first = min(topic.first for topic in profile.topics)
    last = max(topic.last for topic in profile.topics)
    between = f"{moment(first)} to {moment(last)} UTC"
    names = [topic.topic for topic in profile.topics]
    heading = title or (names[0] if len(names) == 1 else f"{names[0]} and {many(len(names) - 1, 'more topic')}")
    parts = [*overview(profile), *sections(profile)]
    return document(heading, f"{between}, from {profile.origin}{_sampled(profile)}", parts, _foot(profile, now))


def _sampled(profile: Profile) -> str:
    if profile.sample == 1:
        return ""
    return f"; a sample of {share(profile.sample, 1)}: counts, rates and bytes are those of the sample"


def overview(profile: Profile) -> list[str]:
    """Return the tiles with key figures, and the headlines."""
    return [tiles(_tiles(profile)), headlines("What stands out", what_stands_out(profile))]


def sections(profile: Profile) -> Iterator[str]:
    """Yield the sections of the page: all topics, each topic, then the groups."""
    if len(profile.topics) > 1:
        yield section("All topics", [_together(profile), _topics(profile)])
    for topic in profile.topics[:MOST_TOPICS]:
        yield topic_section(topic, profile)
    yield from group_sections(profile)


def _tiles(profile: Profile) -> list[Tile]:
    stored = sum(topic.stored for topic in profile.topics)
    seconds = max(profile.width * len(profile.steps), 0.001)
    busiest = max(_total_rates(profile), default=0.0)
    lag = sum(step.lag for step in profile.progress)
    dead = sum(failure.messages for failure in profile.failures if failure.is_dead)
    groups = len({step.group for step in profile.progress})
    counted = "messages" if profile.sample == 1 else "messages in the sample"
    return [
        Tile(counted, whole(profile.messages), f"in {many(len(profile.topics), 'topic')}"),
        Tile("stored", size(stored), f"{size(stored / profile.messages)} a message"),
        Tile("mean rate", f"{short(profile.messages / seconds)}/s", f"over {span(seconds * 1000)}"),
        Tile("peak rate", f"{short(busiest)}/s", f"in steps of {span(profile.width * 1000)}"),
        Tile("behind", whole(lag), f"{many(groups, 'group')}" if groups else "no group has consumed"),
        Tile("dead letters", whole(dead), ""),
    ]


def _total_rates(profile: Profile) -> list[float]:
    lines = [rates_of(topic, profile) for topic in profile.topics]
    return [sum(values) for values in zip(*lines, strict=True)]


def _together(profile: Profile) -> str:
    series = [Series("all", _total_rates(profile))]
    series += [Series(topic.topic, rates_of(topic, profile)) for topic in profile.topics[: charts.COLOURS - 1]]
    chart = charts.fitting(
        lambda width: charts.timeline(start_of(profile), profile.width, series, width=width, unit="messages a second"),
        charts.WIDE,
    )
    return grid([card("Messages a second", chart, wide=True)])


def start_of(profile: Profile) -> datetime:
    """Return the start of the first time step."""
    return datetime.fromtimestamp(profile.steps.start * profile.width, UTC)


def _topics(profile: Profile) -> str:
    head = [
        "topic",
        "rate",
        "messages",
        "share",
        "stored",
        "median body",
        "99 % of bodies",
        "born to stored, 99 %",
        "queues",
        "keys",
        "tags",
    ]
    rows: list[Sequence[str | Cell]] = [_topic_row(topic, profile) for topic in profile.topics]
    note = f"{_COMPRESSED} Some messages are compressed: bodies are larger than stored."
    is_needed = any(topic.compressed for topic in profile.topics)
    return grid([card("Topic by topic", table(head, rows, numbers=range(2, 11)), note if is_needed else "", wide=True)])


def _topic_row(topic: TopicProfile, profile: Profile) -> list[str | Cell]:
    mark = _COMPRESSED if topic.compressed else ""
    return [
        topic.topic,
        Cell(charts.sparkline(rates_of(topic, profile))),
        whole(topic.messages),
        share(topic.messages, profile.messages),
        size(topic.stored),
        size(topic.sizes.p50) + mark,
        size(topic.sizes.p99) + mark,
        span(topic.latencies_ms.p99),
        whole(len(topic.queues)),
        whole(topic.key_count),
        whole(topic.tag_count),
    ]


def _foot(profile: Profile, now: datetime) -> str:
    sentences = [
        _what_was_counted(profile),
        "Times are when the broker stored a message, in UTC.",
        "Percentiles are exact up to 1 KiB and 64 ms; above, they may be 0.2 % and 3 % too high.",
        "Sizes of bodies are those stored: compressed where the sender compressed.",
        "A key is what a message was ordered by, else the first of its keys.",
        f"Lag and queues are those of the moment of the report, {moment(now)} UTC. Made by PyroMQ.",
    ]
    return " ".join(sentences)


def _what_was_counted(profile: Profile) -> str:
    hidden = len(profile.topics) - MOST_TOPICS
    left_out = f" {many(hidden, 'topic')} with fewer messages are in the table only." if hidden > 0 else ""
    if profile.sample == 1:
        return f"All {many(profile.messages, 'message')} that were there have been counted.{left_out}"
    return (
        f"A sample: {share(profile.sample, 1)} of the messages, chosen at random, {whole(profile.messages)} in all."
        f" Counts are those of the sample and are not scaled up; rare keys and tags may be missing.{left_out}"
    )
