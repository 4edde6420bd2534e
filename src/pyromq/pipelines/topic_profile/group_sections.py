"""The sections of a report about consumers: lag, failures and traces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pyromq.pipelines.pages.charts import Bar
from pyromq.pipelines.pages.page import Cell, bar_rows, card, grid, section, table
from pyromq.pipelines.pages.wording import cut, short, span, whole
from pyromq.pipelines.topic_profile.profile import Profile, Timing
from pyromq.pipelines.topic_profile.survey import GroupProgress

_MOST_GROUPS = 20
_MOST_CAUSES = 12


def group_sections(profile: Profile) -> Iterator[str]:
    """Yield the sections about consumers."""
    cards = [*_lags(profile), *_failures(profile)]
    if cards:
        yield section("Consumer groups", [grid(cards)])
    traced = [*_ways(profile.ways), *_timings("Sends", profile.sends), *_timings("Calls of listeners", profile.calls)]
    if traced:
        yield section("Traces", [grid(traced)], "Times that clients took themselves and sent to RMQ_SYS_TRACE_TOPIC.")


def _lags(profile: Profile) -> Iterator[str]:
    names = sorted(profile.lags.items(), key=lambda item: (-item[1], item[0]))[:_MOST_GROUPS]
    if not names:
        return
    steps = {name: [one for one in profile.progress if (one.group, one.queue.topic) == name] for name, _ in names}
    bars = [
        Bar(f"{group}, {topic}", lag, _lag_title(steps[group, topic]), whole(lag), "warn")
        for (group, topic), lag in names
    ]
    rows = [_lag_row(group, topic, steps[group, topic]) for (group, topic), _ in names]
    yield card(
        "Behind",
        bar_rows(bars),
        "Messages that a group has not consumed yet, including those that its filter will skip.",
    )
    yield card("Progress", table(["group", "topic", "consumed", "behind", "worst queue"], rows, numbers=(2, 3, 4)))


def _lag_title(steps: Sequence[GroupProgress]) -> str:
    return "\n".join(
        f"{step.queue.topic} {step.queue.queue_id}: {whole(step.committed_offset)} of {whole(step.max_offset)} consumed"
        for step in steps
    )


def _lag_row(group: str, topic: str, steps: Sequence[GroupProgress]) -> list[str | Cell]:
    worst = max(steps, key=lambda step: step.lag)
    place = f"{worst.queue.queue_id}: {whole(worst.lag)}" if worst.lag else "–"
    consumed, behind = sum(step.committed_offset for step in steps), sum(step.lag for step in steps)
    return [group, topic, short(consumed), whole(behind), place]


def _failures(profile: Profile) -> Iterator[str]:
    ordered = sorted(profile.failures, key=lambda failure: (not failure.is_dead, -failure.messages))[:_MOST_CAUSES]
    if ordered:
        rows = [
            [
                Cell('<b class="warn">given up</b>') if failure.is_dead else "tried again",
                failure.group,
                failure.topic,
                cut(failure.cause, 90) or "(no cause kept)",
                whole(failure.messages),
            ]
            for failure in ordered
        ]
        head = ["", "group", "topic", "cause", "messages"]
        yield card("Failures", table(head, rows, numbers=(4,)), "Numbers in causes are shown as #.", wide=True)


def _ways(ways: Sequence[Timing]) -> Iterator[str]:
    """Draw the time from the send to the listener, which users notice most."""
    ordered = sorted(ways, key=lambda way: -way.p99)[:_MOST_GROUPS]
    if ordered:
        bars = [
            Bar(f"{way.group}, {way.topic}", way.p99, _timing_title(way), f"{span(way.p50)} · {span(way.p99)}", "c1")
            for way in ordered
        ]
        yield card(
            "From the send to the listener",
            bar_rows(bars),
            "Half of the messages, and 99 % of them, take no longer than this.",
        )


def _timing_title(timing: Timing) -> str:
    values = ", ".join(span(value) for value in (timing.p50, timing.p90, timing.p99, timing.most))
    return f"{whole(timing.messages)} messages; half, 90 %, 99 % and all within {values}"


def _timings(title: str, timings: Sequence[Timing]) -> Iterator[str]:
    if timings:
        head = ["", "messages", "half within", "99 %", "all", "failed"]
        rows = [
            [
                timing.topic or timing.group,
                whole(timing.messages),
                *(span(value) for value in (timing.p50, timing.p99, timing.most)),
                whole(timing.failed) if timing.failed else "–",
            ]
            for timing in sorted(timings, key=lambda timing: -timing.messages)[:_MOST_GROUPS]
        ]
        yield card(title, table(head, rows, numbers=range(1, 6)))
