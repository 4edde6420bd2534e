from __future__ import annotations

from datetime import datetime

from pyromq.broker.stats.broker_stats import SAMPLE_PERIOD, Count, Rates, Totals, spaced

MORNING = datetime(2026, 3, 1, 23, 0).timestamp()


def test_rates_are_those_of_the_last_10_60_and_600_seconds() -> None:
    rates = Rates(MORNING)
    assert spaced(rates.by_span("puts")) == "0.0 0.0 0.0"  # mqadmin reads the first as a number from the start
    for number in range(61):
        rates.sample(MORNING + number * SAMPLE_PERIOD, number * SAMPLE_PERIOD, Totals(number * number, 0, 0, 0))
    assert spaced(rates.by_span("puts")) == "11.9 11.4 6.0"
    assert spaced(rates.by_span("gets")) == "0.0 0.0 0.0"


def test_what_was_counted_at_midnight_is_kept_for_two_days() -> None:
    rates = Rates(MORNING)
    for day in range(3):
        rates.sample(MORNING + day * 86_400, day * 86_400, Totals(10 * (day + 1), 0, 0, 0))
    assert (rates.this_morning.puts, rates.yesterday_morning.puts) == (30, 20)


def test_a_groups_rate_covers_a_minute() -> None:
    count = Count()
    assert count.series.rate == 0.0
    for number in range(1, 20):
        count.messages = 100 * number
        count.sample(number)
    assert count.series.rate == 10.0
