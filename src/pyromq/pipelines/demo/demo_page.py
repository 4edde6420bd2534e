"""The page of the demo: the books, the money over time, and the profile of all topics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from html import escape

from pyromq.pipelines.demo.books import Books, WindowSum
from pyromq.pipelines.demo.shop import Totals
from pyromq.pipelines.demo.shop_day import Claim
from pyromq.pipelines.orders import STATES
from pyromq.pipelines.pages import charts
from pyromq.pipelines.pages.charts import Bar, Series
from pyromq.pipelines.pages.page import (
    Cell,
    Headline,
    Tile,
    bar_rows,
    card,
    checked,
    document,
    grid,
    headlines,
    section,
    table,
    tiles,
)
from pyromq.pipelines.pages.wording import many, moment, share, whole
from pyromq.pipelines.topic_profile.headlines import headlines as what_stands_out
from pyromq.pipelines.topic_profile.profile import Profile
from pyromq.pipelines.topic_profile.report_page import sections


def render(
    into: Totals,
    claims: Mapping[str, Sequence[Claim]],
    books: Books,
    profile: Profile,
    *,
    window: float,
    resent: Mapping[str, int],
    now: datetime,
) -> str:
    """Return the page as HTML; `window` is the length of a window in seconds, `resent` the dead letters sent again."""
    every = [claim for part in claims.values() for claim in part]
    wrong = [claim.name for claim in every if not claim.is_true]
    subtitle = f"{moment(now)} UTC: one broker, four consumer groups, and Spark, on one machine"
    parts = [
        tiles(_tiles(into, every, books)),
        headlines("The books", [_verdict(wrong, len(every))]),
        section("What became of the orders", [grid([_states(into), _outcome(books), _money(books.sums, window)])]),
        section("What went in, what came out", [grid([_table(claims)])]),
        headlines("What stands out in the shop's topics", what_stands_out(profile, resent)),
        *sections(profile),
    ]
    return document("A day in the shop", subtitle, parts, "Made by `make demo` of PyroMQ. Times are UTC.")


def _verdict(wrong: Sequence[str], count: int) -> Headline:
    if wrong:
        return Headline("warn", f"{many(len(wrong), 'line')} of {count} differ: {', '.join(wrong)}.")
    return Headline("good", f"What came out is what went in: all {count} lines agree.")


def _tiles(into: Totals, claims: Sequence[Claim], books: Books) -> list[Tile]:
    orders, paid = into["created"][0], into["paid"]
    outcome = books.outcome
    return [
        Tile("orders", whole(orders), f"{share(into['finished'][0], orders)} of them finished"),
        Tile("money taken", f"{paid[1] / 100:,.2f}", f"of {many(paid[0], 'order')}"),
        Tile("read by Spark", whole(outcome.read), f"{whole(outcome.written)} kept"),
        Tile("put aside", whole(sum(outcome.dropped.values())), "no orders, or seen before"),
        Tile("lines that agree", f"{sum(claim.is_true for claim in claims)} of {len(claims)}", "in the table below"),
    ]


def _states(into: Totals) -> str:
    orders = into["created"][0]
    bars = [
        Bar(state, messages, note=f"{whole(messages)} · {share(messages, orders)}", tone=f"c{number}")
        for number, (state, messages) in enumerate((state, into[state][0]) for state in STATES)
    ]
    return card("States of the orders", bar_rows(bars), "A delayed message cancels an order that is not paid in time.")


def _outcome(books: Books) -> str:
    bars = [Bar("kept", books.outcome.written, note=whole(books.outcome.written), tone="c2")]
    bars += [Bar(reason, count, note=whole(count), tone="calm") for reason, count in books.outcome.dropped.items()]
    return card("What Spark did with the messages", bar_rows(bars), "Kept as Parquet, each state of an order once.")


def _money(sums: Sequence[WindowSum], window: float) -> str:
    if not sums:
        return card("Cents by window", charts.NOTHING, wide=True)
    start, end = (pick(one.start for one in sums) for pick in (min, max))
    steps = 1 + round((end - start).total_seconds() / window)
    series = []
    for state in STATES:
        values = [0.0] * steps
        for one in (one for one in sums if one.state == state):
            values[round((one.start - start).total_seconds() / window)] += one.cents
        series.append(Series(state, values))
    chart = charts.fitting(lambda width: charts.timeline(start, window, series, width=width, unit="cents"), charts.WIDE)
    return card("Cents by window and state", chart, "From the topic of sums that Spark wrote.", wide=True)


def _table(parts: Mapping[str, Sequence[Claim]]) -> str:
    rows: list[list[str | Cell]] = []
    for name, claims in parts.items():
        rows.append([Cell(f"<b>{escape(name)}</b>"), "", "", "", ""])
        rows += [_row(claim) for claim in claims]
    head = ["", "went in", "came out", "cents in", "cents out"]
    return card("Line by line", table(head, rows, numbers=range(1, 5)), wide=True)


def _row(claim: Claim) -> list[str | Cell]:
    cents = ["" if amount is None else whole(amount) for amount in (claim.cents_expected, claim.cents_seen)]
    return [checked(claim.name, claim.is_true), whole(claim.expected), whole(claim.seen), *cents]
